"""Big kernels are decided inside the network: what is fastest there ships, whatever was best alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from prune_engine.lifecycle import TaskResult, TaskSummary
from prune_engine.metaschedule import network_choice
from prune_engine.metaschedule.apply import Winner
from prune_engine.metaschedule.network_choice import NetworkChoice, choose_in_network, contested_tasks


def task(name: str, secs: float, *traces: str, weight: int = 1) -> TaskResult:
    summary = TaskSummary(
        task_id=name,
        name=name,
        weight=weight,
        space_size=9,
        n_trials=9,
        n_valid=9,
        n_new=9,
        failures={},
        default_secs=9.0,
        best_secs=secs,
        best_candidate_id="c",
        stop_reason="",
    )
    return TaskResult(summary, traces[0] if traces else None, {}, contenders=traces)


#: A big kernel that occurs twice in the model, one of one schedule, one that gained nothing, and a small one.
TASKS = [
    task("conv", 4.0, "c0", "c1", "c2"),
    task("dense", 4.0, "d0"),
    task("pool", 4.0),
    task("add", 0.1, "a0", "a1"),
]
NAMES = {"conv": ("conv", "conv1"), "dense": ("dense",), "pool": ("pool",), "add": ("add",)}


class Network:
    """Stands in for compiling and timing: seconds of a function by the schedule that it has."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, secs: Mapping[str, float]) -> None:
        self.secs = secs
        self.compiled: dict[str, dict[str, str]] = {"untuned": {}}
        monkeypatch.setattr(network_choice, "profile_networks", self.profile)

    def compile_with(self, winners: Sequence[Winner]) -> Path:
        name = f"variant{len(self.compiled)}"
        self.compiled[name] = {winner.task_id: winner.trace_json for winner in winners}
        return Path(name)

    def profile(self, dirs: Mapping[str, Path], **options: Any) -> dict[str, dict[str, float]]:
        return {
            key: {
                function: self.secs[self.compiled[str(path)].get(task_id, f"{task_id} untuned")]
                for task_id, functions in NAMES.items()
                for function in functions
            }
            for key, path in dirs.items()
        }


PLAIN = {
    **{"c0": 4.0, "c1": 5.0, "c2": 6.0, "conv untuned": 9.0, "d0": 4.0, "dense untuned": 9.0},
    **{"pool untuned": 4.0, "a0": 0.1, "a1": 0.01, "add untuned": 0.2},
}


def choice(network: Network, tasks: Sequence[TaskResult] = TASKS) -> NetworkChoice:
    return choose_in_network(
        tasks, NAMES, Path("untuned"), network.compile_with, n_threads=1, seed=0, budget_secs=1.0
    )


def shipped(made: NetworkChoice) -> dict[str, str]:
    return {winner.task_id: winner.trace_json for winner in made.winners}


def test_only_big_kernels_with_a_winner_are_decided() -> None:
    assert [one.summary.name for one in contested_tasks(TASKS)] == ["conv", "dense"]
    assert [one.summary.name for one in contested_tasks([*TASKS[:3], task("add", 0.1, "a0", weight=20)])] == [
        *("conv", "dense", "add")
    ]


def test_what_is_best_alone_and_in_the_network_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(monkeypatch, PLAIN)
    made = choice(network)
    assert shipped(made) == {"conv": "c0", "dense": "d0", "add": "a0"}
    assert made.changes == ()
    assert list(network.compiled.values()) == [
        {},
        {"conv": "c0", "dense": "d0", "add": "a0"},
        {"conv": "c1", "dense": "d0", "add": "a0"},
        {"conv": "c2", "dense": "d0", "add": "a0"},
    ]


@pytest.mark.parametrize(("secs", "conv", "changed"), [(3.9, "c2", True), (3.95, "c0", False)])
def test_a_runner_up_that_is_clearly_faster_in_the_network_ships(
    monkeypatch: pytest.MonkeyPatch, secs: float, conv: str, changed: bool
) -> None:
    made = choice(Network(monkeypatch, {**PLAIN, "c2": secs}))
    assert shipped(made) == {"conv": conv, "dense": "d0", "add": "a0"}
    assert made.changes == (("conv: schedule 3 of its finals is faster in the model",) if changed else ())


def test_the_untuned_kernel_ships_if_it_is_faster_in_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    made = choice(Network(monkeypatch, {**PLAIN, "dense untuned": 3.0}))
    assert shipped(made) == {"conv": "c0", "add": "a0"}
    assert made.changes == ("dense: the untuned kernel is faster in the model",)


def test_a_kernel_that_is_not_found_in_the_model_keeps_its_winner(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(monkeypatch, PLAIN)
    monkeypatch.setattr(network_choice, "profile_networks", lambda dirs, **_: {key: {} for key in dirs})
    assert shipped(choice(network)) == {"conv": "c0", "dense": "d0", "add": "a0"}


def test_nothing_is_compiled_where_nothing_is_to_be_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(monkeypatch, PLAIN)
    assert shipped(choice(network, [task("pool", 4.0)])) == {}
    assert list(network.compiled) == ["untuned"]


# --- with the compiler


def test_kernels_are_timed_by_name_in_their_own_process(tvm: Any, tmp_path: Path) -> None:
    from prune_engine.metaschedule.apply import compile_model, kernel_names
    from prune_engine.metaschedule.artifact import save_artifact
    from prune_engine.metaschedule.network_profile import profile_networks
    from prune_engine.metaschedule.targets import resolve_target
    from prune_engine.metaschedule.workloads.loading import load_model

    target = resolve_target("native", 1)
    model = load_model("gemm:64x64x64", target, shapes={}, dims={})
    compiled = compile_model(model, [], target)
    for name in ("untuned", "0"):
        save_artifact(
            compiled, model, tmp_path / name, n_threads=1, target=target, manifest={"run_id": "", "created_at": 0.0}
        )
    dirs = {name: tmp_path / name for name in ("untuned", "0")}
    found = profile_networks(dirs, n_threads=1, seed=0, budget_secs=0.5)
    ((task_id, functions),) = kernel_names(model).items()
    assert task_id == model.tasks[0].task_id
    for name in dirs:
        secs = sum(found[name][function] for function in functions)
        assert 0 < secs < 1
        assert secs > 0.5 * sum(found[name].values()), (
            "the kernel takes the time, not what the machine does beside it"
        )
