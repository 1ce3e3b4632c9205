"""Transfer: schedules that were good for kernels of the same class, re-fitted to this kernel's extents."""

from __future__ import annotations

from collections.abc import Iterable

from prune_engine.hookspecs import hookimpl
from prune_engine.strategies import ScheduleTransfer
from prune_engine_transfer.refit import RefitTransfer


@hookimpl
def register_transfers() -> Iterable[ScheduleTransfer]:
    """Offer re-fitting of library entries."""
    return [RefitTransfer()]
