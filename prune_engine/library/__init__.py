"""The library of tuned kernels, which schedule transfer starts from: entries, and their form as text and files."""

from prune_engine.library.entries import Choice, KernelClass, LibraryEntry, LibraryQuery, Origin

__all__ = ["Choice", "KernelClass", "LibraryEntry", "LibraryQuery", "Origin"]
