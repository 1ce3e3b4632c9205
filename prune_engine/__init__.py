"""Prunes the schedule search space of tensor-program compilers before anyone pays for it."""

__version__ = "0.1.0"
