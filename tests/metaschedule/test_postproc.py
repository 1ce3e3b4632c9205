"""PruneEnginePostproc among MetaSchedule's post-processors: what it refuses, counts, and lets pass."""

from __future__ import annotations

import json
from typing import Any

import pytest

from prune_engine.errors import ConfigError, ProfileError
from prune_engine.hardware import DeviceKind
from prune_engine.testing import make_profile

A100 = {
    "kind": "cuda",
    "arch": "sm_80",
    "max_threads_per_block": 1024,
    "max_shared_memory_per_block": 49152,
    "thread_warp_size": 32,
}


def postproc(**options: Any) -> Any:
    from prune_engine.metaschedule import PruneEnginePostproc

    return PruneEnginePostproc(**options)


def context_of(ms: Any, first: Any, target: Any = A100, text: str = "gemm:128x128x128", **options: Any) -> Any:
    import tvm

    from prune_engine.metaschedule.workloads.loading import load_tasks

    mod = load_tasks(text, json.dumps({"kind": "llvm"}), shapes={}, dims={})[0].mod
    made = tvm.target.Target(target)
    generator = ms.space_generator.PostOrderApply(
        sch_rules="from-target",
        postprocs=[first, *ms.Postproc.create(str(made.kind.name))],
        mutator_probs="from-target",
    )
    return ms.TuneContext(mod=mod, target=made, space_generator=generator, num_threads=1, rand_state=1, **options)


def replays(context: Any, n: int) -> list[Any]:
    """Random schedules as TVM has them before post-processing."""
    import tvm

    found = []
    spaces = context.generate_design_space()
    for seed in range(1, n + 1):
        trace = spaces[seed % len(spaces)].trace
        schedule = tvm.s_tir.Schedule(context.mod, seed=seed, debug_mask="none")
        type(trace)(trace.insts, {}).apply_to_schedule(schedule, remove_postproc=True)
        schedule.enter_postproc()
        found.append(schedule)
    return found


def test_it_refuses_what_tvm_refuses_and_nothing_else(ms: Any) -> None:
    """By the target's own limits, so TVM's post-processors say the same, only later."""
    made = postproc()
    context = context_of(ms, made)
    ours, *theirs = list(context.space_generator.postprocs)
    kept = refused = 0
    for schedule in replays(context, 40):
        is_kept = ours.apply(schedule)
        assert is_kept == all(one.apply(schedule) for one in theirs)
        kept, refused = kept + is_kept, refused + (not is_kept)
    assert kept
    assert refused
    counts = made.counts
    assert (counts.n_kept, counts.n_refused, counts.n_unread) == (kept, refused, 0)
    assert dict(counts.refused) == {"rules.refused": refused}
    assert "its target does not allow" in counts.reasons["rules.refused"]


def test_a_profile_can_allow_less_than_the_target(ms: Any) -> None:
    made = postproc(profile=make_profile(DeviceKind.GPU, threads_per_block=64))
    context = context_of(ms, made)
    ours, *theirs = list(context.space_generator.postprocs)
    n_legal = 0
    for schedule in replays(context, 40):
        is_kept = ours.apply(schedule)
        if all(one.apply(schedule) for one in theirs):
            n_legal += 1
            text = str(schedule.mod)
            assert is_kept == (_threads(text) <= 64)
    assert n_legal
    assert made.counts.refused["rules.threads-per-block"]
    assert "64" in made.counts.reasons["rules.threads-per-block"]


def _threads(text: str) -> int:
    import re

    return max(
        int(n) for n in re.findall(r'T\.thread_binding\((?:T\.int64\()?(\d+)\)?, thread="threadIdx\.x"', text)
    )


def test_guesses_refuse_only_where_that_is_asked_for(ms: Any) -> None:
    target = {"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 2}
    counts = {}
    for name, heuristics in (("none", False), ("all", True), ("one", ["rules.device-fill"])):
        made = postproc(profile=make_profile(DeviceKind.CPU), heuristics=heuristics)
        context = context_of(ms, made, target, "gemm:512x512x512")
        for schedule in replays(context, 40):
            next(iter(context.space_generator.postprocs)).apply(schedule)
        counts[name] = made.counts
    assert counts["none"].n_refused == 0
    assert counts["all"].n_refused > counts["one"].n_refused > 0
    assert set(counts["one"].refused) == {"rules.device-fill"}


def test_a_search_of_tvms_with_it(ms: Any) -> None:
    """Counts of the clones are those of the original."""
    made = postproc()
    context = context_of(
        ms,
        made,
        search_strategy=ms.search_strategy.EvolutionarySearch(
            population_size=8, init_min_unmeasured=4, genetic_num_iters=1
        ),
    ).clone()
    context.pre_tuning(
        2, 2, context.generate_design_space(), ms.database.MemoryDatabase(), ms.cost_model.RandomModel()
    )
    assert len(context.generate_measure_candidates()) == 2
    assert made.counts.n_kept
    assert made.counts.n_refused
    assert made.counts.n_unread == 0


def test_what_cannot_be_read_is_kept(ms: Any, tvm: Any) -> None:
    made = postproc()
    context = context_of(ms, made)
    schedule = tvm.s_tir.Schedule(context.mod, seed=1, debug_mask="none")
    loop = schedule.get_loops(schedule.get_sblock("matmul"))[0]
    schedule.split(loop, schedule.sample_partitioned_tile(loop, n=2, partition_pos=1, innerpart_factor=2))
    assert next(iter(context.space_generator.postprocs)).apply(schedule)
    assert (made.counts.n_kept, made.counts.n_unread) == (1, 1)
    assert any("cannot be read" in remark for remark in made.remarks())


def test_a_profile_of_another_kind_of_device(ms: Any) -> None:
    with pytest.raises(ProfileError, match="another kind of device"):
        context_of(ms, postproc(profile=make_profile(DeviceKind.CPU)))


def test_names_of_rules_that_there_are_not(ms: Any) -> None:
    with pytest.raises(ConfigError, match=r"unknown rule; got rules\.nothing"):
        context_of(ms, postproc(heuristics=["rules.nothing"]))


@pytest.mark.parametrize("heuristics", ["rules.refused", [7], None])
def test_heuristics_of_the_wrong_type(ms: Any, heuristics: Any) -> None:
    with pytest.raises(ConfigError, match="heuristics is of the wrong type"):
        postproc(heuristics=heuristics)
