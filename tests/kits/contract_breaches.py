"""Strategies that break the contracts, each with the contract's test that is to catch it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from kits.contract_strategies import (
    DrawingExplorer,
    MemoryVerifier,
    MixingExplorer,
    NoTransfer,
    OddRule,
    TopSelector,
    TrueDraft,
    seeds_of,
)

from prune_engine.space import SpaceRestriction
from prune_engine.strategies import Rule
from prune_engine.symbols.expr import as_expr
from prune_engine.symbols.structure import nest_columns
from prune_engine.testing import (
    DraftScorerContract,
    ExplorerContract,
    RuleContract,
    ScheduleTransferContract,
    SelectorContract,
    VerifierContract,
    make_batch,
)
from prune_engine.verdicts import Selection, SelectionReason


def broken(base: type, method: str, wrap: Callable[..., object]) -> object:
    """A strategy whose method returns what ``wrap(result, *arguments)`` makes of the right result."""
    right = getattr(base, method)

    def wrong(self: object, *arguments: object) -> object:
        return wrap(right(self, *arguments), *arguments)

    return type(f"Broken{base.__name__}", (base,), {method: wrong})()


def spoil(array: np.ndarray) -> None:
    array.flags.writeable = True
    array[:] = 0


COUNTER = iter(range(10**9))
#: Contract test -> a strategy that breaks it.
RULES: list[tuple[str, object]] = [
    ("test_name_and_kind", type("R", (OddRule,), {"name": "odd"})()),
    ("test_name_and_kind", type("R", (OddRule,), {"kind": "legality"})()),
    ("test_name_and_kind", type("R", (Rule,), {"name": "acme.misspelt", "masks": OddRule.mask})()),
    ("test_name_and_kind", type("R", (OddRule,), {"hardware_basis": ("limits.none_such",)})()),
    ("test_mask_is_bool_n", broken(OddRule, "mask", lambda m, *_: m.astype(int))),
    ("test_mask_is_bool_n", broken(OddRule, "mask", lambda m, *_: m[:-1])),
    ("test_mask_is_bool_n", broken(OddRule, "mask", lambda m, *_: m.tolist())),
    ("test_mask_looks_at_each_candidate_alone", broken(OddRule, "mask", lambda m, *_: np.arange(len(m)) < 7)),
    ("test_mask_looks_at_each_candidate_alone", broken(OddRule, "mask", lambda m, *_: m ^ (next(COUNTER) % 2 > 0))),
    (
        "test_mask_does_not_loop_over_candidates",
        broken(OddRule, "mask", lambda m, *_: np.array([bool(keep) for keep in m], dtype=np.bool_)),
    ),
    (
        "test_sketches_that_could_not_be_read_are_no_failure",
        broken(OddRule, "mask", lambda m, batch, _: m & nest_columns(batch, {"one": lambda _: as_expr(1)})["one"]),
    ),
    ("test_inputs_are_not_changed", broken(OddRule, "mask", lambda m, batch, _: (spoil(batch.indices), m)[1])),
    (
        "test_restriction_fits_the_space",
        broken(OddRule, "restrict", lambda r, *_: SpaceRestriction({(9, 0): r.keep[0, 0]})),
    ),
    (
        "test_restriction_fits_the_space",
        broken(OddRule, "restrict", lambda r, *_: SpaceRestriction({(0, 0): r.keep[0, 0][1:]})),
    ),
    (
        "test_restriction_fits_the_space",
        broken(OddRule, "restrict", lambda r, *_: SpaceRestriction({(s, 0): r.keep[0, 0] & False for s in (0, 1)})),
    ),
    ("test_reason_is_one_clause", broken(OddRule, "reason", lambda *_: "")),
    ("test_reason_is_one_clause", broken(OddRule, "reason", lambda *_: None)),
    ("test_reason_is_one_clause", broken(OddRule, "reason", lambda *_: "a\nb")),
]
DRAFTS: list[tuple[str, object]] = [
    ("test_name", type("D", (TrueDraft,), {"name": ""})()),
    *(
        ("test_scores_are_finite_and_not_negative", broken(TrueDraft, "score", wrap))
        for wrap in (
            lambda d, *_: replace(d, scores=d.scores.astype(np.float32)),
            lambda d, *_: replace(d, scores=-d.scores),
            lambda d, *_: replace(d, scores=d.scores * np.nan),
            lambda d, *_: replace(d, latency_secs=d.latency_secs * 0),
            lambda d, *_: replace(d, latency_secs=d.latency_secs.astype(np.float32)),
            lambda d, *_: replace(d, symbols={"n": np.ones(3)}),
            lambda d, *_: d.scores,
        )
    ),
    (
        "test_each_candidate_is_scored_alone",
        broken(TrueDraft, "score", lambda d, *_: replace(d, scores=d.scores / d.scores.max())),
    ),
    (
        "test_score_does_not_loop_over_candidates",
        broken(TrueDraft, "score", lambda d, *_: replace(d, scores=np.vectorize(lambda s: s + 1.0)(d.scores))),
    ),
    ("test_inputs_are_not_changed", broken(TrueDraft, "score", lambda d, batch, _: (spoil(batch.indices), d)[1])),
    (
        "test_calibration_survives_poor_data",
        type("D", (TrueDraft,), {"update": lambda self, batch, m, profile: max(x.latency_secs for x in m)})(),
    ),
]
EXPLORERS: list[tuple[str, object]] = [
    ("test_name", type("E", (DrawingExplorer,), {"name": "x"})()),
    ("test_proposes_about_n_distinct", broken(DrawingExplorer, "propose", lambda b, *_: b * 2)),
    ("test_proposes_about_n_distinct", broken(DrawingExplorer, "propose", lambda b, *_: b[:0])),
    (
        "test_proposes_about_n_distinct",
        broken(DrawingExplorer, "propose", lambda b, *_: [b[0].take(np.zeros(50, int))]),
    ),
    ("test_asked_for_none", broken(DrawingExplorer, "propose", lambda b, s, *_: [make_batch(2, space=s)])),
    (
        "test_seed_decides",
        broken(DrawingExplorer, "propose", lambda b, s, *_: [make_batch(64, space=s, seed=next(COUNTER))]),
    ),
    ("test_seed_decides", broken(DrawingExplorer, "propose", lambda b, s, *_: [make_batch(64, space=s)])),
    (
        "test_does_not_loop_over_candidates",
        broken(
            DrawingExplorer, "propose", lambda b, *_: [x.take(np.array([i + 0 for i in range(len(x))])) for x in b]
        ),
    ),
    ("test_cut_rows_are_never_proposed", broken(DrawingExplorer, "propose", lambda b, *_: [make_batch(100)])),
    ("test_small_space", broken(DrawingExplorer, "propose", lambda b, *_: [])),
    ("test_tasks_of_equal_sketches_are_kept_apart", MixingExplorer(repeats=True)),
    ("test_tasks_of_equal_sketches_are_kept_apart", MixingExplorer(repeats=False)),
    ("test_space_without_choices", broken(DrawingExplorer, "propose", lambda b, *_: [b[0].take(np.zeros(2, int))])),
    (
        "test_learns_from_anything",
        broken(DrawingExplorer, "update", lambda _, b, m: max(x.latency_secs for x in m)),
    ),
    ("test_inputs_are_not_changed", broken(DrawingExplorer, "update", lambda _, b, m: spoil(b.indices))),
]
VERIFIERS: list[tuple[str, object]] = [
    ("test_name", type("V", (MemoryVerifier,), {"name": None})()),
    ("test_untrained_says_so", broken(MemoryVerifier, "score", lambda v, *_: replace(v, is_trained=True))),
    (
        "test_untrained_says_so",
        broken(MemoryVerifier, "score", lambda v, b, *_: replace(v, scores=np.arange(len(b)) * 1.0)),
    ),
    (
        "test_trained_scores_keep_the_contract",
        broken(MemoryVerifier, "score", lambda v, *_: replace(v, scores=-v.scores)),
    ),
    (
        "test_trained_scores_keep_the_contract",
        broken(MemoryVerifier, "score", lambda v, *_: replace(v, degradation_prob=v.scores + 2)),
    ),
    ("test_learns", broken(MemoryVerifier, "score", lambda v, *_: replace(v, scores=1 / (v.scores + 1)))),
    ("test_learns", broken(MemoryVerifier, "score", lambda v, *_: replace(v, is_trained=False))),
    (
        "test_same_data_same_scores",
        broken(MemoryVerifier, "score", lambda v, *_: replace(v, scores=v.scores + next(COUNTER))),
    ),
    (
        "test_score_does_not_loop_over_candidates",
        broken(MemoryVerifier, "score", lambda v, *_: replace(v, scores=np.array([max(s, 0) for s in v.scores]))),
    ),
    ("test_survives_poor_data", broken(MemoryVerifier, "update", lambda _, b, m, *__: m[0])),
    (
        "test_tasks_do_not_mix",
        broken(MemoryVerifier, "update", lambda _, b, m, *__: {"matmul": 0}[b.space.task.name]),
    ),
    ("test_save_and_load", broken(MemoryVerifier, "save", lambda _, path: path.write_text("{'acme': {}}"))),
    ("test_refuses_another_file", type("V", (MemoryVerifier,), {"load": lambda self, path: None})()),
    ("test_inputs_are_not_changed", broken(MemoryVerifier, "update", lambda _, b, m, *__: spoil(b.indices))),
]
SELECTORS: list[tuple[str, object]] = [
    ("test_name", type("S", (TopSelector,), {"name": "x y.z"})()),
    ("test_selects_at_most_k_distinct", broken(TopSelector, "select", lambda s, *_: Selection(s.indices[:0], ()))),
    (
        "test_selects_at_most_k_distinct",
        broken(TopSelector, "select", lambda s, *_: Selection(s.indices.astype(np.int32), s.reasons)),
    ),
    (
        "test_selects_at_most_k_distinct",
        broken(TopSelector, "select", lambda s, *_: Selection(s.indices * 0, s.reasons)),
    ),
    (
        "test_selects_at_most_k_distinct",
        broken(TopSelector, "select", lambda s, *_: Selection(s.indices, s.reasons[1:])),
    ),
    (
        "test_reasons_are_true",
        broken(
            TopSelector, "select", lambda s, *_: Selection(s.indices, (SelectionReason.AUDIT,) * len(s.indices))
        ),
    ),
    (
        "test_reasons_are_true",
        broken(
            TopSelector, "select", lambda s, *_: Selection(s.indices, (SelectionReason.PROBE,) * len(s.indices))
        ),
    ),
    ("test_reasons_are_true", broken(TopSelector, "select", lambda s, *_: Selection(np.arange(24), s.reasons))),
    (
        "test_prefers_the_better",
        broken(TopSelector, "select", lambda s, p, k, r: Selection(np.argsort(p.scores)[:k], s.reasons)),
    ),
    (
        "test_seed_decides",
        broken(TopSelector, "select", lambda s, *_: Selection(np.roll(s.indices, next(COUNTER)), s.reasons)),
    ),
    (
        "test_does_not_loop_over_the_pool",
        broken(TopSelector, "select", lambda s, p, *_: (sorted(p.scores, key=lambda score: -score), s)[1]),
    ),
    ("test_pool_is_not_changed", broken(TopSelector, "select", lambda s, p, *_: (spoil(p.scores), s)[1])),
]
TRANSFERS: list[tuple[str, object]] = [
    ("test_name_and_order", type("T", (NoTransfer,), {"order": "first"})()),
    (
        "test_proposes_at_most_limit",
        broken(NoTransfer, "propose", lambda p, t, space, *_: seeds_of(make_batch(99, space=space))),
    ),
    (
        "test_proposes_at_most_limit",
        broken(NoTransfer, "propose", lambda p, *_: replace(p, seeds=p.seeds * 2)),
    ),
    ("test_empty_library", broken(NoTransfer, "propose", lambda p, *_: p.seeds)),
    (
        "test_same_library_same_seeds",
        broken(NoTransfer, "propose", lambda p, t, s, *_: seeds_of(make_batch(3, space=s, seed=next(COUNTER)))),
    ),
    (
        "test_inputs_are_not_changed",
        broken(NoTransfer, "propose", lambda p, t, s, context, _: (context.library.start_run({}), p)[1]),
    ),
    (
        "test_inputs_are_not_changed",
        broken(NoTransfer, "propose", lambda p, t, s, *_: (spoil(s.sketches[0].variables[3].rows), p)[1]),
    ),
]
BROKEN = [
    (contract, fixture, test, strategy)
    for contract, fixture, cases in (
        (RuleContract, "rule", RULES),
        (DraftScorerContract, "draft_scorer", DRAFTS),
        (ExplorerContract, "explorer", EXPLORERS),
        (VerifierContract, "verifier", VERIFIERS),
        (SelectorContract, "selector", SELECTORS),
        (ScheduleTransferContract, "transfer", TRANSFERS),
    )
    for test, strategy in cases
]
