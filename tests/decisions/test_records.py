"""Decision chains of a run: a record of each candidate that was looked at closely, and nothing changed by it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prune_engine.candidates import CandidateBatch, candidate_id, rows_of
from prune_engine.config import EngineConfig
from prune_engine.decisions.files import DecisionWriter, decision_files, lines_of
from prune_engine.decisions.records import LINES, Decision, DecisionKind, read_decisions, read_tasks, schema
from prune_engine.engine import Engine
from prune_engine.errors import StoreVersionError
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.hookspecs import hookimpl
from prune_engine.measurement import MeasureErrorKind
from prune_engine.plugins import PluginHost
from prune_engine.schemas import decision_schema
from prune_engine.store.sql import SqlStore
from prune_engine.strategies import DraftScorer, Rule
from prune_engine.task import TuningTask
from prune_engine.testing import FakeWorkbench, make_profile, make_space, make_task
from prune_engine.verdicts import DraftScores, Outcome, RuleKind, SelectionReason, Stage


class Odd(Rule):
    """Drops a fifth of the candidates."""

    name, kind, hardware_basis = "acme.odd", RuleKind.HEURISTIC, ("limits.vector_bytes", "memory.l2.capacity_bytes")

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> Any:
        return batch.indices.sum(axis=1) % 5 != 0

    def reason(self, symbols: Any, profile: HardwareProfile) -> str:
        return "its numbers are odd"


class SumDraft(DraftScorer):
    """Likes large row numbers."""

    name, hardware_basis = "acme.sum", ("core_count", "memory.LEVEL.capacity_bytes")

    def score(self, batch: CandidateBatch, profile: HardwareProfile) -> DraftScores:
        secs = 1e-3 / (1.0 + batch.indices.sum(axis=1))
        sums = batch.indices.sum(axis=1).astype(np.float64)
        return DraftScores(1 / secs, secs, {"row_sum": sums}, {"oddness": np.where(sums % 2, 0.5, 1.0)})


class Plugin:
    @hookimpl
    def register_rules(self) -> list[Rule]:
        return [Odd()]

    @hookimpl
    def register_draft_scorers(self) -> list[DraftScorer]:
        return [SumDraft()]


class Told:
    def __init__(self) -> None:
        self.messages: list[str] = []

    def on_status(self, message: str) -> None:
        self.messages.append(message)

    def on_tasks(self, *_: object) -> None:
        pass


def tune(
    writer: DecisionWriter | None, *, observer: Any = None, task: TuningTask | None = None, **options: Any
) -> FakeWorkbench:
    """Tune a task by the plugin's draft and rule; decisions go to ``writer``."""
    given = {
        "n_trials": 40,
        "draft_size": 64,
        "explore_size": 256,
        "explorer": "explore.uniform",
        "verifier": None,
        "draft_scorer": "acme.sum",
        "transfer": False,
        "audit_fraction": 0.1,
    }
    config = EngineConfig.of(**{**given, **options})
    host = PluginHost(config)
    host.load()
    host.register(Plugin(), "acme")
    workbench = FakeWorkbench(failures={MeasureErrorKind.CRASH: 0.15}, seed=3)
    store = SqlStore("sqlite://")
    engine = Engine(config, workbench, store, make_profile(), host=host, decisions=writer, observer=observer)
    engine.run([task or make_task()])
    workbench.verdicts = store.verdicts(make_task().task_id)  # type: ignore[attr-defined]
    store.close()
    return workbench


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("decisions")


@pytest.fixture(scope="module")
def chain(folder: Path) -> tuple[list[Decision], FakeWorkbench]:
    """One run for all tests that only read: it takes a second, as the verifier is trained."""
    workbench = tune(DecisionWriter(folder), verifier="lightgbm.decisions")
    return list(read_decisions(folder)), workbench


def test_lines_are_as_the_schema_says(chain: object, folder: Path) -> None:
    assert chain
    assert decision_schema() == schema(), "write it anew: schemas/decision.schema.json follows from Decision"
    names = set(decision_schema()["properties"])
    n = 0
    for path in decision_files(folder):
        for text in lines_of(path):
            record = json.loads(text, parse_constant=pytest.fail)
            assert set(record) <= names
            decision = LINES.validate_json(text, strict=True)
            assert decision.version == 1
            n += 1
    assert n > 300


