"""Durable memory of runs."""

from prune_engine.store.base import RunRecord, Store, StoredCandidate
from prune_engine.store.open import default_path, open_store

__all__ = ["RunRecord", "Store", "StoredCandidate", "default_path", "open_store"]
