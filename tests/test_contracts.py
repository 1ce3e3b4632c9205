"""Everything a strategy can return wrongly is refused with its name; what is right passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from prune_engine import contracts
from prune_engine.candidates import CandidateBatch
from prune_engine.errors import PluginContractError
from prune_engine.space import Sketch, SpaceRestriction
from prune_engine.testing import make_batch, make_space, make_task
from prune_engine.verdicts import DraftScores, Selection, SelectionReason, VerifyScores

TOP = SelectionReason.TOP
SPACE = make_space()
ONES = np.ones(4)


def refused(check: Callable[[], object], *words: str) -> None:
    with pytest.raises(PluginContractError) as caught:
        check()
    text = str(caught.value)
    for word in ("acme.thing", "expected", *words):
        assert word in text


@pytest.mark.parametrize(
    "mask",
    [None, [True] * 4, np.ones(3, bool), np.ones((4, 1), bool), np.ones(4, np.int8), np.ones(4), np.True_],
)
def test_mask(mask: object) -> None:
    assert contracts.check_mask("acme.thing", np.ones(4, bool), 4).all()
    refused(lambda: contracts.check_mask("acme.thing", mask, 4), "bool (4,)")


def n_rows(sketch: int, variable: int) -> int:
    return len(SPACE.sketches[sketch].variables[variable].table)


@pytest.mark.parametrize(
    "restriction",
    [
        {(0, 0): np.ones(n_rows(0, 0), bool)},
        SpaceRestriction({(2, 0): np.ones(n_rows(0, 0), bool)}),
        SpaceRestriction({(-1, 0): np.ones(n_rows(1, 0), bool)}),
        SpaceRestriction({(0, 4): np.ones(3, bool)}),
        SpaceRestriction({(0, 0): np.ones(n_rows(0, 0) + 1, bool)}),
        SpaceRestriction({(0, 0): np.ones(n_rows(0, 0), np.int8)}),
        SpaceRestriction({(0, 0): [True] * n_rows(0, 0)}),  # type: ignore[dict-item]
        SpaceRestriction({(s, 0): np.zeros(n_rows(s, 0), bool) for s in (0, 1)}),
    ],
    ids=["type", "sketch", "negative", "variable", "length", "dtype", "list", "empties"],
)
def test_restriction(restriction: object) -> None:
    half = SpaceRestriction({(0, 0): np.arange(n_rows(0, 0)) % 2 == 0})
    assert contracts.check_restriction("acme.thing", half, SPACE) is half
    refused(lambda: contracts.check_restriction("acme.thing", restriction, SPACE), "restriction")


BAD_SCORES = [
    None,
    [1.0] * 4,
    np.ones(3),
    np.ones((4, 1)),
    np.ones(4, np.float32),
    np.ones(4, np.int64),
    np.array([1, np.nan, 1, 1]),
    np.array([1, np.inf, 1, 1]),
    np.array([1, -1e-9, 1, 1]),
    np.array([1, None, 1, 1]),
]


@pytest.mark.parametrize("scores", BAD_SCORES)
def test_scores(scores: np.ndarray) -> None:
    refused(lambda: contracts.check_draft("acme.thing", DraftScores(scores), 4))
    refused(lambda: contracts.check_verify("acme.thing", VerifyScores(scores, np.zeros(4), "v", True), 4))
    refused(lambda: contracts.check_draft("acme.thing", scores, 4), "DraftScores")
    refused(lambda: contracts.check_verify("acme.thing", scores, 4), "VerifyScores")


BAD_DRAFTS: dict[str, tuple[DraftScores, str]] = {
    "latency shape": (DraftScores(ONES, latency_secs=np.ones(3)), "latency_secs"),
    "latency dtype": (DraftScores(ONES, latency_secs=np.ones(4, np.float32)), "latency_secs"),
    "latency nan": (DraftScores(ONES, latency_secs=np.array([1, 1, 1, np.nan])), "finite values > 0"),
    "latency infinite": (DraftScores(ONES, latency_secs=np.array([1, 1, 1, np.inf])), "finite values > 0"),
    "latency 0": (DraftScores(ONES, latency_secs=np.array([1, 1, 1, 0.0])), "finite values > 0"),
    "symbol shape": (DraftScores(ONES, symbols={"flops": np.ones((4, 2))}), "symbol flops"),
    "symbol text": (DraftScores(ONES, symbols={"flops": np.array(list("abcd"))}), "symbol flops"),
    "penalty list": (DraftScores(ONES, penalties={"cores": [1.0] * 4}), "penalty cores"),  # type: ignore[dict-item]
    "penalty 0": (DraftScores(ONES, penalties={"cores": np.array([1, 1, 0.0, 1])}), "values in (0, 1]"),
    "penalty above 1": (DraftScores(ONES, penalties={"cores": np.array([1, 1, 1.01, 1])}), "values in (0, 1]"),
    "penalty nan": (DraftScores(ONES, penalties={"cores": np.array([1, np.nan, 1, 1])}), "values in (0, 1]"),
}


@pytest.mark.parametrize(("draft", "said"), BAD_DRAFTS.values(), ids=BAD_DRAFTS)
def test_draft_columns(draft: DraftScores, said: str) -> None:
    refused(lambda: contracts.check_draft("acme.thing", draft, 4), said)


def assert_a_copy(checked: object, good: object) -> None:
    """Equal, but nobody who holds the strategy's arrays can change it."""
    for name in good.__dataclass_fields__:  # type: ignore[attr-defined]
        was, is_ = getattr(good, name), getattr(checked, name)
        pairs = [(was, is_)] if not isinstance(was, dict) else [(was[key], is_[key]) for key in was]
        for a, b in pairs:
            np.testing.assert_array_equal(a, b)
            if isinstance(a, np.ndarray):
                assert not np.shares_memory(a, b)
                assert not b.flags.writeable


