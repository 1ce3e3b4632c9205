"""TVM's own contexts around a search strategy, their batches and what they were told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prune_engine.config import EngineConfig

PLAIN = EngineConfig(transfer=False, prior="none")


def tiled(sch: Any) -> None:
    i, j, k = sch.get_loops(sch.get_sblock("matmul"))
    i0, i1, i2, i3 = sch.split(i, sch.sample_perfect_tile(i, n=4))
    j0, j1, j2, j3 = sch.split(j, sch.sample_perfect_tile(j, n=4))
    k0, k1 = sch.split(k, sch.sample_perfect_tile(k, n=2))
    sch.reorder(i0, j0, i1, j1, k0, i2, j2, k1, i3, j3)


def tiled_a_little(sch: Any) -> None:
    _, j, k = sch.get_loops(sch.get_sblock("matmul"))
    sch.split(j, sch.sample_perfect_tile(j, n=2))
    sch.split(k, sch.sample_perfect_tile(k, n=2))


def without_a_choice(sch: Any) -> Any:
    return sch


def tiled_in_parts(sch: Any) -> None:
    """Samples by an instruction that is no choice table of ours."""
    i, _, _ = sch.get_loops(sch.get_sblock("matmul"))
    sch.split(i, sch.sample_partitioned_tile(i, n=2, partition_pos=1, innerpart_factor=2))


def context_of(ms: Any, mod: Any, strategy: Any, schedule: Any = "post-order-apply", **options: Any) -> Any:
    space = schedule
    if callable(schedule):
        postprocs = options.pop("postprocs", [])
        space = ms.space_generator.ScheduleFn(schedule, sch_rules=[], postprocs=postprocs, mutator_probs={})
    import tvm

    target = tvm.target.Target(options.pop("target", {"kind": "llvm", "num-cores": 2}))
    return ms.TuneContext(
        mod=mod,
        target=target,
        space_generator=space,
        search_strategy=strategy,
        num_threads=1,
        rand_state=1,
        **options,
    )


def started(ms: Any, context: Any, n: int, k: int, database: Any = None) -> Any:
    context.pre_tuning(n, k, context.generate_design_space(), database or ms.database.MemoryDatabase(), None)
    return context


def ran(ms: Any, candidates: Sequence[Any], secs: float = 0.1) -> list[Any]:
    return [ms.runner.RunnerResult(run_secs=[secs, 2 * secs, 3 * secs], error_msg=None) for _ in candidates]


def exhaust(ms: Any, context: Any) -> list[Any]:
    """Every batch of a search that was started."""
    batches = []
    while (candidates := context.generate_measure_candidates()) is not None:
        batches.append(list(candidates))
        context.notify_runner_results(candidates, ran(ms, candidates))
    return batches


def flat(batches: Sequence[Sequence[Any]]) -> list[Any]:
    return [one for batch in batches for one in batch]


def texts(candidates: Sequence[Any]) -> list[str]:
    return ["\n".join(one.sch.trace.as_python(True)) for one in candidates]


def modules(candidates: Sequence[Any]) -> list[int]:
    import tvm_ffi

    return [tvm_ffi.structural_hash(one.sch.mod) for one in candidates]


def bare(trace: Any) -> str:
    return str(type(trace)(trace.simplified(True).insts, {}))


def committed(ms: Any, database: Any, mod: Any, target: Any, candidates: Sequence[Any], secs: Any) -> None:
    workload = database.commit_workload(mod)
    for one in candidates:
        record = ms.database.TuningRecord(one.sch.trace, workload, secs, target, one.args_info)
        database.commit_tuning_record(record)
