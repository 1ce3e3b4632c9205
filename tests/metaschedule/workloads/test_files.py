"""Kernels from TVMScript and from MetaSchedule's workload files, and every way such a file can be wrong."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prune_engine.errors import ModelImportError
from prune_engine.metaschedule.workloads.loading import load_model, load_tasks

Write = Callable[[str, str], str]

MODULE = """
from tvm.script import ir as I
from tvm.script import tirx as T

from beside import N

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((N, N), "float32"), B: T.Buffer((N, N), "float32"), C: T.Buffer((N, N), "float32")):
        for i, j, k in T.grid(N, N, N):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    @T.prim_func(s_tir=True)
    def twice(A: T.Buffer((N,), "float32"), C: T.Buffer((N,), "float32")):
        for i in T.serial(N):
            with T.sblock("C"):
                vi = T.axis.spatial(N, i)
                C[vi] = A[vi] * T.float32(2)

@T.prim_func(s_tir=True)
def alone(A: T.Buffer((N,), "float32"), C: T.Buffer((N,), "float32"), D: T.Buffer((N,), "float32")):
    for i in T.serial(N):
        with T.sblock("C"):
            vi = T.axis.spatial(N, i)
            C[vi] = A[vi] * T.float32(3)
            D[vi] = A[vi] * T.float32(4)
