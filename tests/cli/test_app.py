"""The command line answers at once, and says clearly what is wrong with its input."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from prune_engine import __version__

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Inside = Callable[..., "tuple[int, str, str]"]


def test_help_lists_the_verbs(cli: Run) -> None:
    done = cli("--help")
    assert done.returncode == 0
    for verb in ("tune", "run", "plugins"):
        assert verb in done.stdout


def test_version(cli: Run) -> None:
    assert cli("--version").stdout.strip() == f"prune-engine {__version__}"


def test_help_imports_neither_tvm_nor_lightgbm() -> None:
    """What makes `--help` answer in a fraction of a second."""
    code = (
        "import sys\n"
        "sys.argv = ['prune-engine', '--help']\n"
        "from prune_engine.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'tvm', 'lightgbm', 'onnx', 'sqlalchemy', 'alembic', 'onnxruntime'} & set(sys.modules)\n"
        "print('heavy:', sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("heavy: []")


def test_unknown_verb(cli: Run) -> None:
    done = cli("tunee")
    assert done.returncode == 2
    assert "No such command" in done.stderr


@pytest.mark.parametrize(
    "words",
    [["plugins", "check"], ["profiles", "check"], ["report"], ["library", "import"], ["plugins", "--plugin"]],
)
def test_name_without_end(inside: Inside, words: list[str]) -> None:
    """What the system refuses even to look at has a name, and is nothing of ours to trace, nor of stdout's."""
    name = "x" * 300 + ".py"
    code, out, err = inside(*words, name)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {name}: cannot be used; got File name too long.")
    told = json.loads(inside(*words, name, "--json")[2])
    assert (told["error"], told["who"], told["exit_code"]) == ("ConfigError", name, 2)


def test_plugins_as_json(cli: Run) -> None:
    rows = {row["name"]: row for row in json.loads(cli("plugins", "--json").stdout)}
    assert rows["lightgbm"]["status"] == "loaded"
    assert rows["lightgbm"]["version"] == __version__
    assert set(rows["explore"]["strategies"]) == {"explore.uniform", "explore.evolution"}


def test_blocked_and_failing_plugins_are_listed(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise RuntimeError('planted')\n")
    done = cli("plugins", "--json", "--block", "select", "--plugin", "broken.py", "--select-nothing")
    assert done.returncode == 2  # an option that does not exist
    done = cli("plugins", "--json", "--plugin", "broken.py")
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert rows["broken"]["status"] == "failed"
    assert "planted" in rows["broken"]["detail"]
    assert cli("plugins", "--plugin", "broken.py", "--strict").returncode == 1


def test_a_blocked_plugin_is_listed_as_such(cli: Run) -> None:
    done = cli("plugins", "--json", "--block", "lightgbm")
    assert done.returncode == 0, done.stderr
    (row,) = [row for row in json.loads(done.stdout) if row["name"] == "lightgbm"]
    assert row["status"] == "blocked"
    assert row["strategies"] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("plugins",),
        ("profiles", "list"),
        ("profiles", "nothing"),
        ("spaces", "gemm:8x8x8"),
        ("prune", "gemm:8x8x8", "--samples", "100"),
        ("candidates", "gemm:8x8x8", "-n", "2"),
    ],
)
def test_a_reader_that_goes_away_ends_it_without_a_word(
    arguments: tuple[str, ...], environment: dict[str, str], tmp_path: Path
) -> None:
    """As with `| head`, but for certain: nobody reads from the first."""
    reader, writer = os.pipe()
    os.close(reader)
    is_usage_error = "nothing" in arguments
    streams = {"stdout": subprocess.PIPE, "stderr": writer} if is_usage_error else {"stdout": writer}
    done = subprocess.run(
        [sys.executable, "-m", "prune_engine.cli", *arguments],
        **{"stderr": subprocess.PIPE, **streams},  # type: ignore[call-overload]
        cwd=tmp_path,
        env=environment,
        text=True,
        timeout=120,
        check=False,
    )
    os.close(writer)
    assert done.returncode == 141
    assert not (done.stdout if is_usage_error else done.stderr)


def test_without_its_plugin_a_verifier_can_be_left_out(cli: Run, tiny_model: Path) -> None:
    done = cli("tune", tiny_model, "--dim", "batch=8", "--trials", 1, "--block", "lightgbm")
    assert done.returncode == 2
    assert "--verifier none" in done.stderr