def test_a_good_draft_passes() -> None:
    good = DraftScores(ONES, ONES, {"a": ONES, "n": np.arange(4)}, {"b": np.full(4, 1e-9)})  # type: ignore[dict-item]
    assert_a_copy(contracts.check_draft("acme.thing", good, 4), good)
    empty = np.ones(0)
    assert contracts.check_draft("acme.thing", DraftScores(empty, empty, {}, {"b": empty}), 0)


@pytest.mark.parametrize(
    "probs",
    [None, np.zeros(3), np.zeros(4, int), np.array([0, 0, 0, 1.1]), np.array([0, 0, 0, -0.1]), np.full(4, np.nan)],
)
def test_degradation_prob(probs: np.ndarray) -> None:
    good = VerifyScores(ONES, np.zeros(4), "v", True)
    assert_a_copy(contracts.check_verify("acme.thing", good, 4), good)
    refused(lambda: contracts.check_verify("acme.thing", replace(good, degradation_prob=probs), 4), "degradation")


BAD_SKIPS: dict[str, dict[str, object]] = {
    "above 1": {"skip_above": 1.01},
    "below 0": {"skip_above": -0.1},
    "nan": {"skip_above": float("nan")},
    "column": {"skip_above": ONES},
    "basis": {"skip_basis": None},
    "basis lines": {"skip_basis": "a\nb"},
    "kinship rows": {"kinship": np.zeros((3, 5), np.int32)},
    "kinship dtype": {"kinship": np.zeros((4, 5))},
    "kinship one tree": {"kinship": np.zeros(4, np.int32)},
    "kinship list": {"kinship": [[0]] * 4},
}


@pytest.mark.parametrize("fields", BAD_SKIPS.values(), ids=BAD_SKIPS)
def test_thresholds_and_kinship(fields: dict[str, object]) -> None:
    good = VerifyScores(ONES, np.zeros(4), "v", True, 0.85, "winner recall", np.zeros((4, 5), np.int32))
    assert_a_copy(contracts.check_verify("acme.thing", good, 4), good)
    bad = replace(good, **fields)  # type: ignore[arg-type]
    refused(lambda: contracts.check_verify("acme.thing", bad, 4), next(iter(fields)))


