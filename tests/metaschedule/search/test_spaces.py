"""PruneEngineSearch on design spaces: TVM's own, what cannot be read and is drawn at random, a GPU's."""

from __future__ import annotations

import json
from typing import Any

from kits.kernels import task_of
from kits.search_contexts import context_of, exhaust, flat, modules, started, tiled_a_little, tiled_in_parts


def test_what_asks_for_the_loops_of_the_root_is_read(ms: Any, gemm: Any, strategy: Any) -> None:
    def curious(sch: Any) -> None:  # as a schedule rule is, that TVM calls for each block
        assert not sch.get_loops(sch.get_sblock("root"))
        tiled_a_little(sch)

    made = strategy()
    context = context_of(ms, gemm, made, curious, postprocs=list(ms.Postproc.create("llvm")))
    started(ms, context, 4, 2)
    assert not any("design space" in remark for remark in made.remarks())


def test_an_instruction_that_we_do_not_know_is_drawn_at_random(ms: Any, gemm: Any, strategy: Any) -> None:
    made = strategy()
    context = started(ms, context_of(ms, gemm, made, tiled_in_parts), 200, 4)
    found = flat(exhaust(ms, context))
    assert found
    assert len(set(modules(found))) == len(found)
    assert any("SamplePartitionedTile" in remark and "at random" in remark for remark in made.remarks())


def test_drawn_schedules_are_ranked_by_the_users_model(ms: Any, gemm: Any, strategy: Any) -> None:
    from tvm.ir.utils import derived_object

    asked = []

    @derived_object
    class LikesText(ms.cost_model.PyCostModel):  # type: ignore[misc,name-defined]
        def predict(self, context: Any, candidates: Any) -> Any:
            import numpy as np

            asked.append(len(candidates))
            return np.arange(len(candidates), dtype="float64")

    context = context_of(ms, gemm, strategy(), tiled_in_parts)
    context.pre_tuning(2, 1, context.generate_design_space(), None, LikesText())
    assert len(context.generate_measure_candidates()) == 1
    assert asked
    assert asked[0] > 1


def test_shapes_that_are_no_numbers(tvm: Any, ms: Any, strategy: Any) -> None:
    from tvm import te

    n = te.var("n")
    a = te.placeholder((n, 32), name="a")
    b = te.compute((n, 32), lambda i, j: a[i, j] + 1.0, name="matmul")
    mod = tvm.IRModule({"main": te.create_prim_func([a, b])})

    def split(sch: Any) -> None:
        _, j = sch.get_loops(sch.get_sblock("matmul"))
        sch.split(j, sch.sample_perfect_tile(j, n=2))

    made = strategy()
    context = started(ms, context_of(ms, mod, made, split), 100, 8)
    assert context.generate_measure_candidates() is None, "TVM makes no arguments of such a shape"
    assert any("not all numbers" in remark for remark in made.remarks())
    assert any("cannot measure such a kernel" in remark for remark in made.remarks())


def test_tvms_own_spaces_are_read_and_what_rules_leave_comes_first(ms: Any, gemm: Any, strategy: Any) -> None:
    made = strategy()
    context = started(ms, context_of(ms, gemm, made), 32, 32)
    candidates = context.generate_measure_candidates()
    assert len(candidates) == len(set(modules(candidates))) == 32
    assert not [remark for remark in made.remarks() if "design space" in remark]
    kinds = {str(inst.kind.name) for one in candidates for inst in one.sch.trace.insts}
    assert "EnterPostproc" in kinds, "post-processed by the context's own"


def test_cuda(ms: Any, strategy: Any) -> None:
    """Schedules for a GPU that is not there are legal by TVM's own judgement."""
    task = task_of("gemm", json.dumps({"kind": "llvm"}))
    made = strategy()
    target = {
        "kind": "cuda",
        "arch": "sm_80",
        "max_threads_per_block": 1024,
        "max_shared_memory_per_block": 49152,
        "thread_warp_size": 32,
    }
    context = started(ms, context_of(ms, task.mod, made, target=target), 8, 8)
    candidates = context.generate_measure_candidates()
    assert len(candidates) == 8
    assert all("threadIdx.x" in str(one.sch.mod) for one in candidates)
