"""Durable memory of runs."""