def test_batches_come_back_with_the_spaces_own_sketches() -> None:
    copy = make_space()
    batch = make_batch(5, space=copy, sketch=1)
    (checked,) = contracts.check_batches("acme.thing", [batch], SPACE)
    assert checked.sketch is SPACE.sketches[1]
    assert checked.space is SPACE
    assert checked.candidate(2) == batch.candidate(2)


def test_batches() -> None:
    other_task = make_batch(3, space=make_space(make_task("other")))
    plain = SPACE.sketches[0]
    few = replace(plain, variables=plain.variables[:2])
    swapped = replace(SPACE.sketches[1], index=0)
    negative = replace(SPACE.sketches[1], index=-1)
    cut = SPACE.restrict(SpaceRestriction({(0, 0): np.arange(n_rows(0, 0)) > 0}))
    zeros = np.zeros((1, 4), dtype=np.int32)
    bad = {
        "type": None,
        "text": "batch",
        "iterator": iter([make_batch(2, space=SPACE)]),
        "element": [zeros],
        "task": [other_task],
        "sketch id": [CandidateBatch(SPACE, Sketch(0, "unknown", plain.variables), zeros)],
        "sketch index": [CandidateBatch(SPACE, swapped, np.zeros((1, 5), dtype=np.int32))],
        "negative index": [CandidateBatch(SPACE, negative, np.zeros((1, 5), dtype=np.int32))],
        "variables": [CandidateBatch(SPACE, few, np.zeros((1, 2), dtype=np.int32))],
        "row": [CandidateBatch(SPACE, plain, np.full((1, 4), 10_000, dtype=np.int32))],
        "negative row": [CandidateBatch(SPACE, plain, np.full((1, 4), -1, dtype=np.int32))],
    }
    for batches in bad.values():
        refused(lambda batches=batches: contracts.check_batches("acme.thing", batches, SPACE), "propose")
    refused(lambda: contracts.check_batches("acme.thing", [CandidateBatch(cut, plain, zeros)], cut), "not allowed")
    assert contracts.check_batches("acme.thing", [], SPACE) == ()
    assert len(contracts.check_batches("acme.thing", [make_batch(0, space=SPACE)], SPACE)) == 1


@pytest.mark.parametrize(
    "selection",
    [
        None,
        np.arange(2),
        Selection([0, 1], (TOP, TOP)),  # type: ignore[arg-type]
        Selection(np.array([0.0, 1.0]), (TOP, TOP)),
        Selection(np.array([[0], [1]]), (TOP, TOP)),
        Selection(np.array([0, 0]), (TOP, TOP)),
        Selection(np.array([0, 5]), (TOP, TOP)),
        Selection(np.array([-1, 0]), (TOP, TOP)),
        Selection(np.array([0, 1, 2, 3]), (TOP,) * 4),
        Selection(np.array([0, 1]), (TOP,)),
        Selection(np.array([0, 1]), ("top", "top")),  # type: ignore[arg-type]
        Selection(np.empty(0, dtype=np.int64), ()),
    ],
)
def test_selection(selection: object) -> None:
    refused(lambda: contracts.check_selection("acme.thing", selection, 5, 3), "select")


def test_a_good_selection_passes() -> None:
    checked = contracts.check_selection("acme.thing", Selection(np.array([4, 0], np.int32), [TOP, TOP]), 5, 3)  # type: ignore[arg-type]
    assert checked.indices.dtype == np.int64
    assert checked.reasons == (TOP, TOP)
    empty = Selection(np.empty(0, dtype=np.int64), ())
    assert not len(contracts.check_selection("acme.thing", empty, 0, 3).indices)
    assert not len(contracts.check_selection("acme.thing", empty, 3, 0).indices)
