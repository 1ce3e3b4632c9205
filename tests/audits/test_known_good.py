"""Every rule is asked about a known winner, by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from prune_engine.audits.known_good import RuleDrop, dropping_rules
from prune_engine.candidates import CandidateBatch
from prune_engine.space import SpaceRestriction
from prune_engine.strategies import Rule
from prune_engine.testing import make_profile, make_space, make_task
from prune_engine.verdicts import RuleKind


class Keeps(Rule):
    name = "t.keeps"


class Masks(Rule):
    name, kind = "t.masks", RuleKind.LEGALITY

    def mask(self, batch: Any, profile: Any) -> Any:
        return np.zeros(len(batch), dtype=np.bool_)

    def reason(self, symbols: Any, profile: Any) -> str:
        return "cannot run"


class Cuts(Rule):
    name = "t.cuts"

    def restrict(self, space: Any, profile: Any) -> SpaceRestriction:
        """Keep the last row of the first variable."""
        keep = np.zeros(len(space.sketches[0].variables[0].table), dtype=np.bool_)
        keep[-1] = True
        return SpaceRestriction({(0, 0): keep})


class Raises(Rule):
    name = "t.raises"

    def mask(self, batch: Any, profile: Any) -> Any:
        raise KeyError("gone")


class Lies(Rule):
    name = "t.lies"

    def mask(self, batch: Any, profile: Any) -> Any:
        return np.ones(len(batch) + 1, dtype=np.bool_)


def batch(*, last: bool) -> CandidateBatch:
    space = make_space(make_task())
    sketch = space.sketches[0]
    rows = np.array([[len(v.table) - 1 if last else 0 for v in sketch.variables]], dtype=np.int32)
    return CandidateBatch(space, sketch, rows)


def test_all_that_object_are_named_with_kind_and_reason() -> None:
    drops = dropping_rules([Masks(), Keeps(), Cuts()], batch(last=False), make_profile())
    assert drops == (
        RuleDrop("t.masks", RuleKind.LEGALITY, "cannot run"),
        RuleDrop("t.cuts", RuleKind.HEURISTIC, "t.cuts"),
    )
    assert dropping_rules([Keeps(), Cuts()], batch(last=True), make_profile()) == ()


def test_a_rule_that_fails_is_no_objection() -> None:
    one, other = dropping_rules([Raises(), Lies()], batch(last=True), make_profile())
    assert one.is_failure
    assert one.reason == "KeyError: 'gone'"
    assert other.is_failure
    assert "mask" in other.reason
