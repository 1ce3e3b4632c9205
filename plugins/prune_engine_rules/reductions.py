"""Reductions split into steps of one."""

from __future__ import annotations

from collections.abc import Mapping

from prune_engine.hardware.schema import HardwareProfile
from prune_engine.space import DesignSpace, Sketch, SpaceRestriction, Subject, Variable
from prune_engine.strategies import Rule
from prune_engine.verdicts import RuleKind
from prune_engine_rules.tables import extent_of, inner_product, restrict_tiles, tensorized_tile

#: Shorter reductions are the windows of convolutions, whose best schedules do take them step by step.
_MIN_EXTENT = 8


class UnitReduction(Rule):
    """The longest reduction of a statement is not tiled: everything inside its outermost loop is one step.

    Then nothing that is loaded for a step is used twice, and a GPU waits for all threads after each. A matrix
    instruction is a tile of its own, so its reductions are left alone.
    """

    name, kind, order = "rules.unit-reduction", RuleKind.HEURISTIC, 10

    def restrict(self, space: DesignSpace, profile: HardwareProfile) -> SpaceRestriction | None:  # noqa: ARG002
        """Cut rows whose inner parts are all 1 where others are possible."""

        def choose(sketch: Sketch, variable: Variable, subject: Subject) -> bool | None:
            """True for the longest reduction of a statement, if it is long enough; else None."""
            is_long = subject.is_reduction and extent_of(variable) >= max(
                _MIN_EXTENT, _longest_reduction(sketch, subject.statement)
            )
            return True if is_long and tensorized_tile(space.task, sketch) is None else None

        return restrict_tiles(space, choose, lambda table, _: inner_product(table) > 1)

    def reason(self, symbols: Mapping[str, float], profile: HardwareProfile) -> str:  # noqa: ARG002
        """Say what is cut."""
        return f"a reduction of {_MIN_EXTENT} or more steps whose inner tile is a single step"


def _longest_reduction(sketch: Sketch, statement: str) -> int:
    return max(
        extent_of(v)
        for v in sketch.variables
        if v.subject is not None and v.subject.is_reduction and v.subject.statement == statement
    )