def test_each_candidate_of_a_list_has_one_record_a_round(chain: tuple[list[Decision], FakeWorkbench]) -> None:
    decisions, workbench = chain
    single = [d for d in decisions if d.candidate is not None]
    per_round = Counter((d.round, d.candidate) for d in single)
    assert set(per_round.values()) == {1}
    rounds = Counter(d.round for d in single)
    assert sorted(rounds) == list(range(1, max(rounds) + 1))
    assert all(n >= 64 for n in rounds.values())
    measured = [d for d in single if d.measured is not None]
    assert {d.candidate for d in measured} == {c for _, c in workbench.asked if c != "default"}
    assert len(measured) == 40


def test_ids_and_decisions_are_those_of_the_candidate(chain: tuple[list[Decision], FakeWorkbench]) -> None:
    space = make_space(make_task())
    for decision in chain[0]:
        if decision.candidate is None:
            continue
        assert decision.sketch is not None
        assert decision.decisions is not None
        sketch = space.sketches[decision.sketch]
        choices = [
            (v,) if isinstance(v := decision.decisions[variable.name], int) else tuple(v)
            for variable in sketch.variables
        ]
        assert candidate_id(space.task.task_id, sketch.sketch_id, choices) == decision.candidate
        assert rows_of(sketch, choices) is not None


def test_fates_are_what_the_stages_did(chain: tuple[list[Decision], FakeWorkbench]) -> None:
    decisions, workbench = chain
    kinds = {
        Stage.RULE: {DecisionKind.HEURISTIC, DecisionKind.LEGALITY, DecisionKind.CHOICE},
        Stage.DRAFT: {DecisionKind.GUESS},
        Stage.VERIFY: {DecisionKind.GUESS},
        Stage.SELECT: {DecisionKind.CHOICE},
        Stage.MEASURE: {DecisionKind.MEASUREMENT},
        Stage.TASK_SPACE: {DecisionKind.HEURISTIC, DecisionKind.LEGALITY},
    }
    for decision in decisions:
        assert decision.kind in kinds[decision.stage]
        is_chosen = decision.selected_as is not None
        assert is_chosen == (decision.measured is not None)
        if decision.measured is None:
            assert decision.outcome in (Outcome.DROPPED, Outcome.SKIPPED)
        elif decision.measured.error:
            assert (decision.stage, decision.outcome) == (Stage.MEASURE, Outcome.FAILED)
        else:
            assert (decision.stage, decision.outcome) == (Stage.SELECT, Outcome.KEPT)
    rounds = [d for d in decisions if d.candidate is not None]
    audits = [d for d in rounds if d.selected_as is SelectionReason.AUDIT and d.measured and not d.measured.error]
    assert audits
    assert all("dropped, measured as an audit" in d.reason for d in audits)
    # What the verdicts count is what the lines say, stage by stage.
    counted = Counter[tuple[Stage, Outcome]]()
    for verdict in workbench.verdicts:  # type: ignore[attr-defined]
        counted[verdict.stage, verdict.outcome] += verdict.count
    listed = Counter[tuple[Stage, Outcome]]()
    for decision in decisions:
        listed[decision.stage, decision.outcome] += decision.count
    assert listed[Stage.VERIFY, Outcome.DROPPED] >= counted[Stage.VERIFY, Outcome.DROPPED]
    assert listed[Stage.MEASURE, Outcome.FAILED] == counted[Stage.MEASURE, Outcome.FAILED] > 0


