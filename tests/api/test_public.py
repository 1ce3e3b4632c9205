"""What `import prune_engine` gives: light, complete and typed."""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import prune_engine as pe

#: What a user would write; mypy reads it as one.
SAMPLE = """
from pathlib import Path
import numpy as np
import prune_engine as pe

def note(news: pe.Progress) -> None:
    print(news.message, [task.best_secs for task in news.tasks])

result: pe.TuneResult = pe.tune(
    Path("model.onnx"), target="llvm", seconds=300, shape={"x": (1, 3)}, dim={"n": 1},
    disabled_rules=["rules.vector-length"], store="a.sqlite3", progress=note,
)
outputs: dict[str, np.ndarray] = result.run({"x": np.zeros((1, 3), np.float32)})
gain: float = result.speedup
names: list[str] = [task.name for task in result.tasks]
page: Path = result.report(open=True)
text: str = result.explain(names[0], "best")
again: pe.TuneResult = pe.load("tuned/model")
other: pe.TuneResult = pe.transfer("gemm:8x8x8", measurements=0)

with pe.Search({"block": [1, 2], "fast": [True, False]}, symbols={"threads_per_block": "block"}) as search:
    while not search.is_finished:
        for candidate in search.ask(8):
            secs: float = float(candidate.decisions["block"])
            search.tell(candidate, run_secs=[secs, secs]) if secs else search.tell(candidate, error="no")
    if search.best is not None:
        fastest: float = search.best.run_secs
shares: list[float | None] = [space.legal_share for space in pe.prune("gemm:8x8x8")]
traces: list[str] = [one.trace for one in pe.list_candidates("gemm:8x8x8", 4)]
try:
    pe.load("nowhere")
except pe.PruneEngineError as error:
    print(error.remedy)
"""

WRONG = {
    'pe.tune("m.onnx", second=3)': "call-arg",
    'pe.tune("m.onnx", out=3)': "arg-type",
    'pe.tune("m.onnx", seconds="3")': "arg-type",
    'pe.load("a").speedup.nothing': "attr-defined",
    "pe.nothing": "attr-defined",
}


def test_all_names_are_there_and_listed() -> None:
    for name in pe.__all__:
        assert getattr(pe, name) is not None
        assert name in dir(pe)
    assert set(pe._HOMES) | {"__version__"} == set(pe.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        pe.nothing  # noqa: B018


def test_every_name_has_a_docstring_for_the_caller() -> None:
    for name in pe.__all__:
        value = getattr(pe, name)
        assert isinstance(value, str) or (value.__doc__ and not value.__doc__.startswith(f"{name}(")), name


def test_naming_what_is_there_imports_no_compiler() -> None:
    program = (
        "import sys, prune_engine as pe\n"
        "heavy = ('numpy', 'pydantic', 'yaml', 'tvm', 'lightgbm', 'sqlalchemy', 'onnx', 'rich', 'typer')\n"
        "dir(pe); print([m for m in heavy if m in sys.modules])\n"
        "[getattr(pe, name) for name in pe.__all__]\n"
        "print([m for m in ('tvm', 'lightgbm', 'sqlalchemy', 'onnx', 'rich', 'typer') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.split("\n")[:2] == ["[]", "[]"]


def test_no_module_is_called_as_a_public_name() -> None:
    """A module that is imported becomes an attribute of its package: from then on it would hide the function."""
    modules = {module.name for module in pkgutil.iter_modules(pe.__path__)}
    assert modules.isdisjoint(pe.__all__)


def test_a_users_script_is_checked_strictly(tmp_path: Path) -> None:
    (tmp_path / "sample.py").write_text(SAMPLE)
    (tmp_path / "wrong.py").write_text("import prune_engine as pe\n" + "\n".join(WRONG))
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--ignore-missing-imports"]
    root = Path(pe.__file__).parents[1]
    run = subprocess.run(
        [*command, f"--cache-dir={root / '.mypy_cache'}", "--follow-imports=silent", "sample.py", "wrong.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(root)},  # where it is not installed from a wheel
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    lines = [line for line in run.stdout.splitlines() if " error: " in line]
    assert [line for line in lines if line.startswith("sample.py")] == [], run.stdout
    assert [line.rpartition("[")[2].rstrip("]") for line in lines] == list(WRONG.values()), run.stdout
