"""The arithmetic of the transfer evaluation: percentages, seconds to match, policies, sources, records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    import journal
    import transfer_quality
    import transfer_records

    return SimpleNamespace(journal=journal, quality=transfer_quality, records=transfer_records)


def tuned_task(
    kit: SimpleNamespace, task_id: str, default_secs: float, latencies: dict[float, float], **other: Any
) -> Any:
    """A tuned kernel whose trials were through at the seconds given."""
    trials = tuple(kit.records.Trial(secs, latency) for secs, latency in latencies.items())
    fields = {"weight": 1, "flop_count": 1, "strict": task_id, "anchor": "a", "label": task_id, "trace": "t"}
    return kit.records.TunedTask(task_id, task_id, default_secs=default_secs, trials=trials, **fields | other)


def tuned(kit: SimpleNamespace, *tasks: Any, subject: str = "model") -> Any:
    return kit.records.Tuned(subject, 60.0, 2, 5.0, 70.0, tasks, (0.0, 0.0))


def result(kit: SimpleNamespace, **other: Any) -> Any:
    fields: dict[str, Any] = {
        "n_sources": {"strict": 1},
        "policies": (),
        "policy": None,
        "source": None,
        "n_measured": 0,
        "failures": {},
        "default_secs": 8.0,
        "best_secs": None,
        "trace": None,
        "stop_reason": "",
    }
    return kit.records.MovedResult(**fields | other)


def moved(kit: SimpleNamespace, *tasks: tuple[str, dict[int, Any]], **other: Any) -> Any:
    limits = sorted({limit for _, results in tasks for limit in results})
    fields = {
        "subject": "model",
        "library": "all",
        "n_entries": 3,
        "secs": {limit: 1.0 * limit for limit in limits},
    }
    made = tuple(kit.records.MovedTask(task_id, results) for task_id, results in tasks)
    return kit.records.Moved(tasks=made, load=(0.0, 0.0), **fields | other)


def timed(kit: SimpleNamespace, secs: dict[str, dict[str, float]]) -> Any:
    return kit.records.Timed("model", "all", secs, {}, (0.0, 0.0))


@pytest.fixture
def full(kit: SimpleNamespace) -> Any:
    """Two kernels, the first called twice, and one with nothing to tune: 2 x 8 + 4 + 1 s untuned."""
    return tuned(
        kit,
        tuned_task(kit, "x", 8.0, {10.0: 4.0, 30.0: 2.0}, weight=2),
        tuned_task(kit, "y", 4.0, {20.0: 1.0}),
        tuned_task(kit, "z", 1.0, {}, trace=None, is_tunable=False),
    )


@pytest.fixture
def turns(kit: SimpleNamespace) -> Any:
    """In turns everything took what the runs measured; four measurements get half of the way with ``x``."""
    return timed(
        kit,
        {"x": {"untuned": 8.0, "full": 2.0, "at-4": 4.0}, "y": {"untuned": 4.0, "full": 1.0, "at-4": 1.0}},
    )


@pytest.fixture
def transferred(kit: SimpleNamespace) -> Any:
    counts = {"x": 4, "y": 1, "z": 0}
    return moved(kit, *((name, {4: result(kit, n_measured=n)}) for name, n in counts.items()))


def test_percentage_is_of_what_full_tuning_gains(
    kit: SimpleNamespace, full: Any, transferred: Any, turns: Any
) -> None:
    row = kit.quality.row(full, transferred, turns)
    assert row.speedups["full"] == 21 / 6
    assert row.speedups["at-4"] == 21 / 10
    assert row.percent["at-4"] == pytest.approx(100 * 1.1 / 2.5)
    assert row.percent["full"] == 100.0
    assert (row.n_kernels, row.n_tunable, row.n_with_sources) == (3, 2, 2)
    assert row.secs == {4: 4.0}
    assert row.n_measured == {4: 2.5}


def test_a_maximum_of_nothing_has_no_percentages(kit: SimpleNamespace) -> None:
    assert kit.quality.percent_of_maximum(1.2, 1.0) is None
    assert kit.quality.percent_of_maximum(1.2, 1.4) == pytest.approx(50.0)


def test_a_kernel_without_transferred_schedule_stays_untuned(
    kit: SimpleNamespace, full: Any, transferred: Any, turns: Any
) -> None:
    without = {"x": turns.latency_secs["x"], "y": {"untuned": 4.0, "full": 1.0}}
    row = kit.quality.row(full, transferred, timed(kit, without))
    assert row.speedups["at-4"] == 21 / 13


@pytest.mark.parametrize(
    ("goal", "secs", "is_floor"),
    [
        pytest.param(21.0, 0.0, False, id="untuned will do"),
        pytest.param(13.0, 10.0, False, id="the first kernel half way"),
        pytest.param(12.99, 20.0, False, id="just past it: the second kernel, too"),
        pytest.param(6.0, 30.0, False, id="its own end"),
        pytest.param(5.9, 30.0, True, id="better than it ever gets"),
    ],
)
def test_seconds_to_match(
    kit: SimpleNamespace, full: Any, turns: Any, goal: float, secs: float, is_floor: bool
) -> None:
    assert kit.quality.time_to_match(full, turns, goal) == kit.quality.Match(secs, is_floor)


def test_trials_count_by_what_their_best_takes_in_turns(kit: SimpleNamespace, full: Any) -> None:
    """The machine was twice as slow when ``x`` was tuned."""
    turns = timed(kit, {"x": {"untuned": 8.0, "full": 1.0}, "y": {"untuned": 4.0, "full": 1.0}})
    assert kit.quality.time_to_match(full, turns, 2 * 2.0 + 4.0 + 1.0) == kit.quality.Match(10.0, is_floor=False)


def test_censored_trials_reach_nothing(kit: SimpleNamespace, turns: Any) -> None:
    trials = (kit.records.Trial(5.0, 2.0, is_censored=True), kit.records.Trial(30.0, 2.0))
    run = tuned(kit, replace(tuned_task(kit, "x", 8.0, {}), trials=trials))
    assert kit.quality.time_to_match(run, turns, 2.0).secs == 30.0


def test_policies_add_up_over_kernels(kit: SimpleNamespace) -> None:
    policies = [
        kit.records.Policy("nearest", n_seeds=4, n_refused=1, n_failed=0, n_ran=3, misses={}),
        kit.records.Policy("nearest", n_seeds=2, n_refused=0, n_failed=1, n_ran=1, misses={"too long": 2}),
        kit.records.Policy("ceil", n_seeds=0, n_refused=0, n_failed=0, n_ran=0, misses={"all divide": 3}),
    ]
    moves = moved(
        kit,
        ("x", {4: result(kit, policies=(policies[0], policies[2]), policy="nearest")}),
        ("y", {4: result(kit, policies=(policies[1],))}),
    )
    nearest, ceil = kit.quality.policy_rows([moves], 4)
    assert (nearest.policy, nearest.n_seeds, nearest.n_ran, nearest.n_wins) == ("nearest", 6, 4, 1)
    assert nearest.invalid_percent == pytest.approx(100 * 2 / 6)
    assert nearest.misses == {"too long": 2}
    assert (ceil.invalid_percent, ceil.misses) == (None, {"all divide": 3})
    assert kit.quality.policy_rows([moves], 16) == []


def test_own_speedup_takes_untuned_kernels_where_nothing_shipped(kit: SimpleNamespace, full: Any) -> None:
    moves = moved(
        kit,
        ("x", {4: result(kit, default_secs=8.0, best_secs=4.0)}),
        ("y", {4: result(kit, default_secs=4.0)}),
        ("z", {4: result(kit, default_secs=None)}),
    )
    assert kit.quality.own_speedup(full, moves, 4) == 20 / 12


def test_sources_are_ranked_by_shares_and_counts(kit: SimpleNamespace, full: Any) -> None:
    """``x`` has 16/21 of the target's time: one such kernel beats four of ``y``, but not by their number."""
    few = tuned(kit, tuned_task(kit, "x", 1.0, {1.0: 1.0}), subject="few")
    many = tuned(kit, *(tuned_task(kit, f"y{i}", 1.0, {1.0: 1.0}, strict="y") for i in range(4)), subject="many")
    for form, first in (("squared", "few"), ("covered", "few"), ("count", "many")):
        assert kit.quality.ranked_sources(full, [many, few], form, "strict")[0] == first, form