def test_counts_have_an_example_and_what_the_rule_read(
    chain: tuple[list[Decision], FakeWorkbench], profile: HardwareProfile
) -> None:
    counts = [d for d in chain[0] if d.candidate is None and d.strategy == "acme.odd"]
    assert counts
    for decision in counts:
        assert decision.stage is Stage.RULE
        assert decision.reason == "its numbers are odd"
        assert decision.example is not None
        assert [(f.field, f.value) for f in decision.hardware_basis] == [
            (path, profile.value(path)) for path in Odd.hardware_basis
        ]
    dropped = [d for d in chain[0] if d.candidate is None and d.stage is Stage.DRAFT]
    assert dropped
    for decision in dropped:
        assert decision.example is not None, "the best that did not get onto the list"
        assert decision.evidence["n_ranked"] - decision.evidence["n_listed"] <= decision.count
        assert decision.hardware_basis[0].field == "core_count"
        assert len(decision.hardware_basis) > 1, "capitals stand for every level"


def test_expectations_are_held_against_the_best(chain: tuple[list[Decision], FakeWorkbench]) -> None:
    best = None
    by_round: dict[int, list[Decision]] = {}
    for decision in chain[0]:
        if decision.candidate is not None:
            by_round.setdefault(decision.round, []).append(decision)
    predictors = set()
    for number in sorted(by_round):
        for decision in by_round[number]:
            assert decision.predicted_secs is not None
            predictors.add(decision.predicted_by)
            if best is not None:
                assert decision.expected_gain == pytest.approx(best / decision.predicted_secs, rel=1e-4)
        ran = [d.measured.latency_secs for d in by_round[number] if d.measured and d.measured.latency_secs]
        comparable = [
            d.measured.latency_secs
            for d in by_round[number]
            if d.measured and d.measured.latency_secs and not d.measured.is_censored
        ]
        if comparable and ran:
            best = min([*comparable, best] if best else comparable)
        if best is not None:
            best = min(best, 3.0 * make_task().flop_count / 1e9)  # the default's: three floors
    assert predictors == {"acme.sum", "lightgbm.decisions"}


def test_recording_changes_nothing(chain: tuple[list[Decision], FakeWorkbench]) -> None:
    assert list(chain[1].asked) == list(tune(None, verifier="lightgbm.decisions").asked)


def test_a_full_disk_ends_the_record_not_the_run(tmp_path: Path) -> None:
    class Full(DecisionWriter):
        n_calls = 0

        def add(self, lines: Any) -> None:
            self.n_calls += 1
            raise OSError(28, "No space left on device")

    writer, told = Full(tmp_path), Told()
    assert len(tune(writer, observer=told).asked) == 41
    assert writer.n_calls == 1
    assert sum("decisions are not recorded any more" in message for message in told.messages) == 1


def test_reading_by_task_and_candidate(chain: tuple[list[Decision], FakeWorkbench], folder: Path) -> None:
    task = make_task().task_id
    everything = chain[0]
    assert list(read_decisions(folder, task)) == everything
    assert list(read_decisions(folder, "none")) == list(read_decisions(folder / "none")) == []
    some = next(d for d in reversed(everything) if d.candidate is not None)
    found = list(read_decisions(folder, task, some.candidate))
    assert found == [d for d in everything if d.candidate == some.candidate]
    assert read_tasks(folder) == [(task, "matmul")]


def test_names_that_need_escapes(tmp_path: Path) -> None:
    task = make_task('a "quoted" \\ näme')
    tune(DecisionWriter(tmp_path), task=task, n_trials=8)
    assert read_tasks(tmp_path) == [(task.task_id, task.name)]
    assert {d.task_name for d in read_decisions(tmp_path)} == {task.name}


def test_bad_lines_and_newer_ones(tmp_path: Path) -> None:
    good = {
        "version": 1,
        "run": "r",
        "task": "t",
        "round": 1,
        "stage": "rule",
        "strategy": "s",
        "kind": "guess",
        "outcome": "dropped",
        "reason": "why",
        "added_later": 7,
    }
    DecisionWriter(tmp_path).add([json.dumps(good), "{", json.dumps({**good, "stage": "none"}), json.dumps(good)])
    with pytest.warns(UserWarning, match="2 lines are no decisions"):
        assert len(list(read_decisions(tmp_path))) == 2
    DecisionWriter(tmp_path).add([json.dumps({**good, "version": 2})])
    with pytest.warns(UserWarning, match="2 lines"), pytest.raises(StoreVersionError, match="version 2"):
        list(read_decisions(tmp_path))