"""


def kernel(body: str, parameters: str = 'A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")') -> str:
    """A TVMScript kernel over one axis, whose names need no import."""
    return (
        f"@T.prim_func(s_tir=True)\ndef kernel({parameters}):\n    for i in T.serial(8):\n"
        f'        with T.sblock("C"):\n            vi = T.axis.spatial(8, i)\n            {body}\n'
    )


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def put(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return put


def test_every_kernel_of_a_script_is_a_task(
    write: Write, tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    write("beside.py", "N = 16")
    path = list(sys.path)
    model = load_model(write("my kernels.py", MODULE), target)
    assert [task.name for task in model.tasks] == ["my_kernels", "twice", "alone"]
    assert [t.name for t in model.inputs] == ["my_kernels.A", "my_kernels.B", "twice.A", "alone.A"]
    assert [t.name for t in model.outputs] == ["my_kernels.C", "twice.C", "alone.C", "alone.D"]
    assert model.tasks[0].arg_shapes == ((16, 16),) * 3
    assert sys.path == path
    assert sorted(p.name for p in tmp_path.iterdir()) == ["beside.py", "my kernels.py"], "nothing else is written"


def test_what_tvm_prints_is_a_script(tvm: Any, write: Write, target: str) -> None:
    (task,) = load_tasks("gemm:8x16x32+bias", target)
    mod: Any = task.mod
    (read,) = load_tasks(write("printed.py", mod.script()), target)
    assert (read.task_id, read.name) == (task.task_id, "printed")


def test_kernels_of_one_name_are_told_apart(write: Write, target: str) -> None:
    text = kernel("C[vi] = A[vi]") + "module = tvm.IRModule({'kernel': kernel})\n"
    model = load_model(write("k.py", text), target)
    assert [t.name for t in model.outputs] == ["kernel.C", "kernel_2.C"]
    assert [task.weight for task in model.tasks] == [2]


def test_a_script_runs_as_an_import_does(write: Write, target: str) -> None:
    text = kernel("C[vi] = A[vi]") + "assert __name__ != '__main__'\n"
    assert len(load_tasks(write("k.py", text), target)) == 1


def test_workload_file_of_a_database(tvm: Any, tmp_path: Path, target: str) -> None:
    from tvm.s_tir import meta_schedule as ms

    tasks = [load_tasks(text, target)[0] for text in ("gemm:8x16x32", "softmax:8x16")]
    database = ms.database.JSONDatabase(work_dir=str(tmp_path))
    for task in tasks:
        database.commit_workload(task.mod)
    read = load_tasks(str(tmp_path / "database_workload.json"), target)
    assert {task.task_id for task in read} == {task.task_id for task in tasks}
    assert [task.name for task in read] == ["workload_1", "workload_2"]


def test_saved_module(tvm: Any, write: Write, target: str) -> None:
    from tvm.ir import save_json

    (task,) = load_tasks("gemm:8x16x32", target)
    (read,) = load_tasks(write("saved.json", save_json(task.mod)), target)
    assert (read.task_id, read.name) == (task.task_id, "saved")


def test_parameters_of_one_name_are_told_apart(tvm: Any, write: Write, target: str) -> None:
    """Inputs are given by name."""
    from tvm import te
    from tvm.ir import save_json

    a, b = te.placeholder((8,), name="A"), te.placeholder((8,), name="A")
    func = te.create_prim_func([a, b, te.compute((8,), lambda i: a[i] - b[i], name="C")])
    model = load_model(write("same.json", save_json(tvm.IRModule({"main": func}))), target)
    assert [t.name for t in model.inputs] == ["A_0", "A_1"]


BAD_SCRIPTS = [
    ("import nonsense_module", "No module named 'nonsense_module'"),
    ("def f(:", "line 1: the TVMScript program failed; got SyntaxError"),
    ("\n\nraise ValueError('so what')", "line 3: the TVMScript program failed; got ValueError: so what"),
    ("import sys; sys.exit(3)", "SystemExit: 3"),
    (kernel("C[vi] = unheard_of"), "Undefined variable: unheard_of"),
    ("x = 1", "holds no kernel"),
    ("", "the file is empty"),
    (kernel("C[vi] = C[vi] + A[vi]"), "changes parameter C in place"),
    (kernel("A[vi] = C[vi]"), r"not its last parameters; got A \(written\), C \(read\)"),
    (kernel("T.evaluate(0)"), "not its last parameters"),
    (kernel("C[vi] = T.float32(n)", 'n: T.int32, C: T.Buffer((8,), "float32")'), "parameter n .* no tensor"),
    (
        "@T.prim_func(s_tir=True)\ndef kernel(a: T.handle, c: T.handle):\n    n = T.int64()\n"
        '    A = T.match_buffer(a, (n,), "float32")\n    C = T.match_buffer(c, (n,), "float32")\n'
        '    for i in T.serial(n):\n        with T.sblock("C"):\n            vi = T.axis.spatial(n, i)\n'
        "            C[vi] = A[vi]\n",
        "no tensor of a fixed shape",
    ),
]


@pytest.mark.parametrize(("text", "message"), BAD_SCRIPTS)
def test_bad_script(write: Write, target: str, text: str, message: str) -> None:
    path = list(sys.path)
    with pytest.raises(ModelImportError, match=message) as caught:
        load_tasks(write("bad.py", text), target)
    assert "bad.py" in str(caught.value)
    assert sys.path == path
    assert "prune_engine_tvmscript" not in sys.modules


def test_bad_script_prints_nothing(write: Write, target: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ModelImportError):
        load_tasks(write("bad.py", kernel("C[vi] = unheard_of")), target)
    assert capfd.readouterr() == ("", "")


def bad_json(line: str) -> list[tuple[str, str]]:
    shash, module = json.loads(line)
    raw = base64.b64decode(module)
    return [
        ("", "the file is empty"),
        ("\n", "holds no kernel"),
        ("{", "cannot be read; got line 1"),
        ("{}", "cannot be read"),
        ("[1, 2]", "cannot be read; got line 1"),
        ("null", "cannot be read; got line 1"),
        (line[: len(line) // 2], "cannot be read; got line 1"),
        (f"{line}\n{json.dumps([shash, 'nonsense'])}", "cannot be read; got line 2"),
        (json.dumps([shash, base64.b64encode(raw[:200]).decode()]), "cannot be read; got line 1"),
    ]


def test_bad_workload_file(tvm: Any, tmp_path: Path, write: Write, target: str) -> None:
    from tvm.s_tir import meta_schedule as ms

    database = ms.database.JSONDatabase(work_dir=str(tmp_path))
    database.commit_workload(load_tasks("gemm:8x16x32", target)[0].mod)
    line = (tmp_path / "database_workload.json").read_text().strip()
    for text, message in bad_json(line):
        with pytest.raises(ModelImportError, match=message):
            load_tasks(write("bad.json", text), target)
    (tmp_path / "bad.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ModelImportError, match="bytes that are no text"):
        load_tasks(str(tmp_path / "bad.json"), target)


def damaged(mod: Any, type_name: str, field: str, value: int) -> str:
    """A saved module in which a field of the first object of a type has another value."""
    from tvm.ir import save_json

    saved = json.loads(save_json(mod))
    next(node for node in saved["nodes"] if node["type"] == type_name)["data"][field] = value
    return json.dumps(saved)


#: What TVM reads without a word: it crashes when it makes a design space, or when it compiles.
CRASHES_LATE = {"space": ("tirx.IterVar", "iter_type", -1), "build": ("tirx.BufferStore", "value", 0)}


@pytest.mark.parametrize("damage", CRASHES_LATE.values(), ids=list(CRASHES_LATE))
def test_a_kernel_that_crashes_the_compiler_later_is_an_error(
    tvm: Any, write: Write, target: str, damage: tuple[str, str, int]
) -> None:
    """The file is read all right: the process must survive what comes after, too."""
    mod: Any = load_tasks("gemm:8x16x32", target)[0].mod
    path = write("damaged.json", damaged(mod, *damage))
    with pytest.raises(ModelImportError, match="'damaged' cannot be compiled; got the compiler crashes on it"):
        load_model(path, target)


def test_of_many_workloads_the_one_that_crashes_is_named(
    tvm: Any, tmp_path: Path, write: Write, target: str
) -> None:
    """Whoever repairs the file must know where."""
    from tvm.s_tir import meta_schedule as ms

    database = ms.database.JSONDatabase(work_dir=str(tmp_path))
    mod: Any = load_tasks("gemm:8x16x32", target)[0].mod
    database.commit_workload(mod)
    line = (tmp_path / "database_workload.json").read_text().strip()
    shash, module = json.loads(line)
    raw = damaged(mod, *CRASHES_LATE["space"]).encode()
    prefix = len(raw).to_bytes(8, "little")
    assert base64.b64decode(module)[:8] == (len(base64.b64decode(module)) - 8).to_bytes(8, "little")
    bad = json.dumps([shash, base64.b64encode(prefix + raw).decode()])
    with pytest.raises(ModelImportError, match="kernel 'workload_2' cannot be compiled"):
        load_tasks(write("bad.json", f"{line}\n{bad}\n"), target)
