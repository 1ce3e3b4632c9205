"""The page on Python works as printed, block after block in one session, as in a notebook."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from guides.harness import read_blocks

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "python.md"

#: The reader waits five minutes, a test does not.
BUDGET = ("seconds=300", "trials=4, store='store.sqlite3'")
#: What has to hold besides, after a block that has this in it.
CHECKS = {
    "result.report()": """
assert shown() == "", shown()
assert pe.load("tuned/model").report().read_text().startswith("<!DOCTYPE html>")
""",
    "same = ": """
from tvm import cpu, relax, runtime
x = np.random.default_rng(0).random((128, 128), dtype=np.float32)
(name, y), = result.run({"x": x}).items()
assert name == "y" and np.allclose(y, x.sum(axis=1, keepdims=True) + 0 * x, rtol=1e-5)
machine = relax.VirtualMachine(result.module, cpu())
assert np.array_equal(machine["main"](runtime.tensor(x)).numpy(), y)
assert result.inputs == {"x": ((128, 128), "float32")}
(task,) = result.tasks
assert task.n_trials == 4 and 0 < result.tuned_secs <= result.untuned_secs
assert task.name in result.explain(task.name) and result.explain(1, "best") != result.explain(1, "worst")
assert repr(same) == repr(result) and same.record == result.record
""",
    "def note(": "assert result.n_new_measurements == 0 and 'tuning' in shown()\n",
    "shape={": "assert 'ConfigError shape' in shown(), shown()\n",
    "list_candidates": "assert 0 < space.kept_share < space.legal_share < 0.5\n",
    'pe.Search("gemm': "assert search.n_told == 16 and search.best.run_secs < 0.1\n",
    "my-kernel": "assert 'exhausted 48' in shown()\n",
}
PROLOGUE = """
import contextlib, io
captured = io.StringIO()
def shown():
    text = captured.getvalue()
    captured.seek(0), captured.truncate(0)
    return text
"""


@pytest.mark.timeout(900)
def test_page_works_as_printed(tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = numpy_helper.from_array(np.ones((128, 128), dtype=np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [128, 128])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [128, 128])],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "model.onnx")
    blocks = [block for block in read_blocks(PAGE) if block.language == "python"]
    script = [PROLOGUE]
    unused = dict(CHECKS)
    for block in blocks:
        text = block.text.replace(*BUDGET)
        script.append(f"with contextlib.redirect_stdout(captured):\n    exec({text!r}, globals())\n")
        found = [mark for mark in unused if mark in block.text]
        script += [unused.pop(mark) for mark in found]
        script.append(f"shown()  # {PAGE.name}:{block.line}\n")
    assert not unused, f"the page has no block with {list(unused)}"
    run = subprocess.run(
        [sys.executable, "-c", "".join(script)],
        cwd=tmp_path,
        # A test leaves the user's own store alone.
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path / "data")},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert (run.stdout, run.stderr) == ("", ""), "nothing is printed that was not asked for"
