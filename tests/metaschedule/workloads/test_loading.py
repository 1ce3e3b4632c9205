"""What a user gives where a model is expected: told apart by form, loaded, compiled and run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kits.workloads import TARGETS, WORKLOADS, workload_task

from prune_engine.errors import ConfigError, ModelImportError
from prune_engine.metaschedule._compat import load_intrinsics
from prune_engine.metaschedule.apply import compile_model
from prune_engine.metaschedule.artifact import load_artifact, save_artifact
from prune_engine.metaschedule.quiet import captured_stderr
from prune_engine.metaschedule.relax_tasks import as_task_module, task_id_of
from prune_engine.metaschedule.targets import architecture_of, resolve_target
from prune_engine.metaschedule.workloads.loading import (
    SourceKind,
    check_source,
    load_model,
    load_tasks,
    result_name,
    source_kind,
)


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("gemm:4x4x4", SourceKind.NAME),
        ("gem:4x4x4", SourceKind.NAME),
        ("gemm", SourceKind.NAME),
        ("model.onnx", SourceKind.ONNX),
        ("model", SourceKind.ONNX),
        ("kernels.py", SourceKind.SCRIPT),
        ("database_workload.JSON", SourceKind.JSON),
        ("a:b/kernels.py", SourceKind.SCRIPT),
    ],
)
def test_kinds(what: str, kind: SourceKind) -> None:
    assert source_kind(what) is kind


def test_a_file_is_never_taken_for_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert source_kind("gemm:4x4x4") is SourceKind.NAME
    Path("gemm:4x4x4").touch()
    assert source_kind("gemm:4x4x4") is SourceKind.ONNX


def test_spellings_of_one_workload_are_one_task(target: str) -> None:
    written = ["conv2d:1x8x9x9,8x3x3,p1", "CONV2D:1x8x9x9,8x3x3,p1x1,s1,d1,g1:f32"]
    first, second = (load_model(text, target) for text in written)
    assert first.tasks == second.tasks
    assert first.tasks[0].name == first.name == written[0]
    assert first.digest == second.digest
    assert load_tasks("conv2d:1x8x9x9,8x3x3,p1+relu", target)[0].task_id != first.tasks[0].task_id


@pytest.mark.parametrize(
    ("what", "name"),
    [
        ("models/net.v2.onnx", "net.v2"),
        ("GEMM:4x4x4:f32+bias", "gemm_4x4x4_bias"),
        ("conv2d:1x8x9x9,8x3x3,p1:f16", "conv2d_1x8x9x9_8x3x3_p1_f16"),
    ],
)
def test_result_name(what: str, name: str) -> None:
    assert result_name(what) == name


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("gemm:4x4", ConfigError),
        ("absent.onnx", ModelImportError),
        ("absent.py", ModelImportError),
        ("absent.json", ModelImportError),
    ],
)
def test_what_cannot_be_read_is_refused_at_once(what: str, error: type[Exception], target: str) -> None:
    with pytest.raises(error):
        check_source(what)
    with pytest.raises(error):
        load_model(what, target)


def test_shapes_are_for_onnx(target: str) -> None:
    with pytest.raises(ConfigError, match="--shape: a workload name has fixed shapes"):
        load_model("gemm:4x4x4", target, shapes={"A": (1, 2)})
    with pytest.raises(ConfigError, match="--dim: a TVMScript file has fixed shapes"):
        load_model("k.py", target, dims={"n": 2})


def test_onnx_goes_to_the_importer(conv_path: Path, target: str) -> None:
    assert len(load_tasks(str(conv_path), target, dims={"batch": 1})) == 2


TWO_KERNELS = "\n".join(
    f"@T.prim_func(s_tir=True)\ndef times{n}(A: T.Buffer((4,), 'float32'), C: T.Buffer((4,), 'float32')):\n"
    f"    for i in T.serial(4):\n        with T.sblock('C'):\n            vi = T.axis.spatial(4, i)\n"
    f"            C[vi] = A[vi] * T.float32({n})\n"
    for n in (2, 3)
)

#: Workloads with instructions for blocks of a matrix -> the target that has them.
WITH_INTRINSICS = {"gemm_int8": "vnni", "gemm_fp16": "cuda"}


def test_workloads_of_the_kit_have_the_design_spaces_they_are_for(tvm: Any) -> None:
    from tvm.s_tir import meta_schedule as ms

    assert len(WORKLOADS) == 24
    for kind in TARGETS:
        load_intrinsics(architecture_of(resolve_target(TARGETS[kind], 4)))
        for name in (name for name, workload in WORKLOADS.items() if kind in workload.kinds):
            task = workload_task(name, kind)
            assert task.name == WORKLOADS[name].text
            context = ms.TuneContext(
                mod=task.mod,
                target=tvm.target.Target(task.target),
                space_generator="post-order-apply",
                num_threads=1,
            )
            with captured_stderr():  # TVM warns of a rule of its own that it does not have
                sketches = context.generate_design_space()
            assert len(sketches) > 0, name
            is_tensorized = any("auto_tensorize" in str(sketch.trace) for sketch in sketches)
            assert is_tensorized == (WITH_INTRINSICS.get(name) == kind), name


def test_workload_compiles_and_runs(target: str, tmp_path: Path) -> None:
    model = load_model("gemm:8x16x32:f64+bias", target)
    assert [t.name for t in (*model.inputs, *model.outputs)] == ["A", "B", "bias", "Y"]
    compiled = compile_model(model, [], target)
    save_artifact(compiled, model, tmp_path / "out", n_threads=1, target=target, manifest={})
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((8, 32)), rng.standard_normal((32, 16)), rng.standard_normal(16)
    (y,) = load_artifact(tmp_path / "out").run({"A": a, "B": b, "bias": c})
    np.testing.assert_allclose(y, a @ b + c)


def test_schedules_of_a_file_reach_its_kernels(tvm: Any, target: str, tmp_path: Path) -> None:
    """Applying a schedule looks for functions that equal the task."""
    (tmp_path / "two.py").write_text(TWO_KERNELS)
    model: Any = load_model(str(tmp_path / "two.py"), target)
    functions = {str(var.name_hint): func for var, func in model.mod.functions_items()}
    assert [task.name for task in model.tasks] == ["times2", "times3"]
    for task in model.tasks:
        assert task_id_of(as_task_module(functions[task.name]), target) == task.task_id


def test_file_of_two_kernels_compiles_and_runs(target: str, tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(TWO_KERNELS)
    model = load_model(str(tmp_path / "two.py"), target)
    compiled = compile_model(model, [], target)
    save_artifact(compiled, model, tmp_path / "out", n_threads=1, target=target, manifest={})
    ones = np.ones(4, np.float32)
    outputs = load_artifact(tmp_path / "out").run({"times2.A": ones, "times3.A": 10 * ones})
    assert [output.tolist() for output in outputs] == [[2.0] * 4, [30.0] * 4]
