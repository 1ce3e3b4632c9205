"""Ask and tell on TVM's spaces: what is asked can be built, and a store keeps what was told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import prune_engine as pe
from prune_engine.errors import ConfigError, TargetError
from prune_engine.store.open import open_store

TARGET = "llvm -num-cores=2"


def test_what_is_asked_can_be_built_and_what_is_told_is_kept(tvm: Any, tmp_path: Path) -> None:
    file = tmp_path / "told.sqlite3"
    options = {"target": TARGET, "store": file, "seed": 5}
    with pe.Search("gemm:64x64x64", **options) as search:
        asked = search.ask(3)
        assert len({one.candidate_id for one in asked}) == 3
        for number, candidate in enumerate(asked):
            assert candidate.predicted_secs is None or candidate.predicted_secs > 0
            instructions, decisions = json.loads(candidate.trace)
            schedule = tvm.s_tir.Schedule(search.task.mod)
            tvm.s_tir.schedule.Trace.apply_json_to_schedule([instructions, decisions], schedule)
            module = candidate.module()
            assert isinstance(module, tvm.IRModule)
            search.tell(candidate, run_secs=1e-3 * (number + 1))
        tvm.compile(asked[0].module(), target=tvm.target.Target({"kind": "llvm", "num-cores": 2}))
        best = search.best
        assert best is not None
        assert best.candidate is asked[0]
        device, threads, task_id = search.profile.name, 2, search.task.task_id
    store = open_store(str(file))
    rows = store.candidates(task_id, device, threads)
    store.close()
    assert [row.candidate_id for row in rows] == [one.candidate_id for one in asked]
    assert all(row.trace_json for row in rows)
    with pe.Search("gemm:64x64x64", **options) as search:
        assert search.n_told == 3
        again = search.best
        assert again is not None
        assert again.run_secs == 1e-3
        assert again.candidate.decisions == asked[0].decisions
        assert again.candidate.trace == asked[0].trace


def test_a_model_with_several_kernels_needs_a_task(tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    shapes = {"a": [16, 16], "b": [32, 16]}
    graph = helper.make_graph(
        [helper.make_node("Softmax", [name], [f"{name}_out"]) for name in shapes],
        "two",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, s) for name, s in shapes.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    with pytest.raises(
        ConfigError, match=r"^task: a search is about one kernel; got 2 kernels; expected one of: 1"
    ):
        pe.Search(model, target=TARGET)
    with pe.Search(model, target=TARGET, task=2) as search:
        assert search.task.arg_shapes[0] == (32, 16)
    with pytest.raises(ConfigError, match=r"^task: no such task; got '3'"):
        pe.Search(model, target=TARGET, task=3)


def test_a_gpu_needs_a_name() -> None:
    with pytest.raises(TargetError, match="which GPU"):
        pe.Search("gemm:64x64x64", target="cuda")


def test_relax_modules_are_models(tvm: Any) -> None:
    from tvm import relax

    def module(rows: object) -> Any:
        builder = relax.BlockBuilder()
        x = relax.Var("x", relax.TensorType((rows, 64), "float32"))
        with builder.function("main", [x]):
            with builder.dataflow():
                y = builder.emit(relax.op.matmul(x, relax.const(_ones(64, 48))))
                out = builder.emit_output(relax.op.nn.relu(y))
            builder.emit_func_output(out)
        return builder.finalize()

    (space,) = pe.prune(module(32), target=TARGET, samples=1000)
    assert space.n_sketches == 3
    assert space.size > 1000
    assert space.kept_share is not None
    assert 0 < space.kept_share <= 1
    with pytest.raises(pe.PruneEngineError, match=r"^the model given: input 'x' is no tensor of a fixed shape"):
        pe.prune(module(tvm.tirx.Var("n", "int64")), target=TARGET)


def test_listed_candidates_are_legal_and_can_be_replayed() -> None:
    found = pe.list_candidates("gemm:64x64x64", 3, target="cuda/a100", seed=1)
    assert len({one.candidate_id for one in found}) == 3
    for one in found:
        assert set(one.decisions)
        assert one.symbols["threads_per_block"] <= 1024
        assert one.module() is not None
        assert len(json.loads(one.trace)) == 2
    again = pe.list_candidates("gemm:64x64x64", 3, target="cuda/a100", seed=1)
    assert [one.candidate_id for one in again] == [one.candidate_id for one in found]


def _ones(*shape: int) -> Any:
    import numpy as np

    return np.ones(shape, dtype=np.float32)
