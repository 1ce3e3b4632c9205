"""Transfer: schedules that were good for kernels of the same class, re-fitted to this kernel's extents."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from prune_engine.hookspecs import hookimpl
from prune_engine.library import Origin
from prune_engine.library.files import LibraryFile
from prune_engine.strategies import Library, ScheduleTransfer
from prune_engine_transfer.refit import RefitTransfer

#: Tuned kernels that are shipped: data, made on the devices that its first line names.
SHIPPED = Path(__file__).with_name("library.jsonl.gz")


@hookimpl
def register_transfers() -> Iterable[ScheduleTransfer]:
    """Offer re-fitting of library entries."""
    return [RefitTransfer()]


@hookimpl
def register_libraries() -> Iterable[Library]:
    """Offer the kernels that are shipped, where there are any; nothing is read before it is asked for."""
    return [LibraryFile(SHIPPED, Origin.BUILTIN)] if SHIPPED.is_file() else []
