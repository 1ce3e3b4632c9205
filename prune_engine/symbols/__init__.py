"""Columns over candidates."""