def test_main_statements_of_other_classes_count_as_much_as_told(kit: SimpleNamespace, full: Any) -> None:
    """``alike`` has nine kernels with the main statement of ``x`` (and all others), ``same`` one of its class."""
    same = tuned(kit, tuned_task(kit, "x", 1.0, {1.0: 1.0}, anchor="b"), subject="same")
    of_anchor = (tuned_task(kit, f"o{i}", 1.0, {1.0: 1.0}, strict="o") for i in range(9))
    alike = tuned(kit, *of_anchor, subject="alike")
    first = {
        name: kit.quality.ranked_sources(full, [alike, same], "linear", name)[0] for name in kit.quality.CLASSES
    }
    assert first["strict"] == "same"
    assert first["strict, anchors as much"] == "alike"  # 3 of all classes against 16/21
    assert first["strict, anchors a quarter"] == "same"
    assert first["anchor"] == "alike"


def test_only_what_was_tuned_counts_for_a_source(kit: SimpleNamespace) -> None:
    source = tuned(kit, tuned_task(kit, "x", 1.0, {1.0: 1.0}, trace=None), tuned_task(kit, "y", 1.0, {1.0: 1.0}))
    assert kit.quality.counts(source, "strict") == {"y": 1}


def test_records_come_back(kit: SimpleNamespace, full: Any, turns: Any, tmp_path: Path) -> None:
    policy = kit.records.Policy("nearest", 4, 1, 0, 3, {"too long": 2})
    moves = moved(kit, ("x", {0: result(kit), 16: result(kit, policies=(policy,), trace="t")}))
    whole = kit.records.Whole("model", {"untuned": (2.0, 2.1)}, True, (0.0, 0.0))
    command = kit.records.Command(
        "model", "all", 16, 9.0, 30, True, True, {"tuned": 1.0}, ("x: as it was",), (0.0, 0.0)
    )
    state = kit.records.State(tmp_path / "new" / "state.jsonl")
    for kind, record in (("tuned", full), ("moved", moves), ("timed", turns), ("whole", whole), ("seeded", full)):
        state.add(kind, record)
    state.add("command", command)
    again = kit.records.State(state.path)
    assert again.tuned == {"model": full} == again.seeded
    assert again.moved == {("model", "all"): moves}
    assert again.timed == {("model", "all"): turns}
    assert again.whole == {"model": whole}
    assert again.command == {("model", "all", 16): command}


def test_a_torn_line_is_left_and_the_next_stands_by_itself(kit: SimpleNamespace, full: Any, tmp_path: Path) -> None:
    state = kit.records.State(tmp_path / "state.jsonl")
    state.add("tuned", full)
    with state.path.open("a") as file:
        file.write('{"tuned": {"subject": "torn')
    state = kit.records.State(state.path)
    state.add("tuned", replace(full, subject="next"))
    assert set(kit.records.State(state.path).tuned) == {"model", "next"}


def test_forgotten_records_stay_forgotten(kit: SimpleNamespace, full: Any, turns: Any, tmp_path: Path) -> None:
    state = kit.records.State(tmp_path / "state.jsonl")
    state.add("tuned", full)
    state.add("timed", turns)
    state.forget(lambda kind, subject, library: (kind, subject, library) == ("timed", "model", "all"))
    assert state.timed == {}
    assert set(kit.records.State(state.path).tuned) == {"model"}


def test_packed_text_comes_back(kit: SimpleNamespace) -> None:
    text = '[["Split"], [1, 2]]' * 100
    assert kit.journal.unpacked(kit.journal.packed(text)) == text
    assert len(kit.journal.packed(text)) < len(text)
