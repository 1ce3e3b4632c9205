"""Candidates with rows that guesses cut: made of proposals, judged by legality, told apart."""

from __future__ import annotations

import numpy as np
import pytest
from kits.pipeline import (
    LEGALITY,
    Made,
    MaskRule,
    RestrictRule,
    assert_adds_up,
    keep_first,
    no_heuristic_keeps,
    pipeline,
    run,
)

from prune_engine.candidates import CandidateBatch
from prune_engine.pipeline import AUDIT_PREFIX, PruneResult
from prune_engine.stages.table_audits import TableAudits, cut_between
from prune_engine.testing import make_batch, make_space
from prune_engine.verdicts import Outcome, RuleKind, Stage

CUT = (Stage.TASK_SPACE, "acme.cut")


def round_of(made: Made, n: int = 200, k: int = 1000) -> PruneResult:
    space, _ = made[0].restrict(make_space())
    proposals = [make_batch(n, space=space), make_batch(n, space=space, sketch=1)]
    result = run(made, proposals, k=k)
    assert_adds_up(result)
    return result


def audits(result: PruneResult) -> list[int]:
    """The row of variable 0 of each audit of the cut."""
    tables = [sketch.variables[0] for sketch in make_space().sketches]
    pairs = zip(result.candidates, result.auditees, strict=True)
    rows = [tables[c.sketch_index].index_of(c.decisions[0]) for c, auditee in pairs if auditee == CUT]
    assert None not in rows
    return [int(row) for row in rows if row is not None]


def test_cut_rows_are_measured_in_proposals() -> None:
    result = round_of(pipeline(RestrictRule("acme.cut", keep_first(3)), audit_fraction=0.1))
    rows = audits(result)
    assert 20 <= len(rows) <= 60  # a tenth of 400, sigma 6
    assert min(rows) >= 3
    others = [c for c, auditee in zip(result.candidates, result.auditees, strict=True) if auditee is None]
    rest = {c.decisions[1:] for c in others}
    assert all(c.decisions[1:] in rest for c, a in zip(result.candidates, result.auditees, strict=True) if a == CUT)


def test_the_verdict_gives_the_rules_reason() -> None:
    made = pipeline(RestrictRule("acme.cut", keep_first(3)), audit_fraction=0.1)
    told = [v for v in round_of(made).verdicts if v.stage is Stage.TASK_SPACE and v.outcome is Outcome.KEPT]
    assert {v.reason for v in told} == {f"{AUDIT_PREFIX}: acme.cut"}
    assert all(v.candidate_id for v in told)


def test_only_legality_judges_them() -> None:
    cut, guess = RestrictRule("acme.cut", keep_first(3)), MaskRule("acme.guess", no_heuristic_keeps)
    assert audits(round_of(pipeline(cut, guess, audit_fraction=0.1)))

    def few(batch: CandidateBatch) -> np.ndarray:
        return np.asarray(batch.indices[:, 0] < 3)

    result = round_of(pipeline(cut, MaskRule("acme.legal", few, LEGALITY), audit_fraction=0.1))
    assert not audits(result)
    assert [v.count > 0 for v in result.verdicts if v.strategy == "acme.legal"] == [True]


def test_a_legality_rule_that_cuts_rows_is_not_audited() -> None:
    rule = RestrictRule("acme.cut", keep_first(3))
    rule.kind = RuleKind.LEGALITY  # type: ignore[misc]
    assert not audits(round_of(pipeline(rule, audit_fraction=1.0)))


@pytest.mark.parametrize("how", ["no audits", "switched off"])
def test_none_are_made(how: str) -> None:
    made = pipeline(RestrictRule("acme.cut", keep_first(3)), audit_fraction=0 if how == "no audits" else 0.5)
    if how == "switched off":
        made[0].restrict(make_space())
        made[0].switch_off("acme.cut", make_space().task.task_id)
    assert not audits(round_of(made))


def test_what_comes_back_is_not_audited_as_another_rules_cut() -> None:
    made = pipeline(RestrictRule("acme.cut", keep_first(3)))
    space = make_space()
    assert made[0].restrict(space)[0].size < space.size
    made[0].switch_off("acme.cut", space.task.task_id)
    assert made[0].restrict(space)[0].size == space.size


def test_the_cut_is_what_the_one_rule_cut() -> None:
    space = make_space()
    after = space.restrict(keep_first(3)(space))
    cut = cut_between(space, after)
    assert set(cut) == {(0, 0), (1, 0)}
    assert cut[0, 0].tolist() == list(range(3, len(space.sketches[0].variables[0].table)))


def test_nothing_to_draw_from() -> None:
    found = TableAudits()
    rng = np.random.default_rng(0)
    assert found.draw([], 5, rng, {"acme.cut"}) == []
    assert found.draw([make_batch(5)], 5, rng, {"acme.cut"}) == []
    space = make_space()
    found.note(space.task.task_id, "acme.cut", space, space.restrict(keep_first(3)(space)))
    assert found.draw([make_batch(0)], 5, rng, {"acme.cut"}) == []
    assert found.draw([make_batch(5)], 5, rng, {"acme.other"}) == []
    assert found.draw([make_batch(5)], 5, rng, {"acme.cut"})
