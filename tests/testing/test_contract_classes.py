"""The contract classes pass what keeps the contract and catch, test by test, what breaks it."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prune_engine import testing
from prune_engine.candidates import CandidateBatch
from prune_engine.errors import PluginContractError, SpaceError
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.library import LibraryQuery
from prune_engine.measurement import Measurement
from prune_engine.space import DesignSpace, SpaceRestriction
from prune_engine.store import open_store
from prune_engine.store.base import Store
from prune_engine.strategies import (
    DraftScorer,
    Explorer,
    Fitness,
    Rule,
    ScheduleTransfer,
    ScoreContext,
    Seeds,
    SelectionPool,
    Selector,
    TransferContext,
    TransferProposal,
    Verifier,
)
from prune_engine.symbols.expr import as_expr
from prune_engine.symbols.structure import nest_columns
from prune_engine.task import TuningTask
from prune_engine.testing import (
    DraftScorerContract,
    ExplorerContract,
    FakeWorkbench,
    RuleContract,
    ScheduleTransferContract,
    SelectorContract,
    VerifierContract,
    make_batch,
    make_context,
    make_profile,
    make_space,
    make_task,
)
from prune_engine.testing.transfer_contract import fill_store
from prune_engine.verdicts import BoolArray, DraftScores, Selection, SelectionReason, VerifyScores

CAUGHT = (AssertionError, PluginContractError)


class OddRule(Rule):
    """Keeps even rows of the first variable."""

    name = "acme.odd"

    def restrict(self, space: DesignSpace, profile: HardwareProfile) -> SpaceRestriction | None:
        return SpaceRestriction({(0, 0): np.arange(len(space.sketches[0].variables[0].table)) % 2 == 0})

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> BoolArray:
        mask: BoolArray = batch.indices[:, 0] % 2 == 0
        return mask


class TrueDraft(DraftScorer):
    name = "acme.draft"

    def score(self, batch: CandidateBatch, profile: HardwareProfile) -> DraftScores:
        secs = FakeWorkbench().true_latency_secs(batch)
        return DraftScores(1e-3 / secs, secs, {"n": np.ones(len(batch))})


class DrawingExplorer(Explorer):
    name = "acme.explorer"

    def propose(
        self, space: DesignSpace, n: int, fitness: Fitness | None, rng: np.random.Generator
    ) -> Sequence[CandidateBatch]:
        seed = int(rng.integers(1 << 30))
        alive = [s.index for s in space.sketches if s.size]
        return [make_batch(-(-n // len(alive)), space=space, sketch=s, seed=seed) for s in alive]


class MixingExplorer(DrawingExplorer):
    """Takes all tasks that have a sketch for one: proposes their candidates, or leaves them out."""

    def __init__(self, *, repeats: bool) -> None:
        self._repeats = repeats
        self._seen: dict[str, set[tuple[int, ...]]] = {}

    def update(self, batch: CandidateBatch, measurements: Sequence[Measurement]) -> None:
        self._seen.setdefault(batch.sketch.sketch_id, set()).update(map(tuple, batch.indices.tolist()))

    def propose(
        self, space: DesignSpace, n: int, fitness: Fitness | None, rng: np.random.Generator
    ) -> Sequence[CandidateBatch]:
        batches = []
        for batch in super().propose(space, n, fitness, rng):
            seen = self._seen.get(batch.sketch.sketch_id, set())
            rows = sorted(seen) if self._repeats and seen else batch.indices.tolist()
            left = [row for row in rows if self._repeats or tuple(row) not in seen]
            shape = (len(left), len(batch.sketch.variables))
            batches.append(CandidateBatch(space, batch.sketch, np.array(left, dtype=np.int32).reshape(shape)))
        return batches


class MemoryVerifier(Verifier):
    """Predicts the mean of what it saw with the same unroll limit."""

    name = "acme.verifier"

    def __init__(self) -> None:
        self.seen: dict[str, list[float]] = {}

    def key(self, batch: CandidateBatch, row: int) -> str:
        return f"{batch.space.task.task_id}/{batch.sketch.index}/{batch.indices[row, 3]}"

    def score(self, batch: CandidateBatch, context: ScoreContext) -> VerifyScores:
        means = {k: float(np.mean(v)) for k, v in self.seen.items()}
        overall = float(np.mean(list(means.values()))) if means else 1.0
        values, rows = np.unique(batch.indices[:, 3], return_inverse=True)
        known = [means.get(f"{batch.space.task.task_id}/{batch.sketch.index}/{v}", overall) for v in values]
        scores = np.array(known, dtype=np.float64)[rows]
        return VerifyScores(scores, np.zeros(len(batch)), "1", is_trained=bool(means))

    def update(self, batch: CandidateBatch, measurements: Sequence[Measurement], context: ScoreContext) -> None:
        for i, measurement in enumerate(measurements):
            secs = measurement.latency_secs
            self.seen.setdefault(self.key(batch, i), []).append(1e-3 / secs if secs else 0.0)

    def save(self, path: Path) -> None:
        path.write_text(repr({"acme": self.seen}))

    def load(self, path: Path) -> None:
        import ast

        from prune_engine.errors import ConfigError

        try:
            self.seen = ast.literal_eval(path.read_text())["acme"]
        except (ValueError, SyntaxError, KeyError) as error:
            raise ConfigError("not mine", who=str(path)) from error


class TopSelector(Selector):
    name = "acme.selector"

    def select(self, pool: SelectionPool, k: int, rng: np.random.Generator) -> Selection:
        usable = np.flatnonzero(~pool.is_audit)
        top = usable[np.argsort(-pool.scores[usable], kind="stable")][:k]
        return Selection(top.astype(np.int64), (SelectionReason.TOP,) * len(top))


class NoTransfer(ScheduleTransfer):
    name = "acme.transfer"

    def propose(
        self, task: TuningTask, space: DesignSpace, context: TransferContext, limit: int
    ) -> TransferProposal:
        if not context.library.find(LibraryQuery()) or not limit:
            return TransferProposal()
        return seeds_of(make_batch(limit, space=space))


def seeds_of(batch: CandidateBatch) -> TransferProposal:
    n = len(batch)
    return TransferProposal((Seeds(batch, ("x",) * n, ("copied",) * n, np.zeros(n)),))


class TestRulePasses(RuleContract):
    @pytest.fixture
    def rule(self) -> Rule:
        return OddRule()


class TestDraftPasses(DraftScorerContract):
    @pytest.fixture
    def draft_scorer(self) -> DraftScorer:
        return TrueDraft()


class TestExplorerPasses(ExplorerContract):
    @pytest.fixture
    def explorer(self) -> Explorer:
        return DrawingExplorer()


class TestVerifierPasses(VerifierContract):
    @pytest.fixture
    def verifier(self) -> Verifier:
        return MemoryVerifier()


class TestSelectorPasses(SelectorContract):
    @pytest.fixture
    def selector(self) -> Selector:
        return TopSelector()


class TestTransferPasses(ScheduleTransferContract):
    @pytest.fixture
    def transfer(self) -> ScheduleTransfer:
        return NoTransfer()


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


@pytest.fixture
def stores() -> Iterator[Mapping[str, Store]]:
    """An empty store and one that knows measurements, for the tests that want one."""
    empty, known = open_store("sqlite://"), open_store("sqlite://")
    fill_store(known, make_space(make_task("source")))
    yield {"empty_store": empty, "store": known}
    empty.close()
    known.close()


@pytest.mark.parametrize(
    ("contract", "fixture", "test", "strategy"),
    BROKEN,
    ids=[f"{c.__name__}-{t}-{i}" for i, (c, _, t, _) in enumerate(BROKEN)],
)
def test_breach_is_caught(
    contract: type, fixture: str, test: str, strategy: object, stores: Mapping[str, Store], tmp_path: Path
) -> None:
    offered = {
        **stores,
        fixture: strategy,
        "space": copy.deepcopy(make_space(make_task(shape=(64, 48, 32)))),
        "source": make_space(make_task("source")),
        "profile": make_profile(),
        "context": make_context(),
        "transfer_context": lambda store: TransferContext(store, "cpu", 2, make_profile(), make_context().draft),
        "symbols": {},
        "fitness": None,
        "tmp_path": tmp_path,
        "n": 50,
        "k": 16,
        "limit": 16,
        "is_trained": True,
        "n_trained": 100,
        "content": b"no model",
    }
    method = getattr(contract(), test)
    arguments = {name: offered[name] for name in inspect.signature(method).parameters}
    # Whatever a broken strategy raises by itself fails the contract's test as well.
    with pytest.raises((*CAUGHT, SpaceError, TypeError, KeyError, IndexError, pytest.fail.Exception, ValueError)):
        method(**arguments)


@pytest.mark.parametrize("contract", sorted({c for c, *_ in BROKEN}, key=lambda c: c.__name__))
def test_every_contract_test_was_seen_failing(contract: type) -> None:
    tests = {name for name in dir(contract) if name.startswith("test_")}
    assert tests == {test for c, _, test, _ in BROKEN if c is contract}


def test_names_of_the_kit() -> None:
    assert all(getattr(testing, name) for name in testing.__all__)
    with pytest.raises(AttributeError, match="NoSuchContract"):
        testing.NoSuchContract  # noqa: B018
    assert issubclass(testing.StoreContract, object)
