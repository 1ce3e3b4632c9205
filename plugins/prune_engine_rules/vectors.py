"""Innermost tiles against the vector units of a CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from prune_engine.hardware.schema import DeviceKind, HardwareProfile
from prune_engine.space import DesignSpace, Int32Array, Sketch, SpaceRestriction, Subject, Variable
from prune_engine.strategies import Rule
from prune_engine.verdicts import BoolArray, RuleKind
from prune_engine_rules.tables import item_bytes, restrict_tiles, tensorized_tile

#: A tile that fills its vectors to this share is as good as a whole number of them; so is one of whole
#: quarter vectors, since a vector unit has narrower forms. Of recorded random schedules of five kernels (AVX-512)
#: this cuts 31 to 58 %, and none within 10 % of the best.
_MIN_FILL = 0.75
_NARROWEST = 4


class VectorLength(Rule):
    """The run along contiguous memory leaves most of its vector lanes empty."""

    name, kind, order = "rules.vector-length", RuleKind.HEURISTIC, 30
    hardware_basis = ("limits.vector_bytes",)

    def restrict(self, space: DesignSpace, profile: HardwareProfile) -> SpaceRestriction | None:
        """Cut rows of the contiguous iterator off the lane width, if there are others."""
        n_lanes = _lanes(space, profile)
        if n_lanes is None:
            return None

        def kept(table: Int32Array, _: bool) -> BoolArray:
            run = _run(table)
            filled = run / (-(-run // n_lanes) * n_lanes)
            rows: BoolArray = (run % max(1, n_lanes // _NARROWEST) == 0) | (filled >= _MIN_FILL)
            return rows

        return restrict_tiles(space, _vectorised(space), kept)

    def reason(self, symbols: Mapping[str, float], profile: HardwareProfile) -> str:  # noqa: ARG002
        """Say how long a vector is."""
        size = profile.value("limits.vector_bytes") or "an unknown number of"
        return f"an innermost tile off the vectors of {size} bytes ({profile.name}, limits.vector_bytes)"


class InnermostTile(Rule):
    """The innermost contiguous tile alone is more than all vector registers hold."""

    name, kind, order = "rules.innermost-tile", RuleKind.HEURISTIC, 31
    hardware_basis = ("limits.vector_registers", "limits.vector_bytes")

    def restrict(self, space: DesignSpace, profile: HardwareProfile) -> SpaceRestriction | None:
        """Cut rows whose last part is longer than registers x lanes."""
        n_lanes, n_registers = _lanes(space, profile), profile.value("limits.vector_registers")
        if n_lanes is None or n_registers is None:
            return None
        most = n_lanes * n_registers
        return restrict_tiles(space, _vectorised(space), lambda table, _: table[:, -1] <= most)

    def reason(self, symbols: Mapping[str, float], profile: HardwareProfile) -> str:  # noqa: ARG002
        """Say how much the registers hold."""
        count, size = (profile.value(path) or "an unknown number of" for path in self.hardware_basis)
        return (
            f"an innermost tile longer than {count} registers of {size} bytes"
            f" ({profile.name}, limits.vector_registers and limits.vector_bytes)"
        )


def _lanes(space: DesignSpace, profile: HardwareProfile) -> int | None:
    """Results that one vector register of a CPU holds; None if unknown."""
    size = profile.value("limits.vector_bytes")
    if profile.kind is not DeviceKind.CPU or size is None or not space.task.arg_dtypes:
        return None
    return max(1, int(size) // item_bytes(space.task.arg_dtypes[-1]))


def _vectorised(space: DesignSpace) -> Callable[[Sketch, Variable, Subject], bool | None]:
    """True for an iterator along contiguous memory, unless matrix instructions take it; else None."""

    def choose(sketch: Sketch, _: Variable, subject: Subject) -> bool | None:
        if subject.is_reduction or not subject.is_contiguous:
            return None
        return True if tensorized_tile(space.task, sketch) is None else None

    return choose


def _run(table: Int32Array) -> Int32Array:
    """What is vectorised of a tile, int32 (m,): its last part, or the one before where that is 1.

    A last part of 1 leaves no loop there, so that the compiler vectorises the next one.
    """
    last = table[:, -1]
    return np.where(last == 1, table[:, -2], last) if table.shape[1] > 1 else last
