"""Spaces that were measured once: replayed against the engine, and ranked to see how good a ranking is."""
