"""The arithmetic of the comparison with MetaSchedule: when a run reached a quality, ratios, what is remembered."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    import comparison_quality
    import comparison_state

    return SimpleNamespace(quality=comparison_quality, state=comparison_state)


def run_of(kit: SimpleNamespace, system: str, latencies: list[float | None], seed: int = 0, **fields: Any) -> Any:
    """A run whose trials took a second each after two of start-up."""
    trials = [kit.state.Trial(2.0 + i, latency) for i, latency in enumerate(latencies, 1)]
    found = kit.state.improvements(trials, lambda i: f"module {i}")
    defaults = {"n_trials": len(trials), "n_threads": 2, "target": "t", "ready_secs": 2.0, "load": (0.0, 0.0)}
    wall_secs = 2.0 + len(trials)
    return kit.state.Run(
        system, "task", seed, trials=tuple(trials), improvements=found, wall_secs=wall_secs, **defaults | fields
    )


def retimed(kit: SimpleNamespace, *runs: Any, **other: float) -> Any:
    """Every improvement takes what its run measured, or what ``other`` says of ``system_trial``."""
    secs = {
        (run.system, run.seed, one.trial): other.get(f"{run.system}_{one.trial}", one.latency_secs)
        for run in runs
        for one in run.improvements
    }
    return kit.state.Retiming("task", secs, {}, (0.0, 0.0))


@pytest.fixture
def state(kit: SimpleNamespace, tmp_path: Path) -> Any:
    """The baseline reaches 2.0 with its 40th trial of 100, ours with its fourth (a failure is before it)."""
    state = kit.state.State(tmp_path / "state.jsonl")
    baseline = run_of(kit, "metaschedule-pool", [8.0] * 39 + [2.0] * 61)
    ours = run_of(kit, "ours", [8.0, None, 4.0, 2.0, 1.0])
    for run in (baseline, ours):
        state.add_run(run)
    state.add_retiming(retimed(kit, baseline, ours))
    return state


def test_ratios_of_trials_and_seconds(kit: SimpleNamespace, state: Any) -> None:
    (row,) = kit.quality.rows(state, ["task"], ["ours"], 0.0)
    assert row.reached == kit.quality.Reached(n_trials=4, n_valid=3, secs=6.0)
    assert row.trial_ratio == 100 / 4
    assert row.trial_ratio_to_same == 40 / 4
    assert row.secs_ratio == 102 / 6
    assert row.best_ratio == 2.0
    assert row.shipped_ratio is None


def test_what_counts_is_the_retiming(kit: SimpleNamespace, state: Any) -> None:
    """Ours was lucky with its fourth trial: in turns it takes longer than the quality."""
    state.add_retiming(retimed(kit, *state.runs.values(), ours_4=2.1))
    (row,) = kit.quality.rows(state, ["task"], ["ours"], 0.0)
    assert row.reached.n_trials == 5
    (row,) = kit.quality.rows(state, ["task"], ["ours"], 0.05)
    assert row.reached.n_trials == 4


def test_a_seed_that_never_gets_there_counts_against_all(kit: SimpleNamespace, state: Any) -> None:
    state.add_run(run_of(kit, "ours", [8.0, 4.0], seed=1))
    state.add_retiming(retimed(kit, *state.runs.values()))
    (row,) = kit.quality.rows(state, ["task"], ["ours"], 0.0)
    assert (row.n_reached, row.n_seeds, row.reached, row.trial_ratio) == (1, 2, None, None)


def test_shipped_seconds_are_scaled_without_start_up(kit: SimpleNamespace, state: Any) -> None:
    state.add_run(run_of(kit, "metaschedule", [3.0] * 10))
    assert kit.quality.shipped_wall_secs(state, "task", 100) == pytest.approx(2.0 + 1.0 * 100)
    (row,) = kit.quality.rows(state, ["task"], ["ours"], 0.0)
    assert row.shipped_ratio == pytest.approx(102 / 6)


def test_censored_trials_are_no_improvements(kit: SimpleNamespace) -> None:
    trials = [kit.state.Trial(1.0, 2.0, True), kit.state.Trial(2.0, 3.0), kit.state.Trial(3.0, 3.0)]
    (only,) = kit.state.improvements(trials, str)
    assert (only.trial, only.latency_secs, only.module_json) == (2, 3.0, "1")


def test_curves(kit: SimpleNamespace) -> None:
    run = run_of(kit, "ours", [8.0, None, 4.0, 5.0])
    assert kit.quality.curve(run, "trials") == ([1, 3, 4], [8.0, 4.0, 4.0])
    assert kit.quality.curve(run, "valid") == ([1, 2, 3], [8.0, 4.0, 4.0])
    assert kit.quality.curve(run, "secs") == ([3.0, 5.0, 6.0], [8.0, 4.0, 4.0])


def test_what_was_written_is_read_back(kit: SimpleNamespace, state: Any) -> None:
    with state._path.open("a") as file:
        file.write('{"run": {"system": "ours", ')  # the machine stopped here
    again = kit.state.State(state._path)
    assert again.runs == state.runs
    assert again.retimings == state.retimings
    again.add_run(run_of(kit, "random", [1.0]))
    assert kit.state.State(state._path).runs == again.runs


def test_forgetting_a_system_keeps_the_others(kit: SimpleNamespace, state: Any) -> None:
    state.forget(["ours"])
    for one in (state, kit.state.State(state._path)):
        assert {key[0] for key in one.runs} == {"metaschedule-pool"}
        assert {key[0] for key in one.retimings["task"].latency_secs} == {"metaschedule-pool"}
    assert len(state._path.read_text().splitlines()) == 2


def test_every_line_is_one_json_object(state: Any) -> None:
    assert [len(json.loads(line)) for line in state._path.read_text().splitlines()] == [1, 1, 1]