def test_plugin_adds_a_verb(cli: Run, tmp_path: Path) -> None:
    """Plugins' verbs are looked up when the verb is not one of ours."""
    site = tmp_path / "site"
    info = site / "hello-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[prune_engine.plugins]\nhello = hello_plugin\n")
    (site / "hello_plugin.py").write_text(
        "from prune_engine.hookspecs import hookimpl\n"
        "@hookimpl\n"
        "def register_commands(cli):\n"
        "    @cli.command('greet')\n"
        "    def greet() -> None:\n"
        "        print('hello from a plugin')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "prune_engine.cli", "greet"],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "hello from a plugin", done.stderr


BAD_INPUT = [
    pytest.param(["missing.onnx"], 3, "missing.onnx", id="no such file"),
    pytest.param(["text.onnx"], 3, "text.onnx", id="not an ONNX file"),
    pytest.param(["TINY"], 3, "--dim batch=", id="dimension left open, remedy named"),
    pytest.param(["TINY", "--dim", "batch"], 2, "batch=1", id="malformed dim"),
    pytest.param(["TINY", "--shape", "x=0x3"], 2, "x=1x3x224x224", id="malformed shape"),
    pytest.param(["TINY", "--shape", "nope=1x3"], 2, "nope", id="unknown input"),
    pytest.param(["TINY", "--dim", "batch=8", "--target", "llvm -mcpu=nope"], 2, "nope", id="unknown processor"),
    pytest.param(["TINY", "--dim", "batch=8", "--target", "nonsense"], 2, "nonsense", id="unknown target"),
    pytest.param(
        ["TINY", "--dim", "batch=8", "--target", "cuda"],
        2,
        "starting the compiler\nerror: target cuda: kernels are measured on this machine's processor",
        id="cannot be measured here, without a word of TVM's",
    ),
    pytest.param(
        ["TINY", "--dim", "batch=8", "--profile", "nvidia-t4"],
        2,
        "nvidia-t4: it describes another kind of device than the code is for; got a GPU; expected a processor. "
        "Leave out --profile",
        id="profile of a GPU",
    ),
    pytest.param(["TINY", "--dim", "batch=8", "--profile", "nope"], 2, "nope", id="unknown profile"),
    pytest.param(["TINY", "--dim", "batch=8", "--explorer", "nope"], 2, "explore.uniform", id="unknown explorer"),
    pytest.param(["TINY", "--dim", "batch=8", "--out", "text.onnx/x"], 5, "text.onnx", id="output not writable"),
    pytest.param(["TINY", "--dim", "batch=8", "--store", "text.onnx"], 4, "text.onnx", id="not a store"),
    pytest.param(
        ["TINY", "--dim", "batch=8", "--out", "b\udcff"], 5, "UTF-8", id="output of a name that is no text"
    ),
    pytest.param(["TINY", "--memory", "lots"], 2, "--memory", id="malformed size"),
    pytest.param(["TINY", "--dim", "batch=8", "--threads", "4096"], 2, "usable cores", id="too many threads"),
]


@pytest.mark.parametrize(("arguments", "code", "mentions"), BAD_INPUT)
def test_bad_input(
    cli: Run, tmp_path: Path, tiny_model: Path, arguments: list[str], code: int, mentions: str
) -> None:
    (tmp_path / "text.onnx").write_text("this is no model, and no store either\n" * 20)
    words = [str(tiny_model) if a == "TINY" else a for a in arguments]
    done = cli("tune", *words, "--trials", 4)
    assert done.returncode == code, done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert mentions in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "text.onnx").read_text().startswith("this is no model")  # nothing lost
    assert not list(tmp_path.glob("tuned/*")), "no folder is left for a result that there is not"


def test_model_without_kernels(cli: Run, tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "nothing",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "n.onnx"
    )
    done = cli("tune", "n.onnx", "--trials", 4)
    assert done.returncode == 3, done.stderr
    assert "nothing to tune" in done.stderr


def test_store_of_a_newer_version(cli: Run, tiny_model: Path, tmp_path: Path) -> None:
    from prune_engine.store import open_store
    from prune_engine.store.schema import VERSION_TABLE

    open_store(str(tmp_path / "newer.sqlite3")).close()
    with closing(sqlite3.connect(tmp_path / "newer.sqlite3")) as connection, connection:
        connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    before = (tmp_path / "newer.sqlite3").read_bytes()
    done = cli("tune", tiny_model, "--dim", "batch=8", "--trials", 4, "--store", "newer.sqlite3")
    assert done.returncode == 4, done.stderr
    assert "9999" in done.stderr
    assert (tmp_path / "newer.sqlite3").read_bytes() == before


def test_threads_unlike_the_target_s_are_warned_of(cli: Run, tiny_model: Path) -> None:
    target = json.dumps({"kind": "llvm", "num-cores": 64})
    done = cli("tune", tiny_model, "--dim", "batch=8", "--trials", 1, "--threads", 1, "--target", target)
    assert "64 cores" in done.stderr


def test_run_refuses_what_is_no_artefact(cli: Run, tmp_path: Path) -> None:
    done = cli("run", tmp_path)
    assert done.returncode == 6
    assert "prune-engine tune" in done.stderr
