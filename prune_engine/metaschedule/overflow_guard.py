"""Integers that a schedule keeps in too narrow a type, and kernels that overflow by themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from prune_engine.errors import SpaceError
from prune_engine.metaschedule.intervals import Interval, has_narrow_integers, overflows
from prune_engine.task import TuningTask

#: What reading a module of a form that nobody thought of raises: it is then not judged.
_READ_ERRORS = (SpaceError, AttributeError, KeyError, TypeError, ValueError, RuntimeError, IndexError)
#: Magnitudes tried, the largest that suits every type first.
_MAGNITUDES: tuple[int, ...] = tuple((1 << bits) - 1 for bits in range(15, 0, -1))


class OverflowGuard:
    """Holds schedules of one kernel against its untuned form. Costs about a millisecond per schedule."""

    def __init__(self, mod: object, dtypes: Sequence[str]) -> None:
        """Read the untuned kernel. Without arguments of 8 or 16 bits nothing is judged."""
        self._mod, self._dtypes = mod, dtypes
        self._untuned = _read(mod) if has_narrow_integers(dtypes) else None

    def problem(self, scheduled: object) -> str | None:
        """What of a schedule may overflow although no such type of the untuned kernel does, in one clause."""
        if self._untuned is None:
            return None
        known = {one.dtype for one in self._untuned}
        found = [one for one in _read(scheduled) or () if one.dtype not in known]
        return f"may overflow where the untuned kernel does not: {found[0]}" if found else None

    def warning(self) -> str | None:
        """What of the untuned kernel may overflow, in one clause; None if nothing."""
        return f"the kernel itself may overflow: {self._untuned[0]}" if self._untuned else None

    def max_integer(self) -> int | None:
        """The largest magnitude of its arguments with which the untuned kernel cannot overflow; None: any."""
        if not self._untuned:
            return None
        for magnitude in _MAGNITUDES:
            ranges = {n: _within(dtype, magnitude) for n, dtype in enumerate(self._dtypes) if "int" in dtype}
            if not overflows(self._mod, ranges):
                return magnitude
        return 1


def overflow_warnings(tasks: Sequence[TuningTask]) -> Iterator[str]:
    """A sentence on each task whose kernel may overflow whatever its schedule."""
    for task in tasks:
        said = OverflowGuard(task.mod, task.arg_dtypes).warning()
        if said is not None:
            yield f"{task.name}: {said}"


def _within(dtype: str, magnitude: int) -> Interval:
    bits = int("".join(c for c in dtype if c.isdigit()) or 8)
    if dtype.startswith("u"):
        return Interval(0, min(magnitude, 2**bits - 1))
    return Interval(-min(magnitude, 2 ** (bits - 1)), min(magnitude, 2 ** (bits - 1) - 1))


def _read(mod: Any) -> tuple[Any, ...] | None:
    try:
        return overflows(mod)
    except _READ_ERRORS:
        return None
