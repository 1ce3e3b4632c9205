"""The draft: latency from symbols and the hardware profile, without samples."""

from __future__ import annotations

from collections.abc import Iterable

from prune_engine.hookspecs import hookimpl
from prune_engine.strategies import DraftScorer
from prune_engine_draft.scorer import SymbolDraft


@hookimpl
def register_draft_scorers() -> Iterable[DraftScorer]:
    """Offer the draft that works on every kind of device."""
    return [SymbolDraft()]
