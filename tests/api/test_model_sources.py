"""Models that a program holds become files that can be named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prune_engine.api.model_sources import named, result_folder, saved
from prune_engine.errors import ConfigError, OutputError
from prune_engine.metaschedule.targets import resolve_target
from prune_engine.metaschedule.workloads.loading import load_model


@pytest.fixture(scope="module")
def kernel(tvm: Any) -> Any:
    from prune_engine.metaschedule.workloads.kernels import workload_kernel
    from prune_engine.metaschedule.workloads.names import parse_workload

    return workload_kernel(parse_workload("gemm:16x16x16"))


def test_names_are_taken_as_they_are(tmp_path: Path) -> None:
    assert saved("gemm:8x8x8", tmp_path) == "gemm:8x8x8"
    assert saved(Path("a/model.onnx"), tmp_path) == "a/model.onnx"
    assert result_folder("gemm:8x8x8", None) == Path("tuned/gemm_8x8x8")
    assert result_folder("x", tmp_path) == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_a_proto_is_written_under_its_graphs_name(proto: Any, tmp_path: Path) -> None:
    file = Path(saved(proto, tmp_path))
    assert file == tmp_path / "model" / "a_small_model.onnx"
    assert file.read_bytes() == proto.SerializeToString()
    assert [one.name for one in file.parent.iterdir()] == [file.name]
    assert result_folder(proto, None) == Path("tuned/a_small_model")


def test_kernels_are_read_back(tvm: Any, kernel: Any, tmp_path: Path) -> None:
    target = resolve_target("llvm", 1)
    one = load_model(saved(kernel, tmp_path), target)
    assert [task.flop_count for task in one.tasks] == [2 * 16**3]
    two = tvm.IRModule({"first": kernel.with_attr("global_symbol", "first")})
    with named(two) as name:
        found = load_model(name, target)
        assert [task.name for task in found.tasks] == ["first"]
        assert found.tasks[0].task_id == one.tasks[0].task_id
    assert not Path(name).exists()


@pytest.mark.parametrize("thing", [None, 3, b"model", {"a": 1}, [1]])
def test_what_is_no_model_is_refused(thing: object, tmp_path: Path) -> None:
    for function in (lambda: result_folder(thing, None), lambda: saved(thing, tmp_path)):
        with pytest.raises(ConfigError, match="is no model"):
            function()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_said(proto: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        saved(proto, tmp_path / "file")
