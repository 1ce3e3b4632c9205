"""What the pages tell to type is typed: cheap commands always, in this process, those that measure in a long run.

Commands of a page run in its order, in a copy of a folder with a tuned model and the files that pages speak of.
``PRUNE_ENGINE_FULL=1`` also runs what takes long, with small budgets. The guides are followed in tests/guides.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from kits.tuned import MODEL_SIZE, user_folders

from prune_engine.cli.app import main

ROOT = Path(__file__).parent.parent
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if "guides" not in page.parts and "changes" not in page.parts
]
#: Set-up tunes two kernels; on a machine that does much else this takes a while.
pytestmark = pytest.mark.timeout(1200)
_BASH = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

#: Verbs that build or measure kernels, or read a whole recorded space.
_LONG = (
    "tune",
    "transfer",
    "rank",
    "prior",
    "verify",
    "run",
    "profiles probe",
    "whitelist add",
    "whitelist verify",
)
#: What stands for a command in a quick run: tests/contracts hold the rules to their contract, so another plugin,
#: found by its name as they are, shows that the command works.
_STANDS_FOR = {"plugins check rules": "plugins check select"}
#: What stands for larger budgets: a prior takes 16 measurements of a kernel in a database, which are half of them.
_SMALL = {"--trials": "80", "--seconds": "20"}
#: Words that make one of these short.
_SHORT_WITH = ("--no-measure",)
#: Commands about what only their reader has, by a word in them, and what that is. They are parsed all the same.
_ELSEWHERE = {
    ".models/": "a model that is downloaded",
    "dense1": "a model with a layer of that name",
    "gemm:64x64x64 best": "a result in which something ran to its end",
    "3f69b46": "a run of the reader's store",
    "5a0f72f9": "an entry of the reader's whitelist",
    "moved.sqlite3": "a store of the reader's",
    "conv.tsv.gz": "a recorded space of other devices",
    "others.jsonl.gz": "a library of others",
    "resnet50": "a model of the reader's library",
    "--install-completion": "the reader's shell, which it would change",
    "--show-completion": "the reader's shell; tests/cli/test_completion.py asks as shells do",
    "batch=1": "a model with open dimensions",
    "x=1x3x224x224": "a model of images",
}


def commands(page: Path) -> list[list[str]]:
    lines = [line for block in _BASH.findall(page.read_text(encoding="utf-8")) for line in block.splitlines()]
    words = [shlex.split(line, comments=True) for line in lines]
    return [command[1:] for command in words if command[:1] == ["prune-engine"]]


def is_elsewhere(command: Sequence[str]) -> bool:
    text = " ".join(command)
    needs_two_cores = "--threads 2" in text and len(os.sched_getaffinity(0)) < 2
    return needs_two_cores or any(word in text for word in _ELSEWHERE)


def is_long(command: Sequence[str]) -> bool:
    text = " ".join(word for word in command if word not in ("--plain",))
    if any(word in command for word in _SHORT_WITH):
        return False
    # GPU spaces and drawing from them: seconds each.
    return text.startswith(_LONG) or (text.startswith("prune ") and "--samples" in text)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, tuned_folder: Path) -> Path:
    """The folder that pages assume: tuned models, their store, plugins of the plugin page, profiles, an input."""
    folder = tmp_path_factory.mktemp("docs") / "folder"
    shutil.copytree(tuned_folder, folder)
    shutil.copy(folder / "model.onnx", folder / "other.onnx")
    np.save(folder / "image.npy", np.zeros((MODEL_SIZE, MODEL_SIZE), dtype=np.float32))
    plugins = _PYTHON.findall((ROOT / "docs" / "plugins.md").read_text(encoding="utf-8"))
    (folder / "hello.py").write_text(next(block for block in plugins if "hello." in block), encoding="utf-8")
    (folder / "vendor.py").write_text(next(block for block in plugins if "vendor.walk" in block), encoding="utf-8")
    workloads = _PYTHON.findall((ROOT / "docs" / "workloads.md").read_text(encoding="utf-8"))
    kernels = next(block for block in workloads if "kernels.py" in block)
    (folder / "kernels.py").write_text(kernels.split('"""')[1], encoding="utf-8")
    profile = (ROOT / "hardware_profiles" / "amd-epyc-9654.yaml").read_text(encoding="utf-8")
    for name in ("my-device.yaml", "new.yaml"):
        (folder / name).write_text(profile, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        _enter(folder, patch)
        for line in (
            "policy pin before.lock",
            "policy pin after.lock",
            "policy pin policy.lock --from tuned/model",
            "library import tuned/model/database",
            "library export mine.jsonl.gz",
            "whitelist export whitelist.json",
        ):
            assert not _typed(line.split(), patch), line
    return folder


def _enter(folder: Path, patch: pytest.MonkeyPatch) -> None:
    patch.chdir(folder)
    for name, value in user_folders(folder).items():
        patch.setenv(name, value)
    for name in ("TERM", "NO_COLOR", "FORCE_COLOR"):  # which --plain changes
        patch.setenv(name, os.environ.get(name, ""))


def _typed(command: Sequence[str], patch: pytest.MonkeyPatch) -> str:
    """Run a command in this process; return what it printed if it failed, else nothing."""
    patch.setattr(sys, "argv", ["prune-engine", *(word for word in command if word != "--open")])
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as ending:
            code = ending.code or 0
    return "" if code == 0 else f"exit code {code}: {out.getvalue()[-500:]}{err.getvalue()[-1500:]}"


def _pages_with(wanted: Callable[[Sequence[str]], bool]) -> list[object]:
    found = [
        (page, [command for command in commands(page) if not is_elsewhere(command) and wanted(command)])
        for page in PAGES
    ]
    return [pytest.param(listed, id=str(page.relative_to(ROOT))) for page, listed in found if listed]


@pytest.mark.parametrize("listed", _pages_with(lambda command: not is_long(command)))
def test_cheap_commands_work(
    listed: list[list[str]], prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(prepared, tmp_path / "folder")
    _enter(tmp_path / "folder", monkeypatch)
    is_full = os.environ.get("PRUNE_ENGINE_FULL") == "1"
    typed = {text: text if is_full else _STANDS_FOR.get(text, text) for text in map(shlex.join, listed)}
    problems = {text: _typed(shlex.split(line), monkeypatch) for text, line in typed.items()}
    assert not {command: problem for command, problem in problems.items() if problem}


@pytest.mark.skipif(os.environ.get("PRUNE_ENGINE_FULL") != "1", reason="minutes: PRUNE_ENGINE_FULL=1")
@pytest.mark.parametrize("listed", _pages_with(is_long))
@pytest.mark.timeout(1800)
def test_long_commands_work(listed: list[list[str]], prepared: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(prepared, folder)
    environment = {**os.environ, **user_folders(folder)}
    for words in listed:
        command = [sys.executable, "-m", "prune_engine.cli", *_small(words)]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        # A kernel of microseconds can look slower than it was on a machine that does much else.
        right = (0, 1) if "verify" in words[:2] else (0,)
        assert done.returncode in right, f"{shlex.join(words)}: {done.stdout[-500:]}{done.stderr[-1500:]}"


def _small(command: Sequence[str]) -> list[str]:
    """The same command with a budget of some seconds: enough to save a verifier that another run can start from."""
    small = [re.sub(r"^(gemm|conv2d):.*", "gemm:64x64x64", word) for word in command]
    for option, budget in _SMALL.items():
        if option in small:
            small[small.index(option) + 1] = budget
    if small[0] == "tune" and not {"--trials", "--seconds", "--replay"} & set(small):
        small += ["--trials", _SMALL["--trials"]]
    return small


def test_what_is_not_run_is_still_there() -> None:
    """An entry that no page has any more would let the next command with that word through."""
    text = "\n".join(" ".join(command) for page in PAGES for command in commands(page))
    assert [word for word in (*_ELSEWHERE, *_STANDS_FOR) if word not in text] == []


def test_other_commands_are_known() -> None:
    """`make` targets exist, scripts are there."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for block in _BASH.findall(page.read_text(encoding="utf-8")):
            for line in block.splitlines():
                words = shlex.split(line, comments=True)
                if words[:1] == ["make"]:
                    assert words[1] in targets, f"{page.name}: {line}"
                elif words[:1] == ["python"] and words[1].endswith(".py"):
                    assert (ROOT / words[1]).is_file(), f"{page.name}: {line}"
