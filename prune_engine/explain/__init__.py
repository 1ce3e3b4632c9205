"""Plain sentences on what became of a candidate, and of one that nobody looked at."""
