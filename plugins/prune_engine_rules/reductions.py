"""Reductions split into steps of one."""

from __future__ import annotations

from collections.abc import Mapping

from prune_engine.hardware.schema import HardwareProfile
from prune_engine.space import DesignSpace, Sketch, SpaceRestriction, Subject, Variable
from prune_engine.strategies import Rule
from prune_engine.verdicts import BoolArray, RuleKind
from prune_engine_rules.tables import extent_of, inner_product, restrict_tiles

#: Shorter reductions are the windows of convolutions, whose best schedules do take them step by step.
_MIN_EXTENT = 8


class UnitReduction(Rule):
    """The longest reduction of a statement is not tiled: everything inside its outermost loop is one step.

    Then nothing that is loaded for a step is used twice, and a GPU waits for all threads after each.
    """

    name, kind, order = "rules.unit-reduction", RuleKind.HEURISTIC, 10

    def restrict(self, space: DesignSpace, profile: HardwareProfile) -> SpaceRestriction | None:  # noqa: ARG002
        """Cut rows whose inner parts are all 1 where others are possible."""
        return restrict_tiles(space, _cut)

    def reason(self, symbols: Mapping[str, float], profile: HardwareProfile) -> str:  # noqa: ARG002
        """Say what is cut."""
        return f"a reduction of {_MIN_EXTENT} or more steps whose inner tile is a single step"


def _cut(sketch: Sketch, variable: Variable, subject: Subject) -> BoolArray | None:
    extent = extent_of(variable)
    if not subject.is_reduction or extent < _MIN_EXTENT or variable.table.shape[1] < 2:
        return None
    if extent < _longest_reduction(sketch, subject.statement):
        return None
    kept: BoolArray = inner_product(variable) > 1
    return kept


def _longest_reduction(sketch: Sketch, statement: str) -> int:
    return max(
        extent_of(v)
        for v in sketch.variables
        if v.subject is not None and v.subject.is_reduction and v.subject.statement == statement
    )
