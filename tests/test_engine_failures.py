"""Candidates, tasks, workbench, store and strategies that fail: recorded, and the rest goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kits.engine import FixedSeeds, RunEngine, StrategyPlugin, stored_ids
from kits.pipeline import RestrictRule, keep_first
from prune_engine_explore.uniform import UniformExplorer

from prune_engine.errors import ConfigError, MeasureServerError, NothingMeasuredError
from prune_engine.hookspecs import hookimpl
from prune_engine.measurement import MeasureErrorKind
from prune_engine.space import DesignSpace
from prune_engine.store.base import Store
from prune_engine.task import TuningTask
from prune_engine.testing import FakeWorkbench, make_batch, make_space, make_task
from prune_engine.verdicts import Outcome, Stage


def test_every_candidate_of_a_task_fails(run_engine: RunEngine, store: Store) -> None:
    bad, good = make_task("bad"), make_task("good")
    kinds = {MeasureErrorKind.BUILD_TIMEOUT: 0.5, MeasureErrorKind.WRONG_RESULT: 0.5}

    class HalfBroken(FakeWorkbench):
        def _error(self, task: TuningTask, candidate_id: str) -> Any:
            self._failures = kinds if task.task_id == bad.task_id else {}
            return super()._error(task, candidate_id)

    run = run_engine([bad, good], HalfBroken(default_ratio=9), n_trials=64, plateau_trials=24)
    failed, fine = run.result.tasks
    assert failed.trace_json is None
    assert failed.summary.n_valid == 0
    assert set(failed.summary.failures) == {"build_timeout", "wrong_result"}
    assert sum(failed.summary.failures.values()) == failed.summary.n_trials > 0
    assert failed.failure_examples["wrong_result"] == "planted wrong_result"
    assert dict(run.result.census) == failed.summary.failures
    assert fine.trace_json is not None
    trail = [v for v in store.verdicts(bad.task_id) if v.stage is Stage.MEASURE]
    assert {v.outcome for v in trail} == {Outcome.FAILED}
    assert len(trail) == failed.summary.n_trials


def test_nothing_measurable_at_all(run_engine: RunEngine, store: Store) -> None:
    task = make_task()
    workbench = FakeWorkbench(
        failures={MeasureErrorKind.CRASH: 1.0}, planted={"default": MeasureErrorKind.RUN_TIMEOUT}
    )
    with pytest.raises(NothingMeasuredError) as caught:
        run_engine([task], workbench, n_trials=32)
    assert "default run_timeout: 1" in str(caught.value)
    assert "planted run_timeout" in str(caught.value)
    assert stored_ids(store, task) == ["default"]
    assert store.runs()[0].finished_at is not None


def test_a_task_whose_default_fails_is_left_alone(run_engine: RunEngine) -> None:
    broken, fine = make_task("broken"), make_task("fine")
    workbench = FakeWorkbench(planted={f"{broken.task_id}/default": MeasureErrorKind.WRONG_RESULT})
    run = run_engine([broken, fine], workbench, n_trials=48)
    first, second = run.result.tasks
    assert first.summary.stop_reason == "default_failed"
    assert first.summary.n_trials == 0
    assert first.trace_json is None
    assert "planted wrong_result" in first.failure_examples["default"]
    assert run.result.census == {"default wrong_result": 1}
    assert second.trace_json is not None


def test_a_failed_default_is_tried_again_in_the_next_run(run_engine: RunEngine) -> None:
    task = make_task()
    with pytest.raises(NothingMeasuredError):
        run_engine([task], FakeWorkbench(planted={"default": MeasureErrorKind.RUN_TIMEOUT}), n_trials=32)
    run = run_engine([task], n_trials=32)
    assert run.result.tasks[0].trace_json is not None


def test_a_task_without_a_space_keeps_its_default(run_engine: RunEngine) -> None:
    without, fine = make_task("without"), make_task("fine")
    run = run_engine([without, fine], FakeWorkbench(spaces={without.task_id: None}), n_trials=32)
    first, second = run.result.tasks
    assert first.summary.stop_reason == "no_space"
    assert first.summary.default_secs is not None
    assert "planted" in first.failure_examples["space"]
    assert second.trace_json is not None


def test_the_measure_server_dies_in_the_middle(run_engine: RunEngine, store: Store) -> None:
    task, calls = make_task(), iter(range(1000))

    def die(_: object) -> None:
        if next(calls) == 22:
            raise MeasureServerError("gone for good", who="measuring")

    workbench = FakeWorkbench(on_measure=die)
    with pytest.raises(MeasureServerError, match="gone for good"):
        run_engine([task], workbench, n_trials=64)
    assert len(stored_ids(store, task)) == 22
    assert store.runs()[0].finished_at is None
    skipped = [v for v in store.verdicts(task.task_id) if v.reason == "measuring broke down"]
    assert [v.count for v in skipped] == [11]
    run = run_engine([task], workbench, n_trials=64)
    assert (run.n_repeats, len(run.asked)) == (0, 64)


def test_a_store_that_fails_stops_the_run_without_believing_more(run_engine: RunEngine, store: Store) -> None:
    """What is not stored is not counted: store first, then believe."""
    task, original, n = make_task(), store.add_measured, iter(range(1000))

    def failing(*args: Any) -> None:
        if next(n) == 9:
            raise OSError("disk full (planted)")
        original(*args)

    store.add_measured = failing  # type: ignore[method-assign]
    with pytest.raises(OSError, match="planted"):
        run_engine([task], n_trials=64)
    store.add_measured = original  # type: ignore[method-assign]
    assert len(stored_ids(store, task)) == 9


class BadExplorer(UniformExplorer):
    name = "acme.explorer"

    def __init__(self, propose: Callable[[DesignSpace], Any] | None = None, update: Any = None) -> None:
        self._propose, self._update = propose, update
        self.n_updates = 0

    def propose(self, space: DesignSpace, n: int, fitness: Any, rng: Any) -> Any:
        return self._propose(space) if self._propose else super().propose(space, n, fitness, rng)

    def update(self, batch: Any, measurements: Any) -> None:
        self.n_updates += 1
        if self._update:
            self._update(batch, measurements)


class ExplorerPlugin:
    def __init__(self, explorer: BadExplorer) -> None:
        self._explorer = explorer

    @hookimpl
    def register_explorers(self) -> list[BadExplorer]:
        return [self._explorer]


def explode(*_: object) -> Any:
    raise RuntimeError("planted")


def disallowed_rows(space: DesignSpace) -> Any:
    batch = make_batch(3, space=space)
    rows = batch.indices.copy()
    rows[0, 0] = 10_000
    return [type(batch)(space, space.sketches[0], rows)]


def overwrite(space: DesignSpace) -> Any:
    space.sketches[0].variables[0].rows[:] = 0


BAD_PROPOSALS = {
    "raises": explode,
    "none": lambda space: None,
    "array": lambda space: make_batch(3, space=space).indices,
    "other task": lambda space: [make_batch(3, space=make_space(make_task("other")))],
    "disallowed": disallowed_rows,
    "mutates": overwrite,
    "exits": lambda space: exit(4),
}


@pytest.mark.parametrize("propose", BAD_PROPOSALS.values(), ids=BAD_PROPOSALS)
def test_a_failing_explorer_is_named_and_candidates_are_drawn(run_engine: RunEngine, propose: Any) -> None:
    plugins = {"acme": ExplorerPlugin(BadExplorer(propose))}
    run = run_engine([make_task("a"), make_task("b")], plugins=plugins, explorer="acme.explorer", n_trials=32)
    assert set(run.failures) == {"acme"}
    assert "acme.explorer" in run.failures["acme"]
    assert [t.summary.n_trials for t in run.result.tasks] == [16, 16]


def asked_about(change: Callable[[np.ndarray], None], sketch: int = 0) -> Callable[..., Any]:
    def propose(space: DesignSpace, n: int, fitness: Any, rng: Any) -> Any:
        batch = make_batch(3, space=space, sketch=sketch)
        rows = batch.indices.copy()
        change(rows)
        fitness(type(batch)(space, batch.sketch, rows))
        return [batch]

    return propose


class AskingExplorer(UniformExplorer):
    name = "acme.explorer"

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask

    def propose(self, space: DesignSpace, n: int, fitness: Any, rng: Any) -> Any:
        return self._ask(space, n, fitness, rng)


BAD_QUESTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "beyond": (asked_about(lambda rows: rows.__setitem__((1, 0), 10_000)), "got row 10000 of "),
    "negative": (asked_about(lambda rows: rows.__setitem__((2, 1), -1)), "got row -1 of "),
    "no batch": (lambda space, n, fitness, rng: fitness(make_batch(3, space=space).indices), "got int32 (3, "),
    "other task": (
        lambda space, n, fitness, rng: fitness(make_batch(3, space=make_space(make_task("other")))),
        "got sketch 0 of task other; expected a sketch of the space",
    ),
}


@pytest.mark.parametrize(("ask", "says"), BAD_QUESTIONS.values(), ids=BAD_QUESTIONS)
def test_an_explorer_that_asks_about_what_there_is_not_is_to_blame(
    run_engine: RunEngine, ask: Callable[..., Any], says: str
) -> None:
    options: dict[str, Any] = {
        "explorer": "acme.explorer",
        "draft_scorer": "draft.symbols",
        "verifier": "lightgbm.decisions",
    }
    plugins = {"acme": ExplorerPlugin(AskingExplorer(ask))}  # type: ignore[arg-type]
    run = run_engine([make_task()], plugins=plugins, n_trials=32, **options)
    assert set(run.failures) == {"acme"}
    assert run.failures["acme"].startswith(
        "strategy acme.explorer: its question about fitness broke its contract; "
    )
    assert says in run.failures["acme"]
    assert len(run.asked) == 32


def test_rows_that_rules_cut_may_be_asked_about(run_engine: RunEngine) -> None:
    def ask(space: DesignSpace, n: int, fitness: Any, rng: Any) -> Any:
        scores = fitness(make_batch(50, space=make_space(space.task)))
        assert scores.shape == (50,)
        return UniformExplorer().propose(space, n, None, rng)

    class Cut:
        @hookimpl
        def register_rules(self) -> list[Any]:
            return [RestrictRule("acme.cut", keep_first(2))]

    plugins = {"acme": ExplorerPlugin(AskingExplorer(ask)), "cut": Cut()}  # type: ignore[arg-type]
    run = run_engine([make_task()], plugins=plugins, n_trials=8, explorer="acme.explorer")
    assert not {"acme", "cut"} & set(run.failures)


def test_an_explorer_that_fails_on_one_task_goes_on_with_the_others(run_engine: RunEngine) -> None:
    asked: list[str] = []

    def propose(space: DesignSpace) -> Any:
        asked.append(space.task.name)
        rng = np.random.default_rng(0)
        return explode() if space.task.name == "a" else UniformExplorer().propose(space, 99, None, rng)

    plugins = {"acme": ExplorerPlugin(BadExplorer(propose))}
    tasks = [make_task("a"), make_task("b")]
    run = run_engine(tasks, plugins=plugins, explorer="acme.explorer", n_trials=64)
    assert all(t.summary.n_trials >= 16 for t in run.result.tasks)
    assert asked.count("a") == 1
    assert asked.count("b") > 1


def test_an_explorer_that_only_proposes_what_was_seen_ends_the_task(run_engine: RunEngine) -> None:
    explorer = BadExplorer(lambda space: [make_batch(10, space=space)] * 2)
    plugins = {"acme": ExplorerPlugin(explorer)}
    run = run_engine([make_task()], plugins=plugins, explorer="acme.explorer", n_trials=100)
    assert run.result.stop_reason == "exhausted"
    assert len(run.asked) == 10
    assert not run.failures


def test_learners_that_fail_are_set_aside_once(run_engine: RunEngine) -> None:
    explorer = BadExplorer(update=explode)
    plugins = {"acme": ExplorerPlugin(explorer)}
    run = run_engine([make_task()], plugins=plugins, explorer="acme.explorer", n_trials=64)
    assert explorer.n_updates == 1
    assert run.failures["acme"].count("planted") == 1
    assert len(run.asked) == 64, "it can still propose"


def test_a_learner_cannot_change_what_the_next_one_is_taught(run_engine: RunEngine) -> None:
    explorer = BadExplorer(update=lambda batch, measurements: measurements.clear())
    plugins = {"acme": ExplorerPlugin(explorer)}
    run = run_engine(
        [make_task()], plugins=plugins, explorer="acme.explorer", n_trials=64, verifier="lightgbm.decisions"
    )
    assert set(run.failures) == {"acme"}


def test_a_prior_that_cannot_be_read_ends_the_run_before_anything_is_measured(
    run_engine: RunEngine, store: Store, tmp_path: Path
) -> None:
    file, task = tmp_path / "cut-off.npz", make_task()
    file.write_bytes(b"PK")
    with pytest.raises(ConfigError, match=r"cut-off\.npz: not a model of this verifier"):
        run_engine([task], n_trials=32, verifier="lightgbm.residual", prior=str(file))
    assert not stored_ids(store, task)


@pytest.mark.parametrize(
    ("verifier", "says"),
    [("lightgbm.decisions", "verifier lightgbm.decisions starts from no file"), (None, "there is no verifier to")],
)
def test_a_prior_that_nobody_would_read_is_refused(run_engine: RunEngine, verifier: str | None, says: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"^x\.npz: {says}.*expected one of: lightgbm\.residual\. Leave out --prior"
    ):
        run_engine([make_task()], n_trials=32, verifier=verifier, prior="x.npz")
    run_engine([make_task()], n_trials=8, verifier=verifier, prior="none")


class FailingTransfer(FixedSeeds):
    name = "acme.transfer"

    def __init__(self) -> None:
        self.n_asked = 0

    def propose(self, *args: Any) -> Any:
        self.n_asked += 1
        raise RuntimeError("planted")


def test_a_failing_transfer_is_asked_once(run_engine: RunEngine) -> None:
    transfer = FailingTransfer()
    run = run_engine([make_task("a"), make_task("b")], plugins={"acme": StrategyPlugin(transfer)}, n_trials=32)
    assert transfer.n_asked == 1
    assert "acme.transfer" in run.failures["acme"]
    assert len(run.asked) == 32


@pytest.mark.parametrize(
    ("plugin", "options"),
    [
        (ExplorerPlugin(BadExplorer(explode)), {"explorer": "acme.explorer"}),
        (ExplorerPlugin(BadExplorer(lambda s: None)), {"explorer": "acme.explorer"}),
        (ExplorerPlugin(BadExplorer(update=explode)), {"explorer": "acme.explorer"}),
        (StrategyPlugin(FailingTransfer()), {}),
    ],
)
def test_strict_raises_and_names_the_strategy(
    run_engine: RunEngine, plugin: object, options: dict[str, str]
) -> None:
    from prune_engine.errors import PluginContractError

    with pytest.raises(PluginContractError, match=r"acme\.(explorer|transfer)"):
        run_engine([make_task()], plugins={"acme": plugin}, n_trials=32, strict=True, **options)
