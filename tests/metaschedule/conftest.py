"""MetaSchedule, small ONNX models, and the real ones that `make models` installs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

MODELS = Path(__file__).parents[2] / ".models"

SaveOnnx = Callable[..., Path]


@pytest.fixture(scope="session")
def ms(tvm: Any) -> Any:
    """TVM's MetaSchedule, as we import it."""
    from prune_engine.metaschedule.search import ms

    return ms


@pytest.fixture(scope="session")
def target() -> str:
    from prune_engine.metaschedule.targets import resolve_target

    return resolve_target("native", 2)


@pytest.fixture(scope="session")
def real_model() -> Callable[[str], Path]:
    def find(relative: str) -> Path:
        path = MODELS / relative
        if not path.is_file():
            pytest.skip(f"{path} is missing: run `make models`")
        return path

    return find


@pytest.fixture(scope="session")
def save_onnx(tmp_path_factory: pytest.TempPathFactory) -> SaveOnnx:
    """Write a model: inputs and outputs as name -> [axes] or ([axes], element type)."""

    def save(
        nodes: Sequence[Any],
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
        weights: Mapping[str, np.ndarray] | None = None,
        *,
        opset: int = 17,
        ir_version: int = 8,
        domains: Sequence[str] = (),
        name: str = "model.onnx",
    ) -> Path:
        graph = helper.make_graph(
            list(nodes),
            "graph",
            [_value(n, s) for n, s in inputs.items()],
            [_value(n, s) for n, s in outputs.items()],
            [numpy_helper.from_array(array, n) for n, array in (weights or {}).items()],
        )
        opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
        model = helper.make_model(graph, opset_imports=opsets)
        model.ir_version = ir_version
        path = tmp_path_factory.mktemp("onnx") / name
        onnx.save(model, path)
        return path

    return save


def _value(name: str, declared: Any) -> Any:
    shape, element = declared if isinstance(declared, tuple) else (declared, TensorProto.FLOAT)
    return helper.make_tensor_value_info(name, element, shape)


@pytest.fixture(scope="session")
def conv_path(save_onnx: SaveOnnx) -> Path:
    """Two equal convolutions with ReLU in a row, then one other: weights 2 and 1; batch is symbolic."""
    rng = np.random.default_rng(0)
    weights = {f"w{i}": rng.standard_normal((8, 8, 3, 3)).astype(np.float32) * 0.1 for i in (1, 2)}
    weights["w3"] = rng.standard_normal((16, 8, 1, 1)).astype(np.float32) * 0.1
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], pads=[1, 1, 1, 1], name="first"),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("Conv", ["r2", "w3"], ["y"]),
    ]
    return save_onnx(nodes, {"x": ["batch", 8, 14, 14]}, {"y": ["batch", 16, 14, 14]}, weights, name="conv.onnx")


@pytest.fixture(scope="session")
def conv_model(conv_path: Path, target: str) -> Any:
    from prune_engine.metaschedule.importers import import_onnx

    return import_onnx(conv_path, target=target, shapes={}, dims={"batch": 1})


@pytest.fixture(scope="session")
def schedule_of() -> Callable[..., str]:
    """Make a random schedule of a task with stock TVM; returns the trace JSON, post-processors included."""
    from prune_engine.metaschedule._compat import import_tvm, load_intrinsics
    from prune_engine.metaschedule.targets import architecture_of
    from prune_engine.metaschedule.traces import trace_to_json

    def make(task: Any, seed: int = 1) -> str:
        tvm = import_tvm()
        load_intrinsics(architecture_of(task.target))
        from tvm.s_tir import meta_schedule as ms

        context = ms.TuneContext(
            mod=task.mod,
            target=tvm.target.Target(task.target),
            space_generator="post-order-apply",
            num_threads=1,
            rand_state=seed,
        )
        sketches = context.generate_design_space()
        schedule = tvm.s_tir.Schedule(task.mod, seed=seed, debug_mask="none")
        tvm.s_tir.schedule.Trace(sketches[seed % len(sketches)].trace.insts, {}).apply_to_schedule(
            schedule, remove_postproc=True
        )
        schedule.enter_postproc()
        assert all(postproc.apply(schedule) for postproc in context.space_generator.postprocs)
        return trace_to_json(schedule.trace)

    return make
