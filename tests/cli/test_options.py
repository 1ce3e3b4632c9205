"""Values of options that cannot be meant, and questions until the answer can be used."""

from __future__ import annotations

import os
import pty
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from prune_engine.cli.options import MAX_SIZE, parse_dim, parse_shape
from prune_engine.errors import ConfigError


def test_sizes_at_the_limit() -> None:
    assert parse_dim(f"n={MAX_SIZE}") == ("n", MAX_SIZE)
    assert parse_shape(f"x={MAX_SIZE}x1") == ("x", (MAX_SIZE, 1))


@pytest.mark.parametrize("size", ["0", str(MAX_SIZE + 1), "9" * 30, "9" * 5000, "²"])
def test_sizes_out_of_range(size: str) -> None:
    with pytest.raises(ConfigError, match="--dim"):
        parse_dim(f"n={size}")
    with pytest.raises(ConfigError, match="--shape") as error:
        parse_shape(f"x=1x{size}")
    assert len(str(error.value)) < 300


ASK = """
import sys
from pathlib import Path
from prune_engine.cli.options import ask_for_open_dimensions
print(ask_for_open_dimensions(Path(sys.argv[1]), {}, {}))
"""


def dialogue(model: Path, answers: list[tuple[str, str]]) -> str:
    """Ask for a model's open dimensions on a terminal; type each answer when its question appears."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", ASK, str(model)])
    seen, shown, deadline = "", "", time.monotonic() + 60
    try:
        while time.monotonic() < deadline:
            if answers and answers[0][0] in seen:
                os.write(terminal, answers.pop(0)[1].encode() + b"\n")
                seen = ""
            if not select.select([terminal], [], [], 0.1)[0]:
                continue
            try:
                text = os.read(terminal, 4096).decode()
            except OSError:  # the other side is closed
                break
            seen, shown = seen + text, shown + text
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
    return shown


def nameless(path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "nameless",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 4])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def test_a_bad_answer_is_asked_for_again(tiny_model: Path, tmp_path: Path) -> None:
    question = "size of 'batch'"
    shown = dialogue(tiny_model, [(question, "-5"), (question, "many"), (question, "0"), (question, "")])
    assert shown.count("will not do") == 3
    assert "{'batch': 1}" in shown
    nameless(tmp_path / "n.onnx")
    question = "shape of input 'x'"
    shown = dialogue(tmp_path / "n.onnx", [(question, "foo"), (question, "3x4")])
    assert shown.count("will not do") == 1
    assert "{'x': (3, 4)}" in shown


@pytest.mark.parametrize("verb", ["tune", "spaces", "prune", "candidates", "plugins"])
def test_unknown_plugin_cannot_be_blocked(inside: Callable[..., tuple[int, str, str]], verb: str) -> None:
    what = () if verb == "plugins" else ("gemm:8x8x8",)
    code, out, err = inside(verb, *what, "--block", "nosuch")
    assert (code, out) == (2, "")
    assert "error: --block: no plugin of this name, so there is nothing to block; got 'nosuch'" in err
    assert "lightgbm" in err
