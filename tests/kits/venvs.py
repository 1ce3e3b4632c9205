"""Fresh environments with the wheel of this tree: what a reader of the guides begins with."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: All that a wheel is built of. Copied first: what an earlier build left in `build/` would get into the wheel.
_SOURCES = (
    "pyproject.toml",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
    "prune_engine",
    "plugins",
    "hardware_profiles",
    "tests",
)
_MARK = "prune-engine-borrows.pth"
#: Bytecode for what most commands import is written once, not in each copy; all of this project's, too.
_WARM_UP = """
import compileall, glob, os, sysconfig
import tvm, onnxruntime, lightgbm, sqlalchemy, alembic, pydantic, rich, typer, yaml, pluggy, platformdirs
import rich.progress, rich.table, rich.traceback, typer.main
for own in glob.glob(os.path.join(glob.escape(sysconfig.get_path("purelib")), "prune_engine*")):
    if os.path.isdir(own) and not own.endswith(".dist-info"):
        compileall.compile_dir(own, quiet=1)
"""
_PIP = """\
#!/bin/sh
# pip as the guides type it, by uv: from its cache, in a second.
exec "{uv}" pip "$@"
"""
_BORROWING_PIP = """\
#!{python}
# No registry can be reached: what the environment that runs the tests has counts as installed.
import importlib.metadata, os, re, sys

def is_there(word):
    try:
        return bool(importlib.metadata.version(re.split(r"[^A-Za-z0-9._-]", word)[0]))
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return False

verb, *words = sys.argv[1:]
wanted = [w for w in words if w.startswith(("-", ".")) or os.path.exists(w) or not is_there(w)]
if verb != "install":
    os.execv({uv!r}, [{uv!r}, "pip", verb, *words])
if any(not w.startswith("-") or w in ("-e", "--editable") for w in wanted):
    alone = ["--no-index", "--no-deps", "--no-build-isolation"]
    os.execv({uv!r}, [{uv!r}, "pip", verb, *alone, *wanted])
"""


def build_distributions(folder: Path, *, kind: str = "--wheel") -> list[Path]:
    """Build a wheel (or ``--sdist``) of this tree into a folder and return what is in it."""
    sources = folder.parent / f"{folder.name}-sources"
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info", ".*_cache")
    sources.mkdir(parents=True)
    for name in _SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, sources / name, ignore=ignored)
        else:
            shutil.copy2(ROOT / name, sources / name)
    built = build_project(sources, folder, kind=kind)
    shutil.rmtree(sources)
    return built


def build_project(project: Path, folder: Path, *, kind: str = "--wheel") -> list[Path]:
    """Build the wheel (or ``--sdist``) of any project into a folder and return what is in it."""
    command = ["build", kind, "--quiet", "--out-dir", str(folder), str(project)]
    if _uv(*command, "--offline", check=False) and _uv(*command, check=False):
        # No registry: the environment that runs the tests has setuptools.
        _uv(*command, "--no-build-isolation", "--python", sys.executable)
    return sorted(path for path in folder.iterdir() if path.suffix in {".whl", ".gz"})


def make_venv(venv: Path, wheel: Path) -> Path:
    """Make an environment with a wheel and what it depends on, and `pip`, which is uv's."""
    _uv("venv", "--quiet", "--python", sys.executable, str(venv))
    command = ["pip", "install", "--quiet", "--python", str(venv), str(wheel)]
    if _uv(*command, "--offline", check=False) and _uv(*command, check=False):
        _borrow(venv)
        _uv(*command, "--no-index", "--no-deps")
    is_borrowing = bool(list(venv.glob(f"lib/*/site-packages/{_MARK}")))
    pip = venv / "bin" / "pip"
    text = _BORROWING_PIP if is_borrowing else _PIP
    pip.write_text(text.format(uv=_uv_path(), python=venv / "bin" / "python"), encoding="utf-8")
    pip.chmod(0o755)
    command = [str(venv / "bin" / "python"), "-c", _WARM_UP]
    subprocess.run(command, check=True, env=venv_environment(venv), capture_output=True)
    return venv


def copy_venv(venv: Path, copy: Path) -> Path:
    """Copy an environment: files as hard links, scripts that name its place anew."""
    shutil.copytree(venv, copy, symlinks=True, copy_function=_link)
    for script in (copy / "bin").iterdir():
        if script.is_symlink():
            continue
        text = script.read_text(encoding="utf-8", errors="surrogateescape")
        if str(venv) in text:
            mode = script.stat().st_mode
            script.unlink()  # it is the same file as that of the original
            script.write_text(text.replace(str(venv), str(copy)), encoding="utf-8", errors="surrogateescape")
            script.chmod(mode)
    return copy


def venv_environment(venv: Path, home: Path | None = None) -> dict[str, str]:
    """Return the variables of a shell in which an environment is active; user folders are below ``home``."""
    names = ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "PIP_FIND_LINKS", "FORCE_COLOR")
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in names and not name.startswith(("PRUNE_ENGINE_", "PYTEST_", "XDG_"))
    }
    own_bin = str(Path(sys.executable).parent)  # that of the environment that runs the tests
    folders = [str(venv / "bin"), *(f for f in kept.get("PATH", os.defpath).split(os.pathsep) if f != own_bin)]
    if list(venv.glob(f"lib/*/site-packages/{_MARK}")):
        folders.append(own_bin)
    kept |= {"PATH": os.pathsep.join(folders), "VIRTUAL_ENV": str(venv), "UV_CACHE_DIR": uv_cache()}
    kept |= {"NO_COLOR": "1", "COLUMNS": "120", "UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1"}
    if home is not None:
        kept["HOME"] = str(home)
    return kept


def uv_cache() -> str:
    """Return the folder of uv's cache, which stays the user's own when HOME is another one.

    Where that cannot be written, it is one for temporary files.
    """
    done = subprocess.run([_uv_path(), "cache", "dir"], capture_output=True, text=True, check=True)
    own = Path(done.stdout.strip())
    try:
        own.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=own):
            return str(own)
    except OSError:
        return str(Path(tempfile.gettempdir()) / f"uv-cache-{os.getuid()}")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder, which need not exist, for one process of a parallel run of the tests at a time."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def once(folder: Path, make: Callable[[Path], object]) -> Path:
    """Return a folder that the first process to ask has made whole."""
    with locked(folder):
        if not folder.exists():
            try:
                make(folder)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
    return folder


def _link(source: str, target: str) -> None:
    os.link(source, target)


def _uv_path() -> str:
    from uv import find_uv_bin

    return str(find_uv_bin())


def _uv(*arguments: str, check: bool = True) -> int:
    environment = {n: v for n, v in os.environ.items() if n not in ("VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")}
    environment["UV_CACHE_DIR"] = uv_cache()
    done = subprocess.run([_uv_path(), *arguments], env=environment, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise RuntimeError(f"uv {' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done.returncode


def _borrow(venv: Path) -> None:
    """Let an environment see the packages of the one that runs the tests; a path in a .pth file, not its own .pth
    files, so that the editable prune_engine there is not seen."""
    (packages,) = venv.glob("lib/*/site-packages")
    own = Path(sys.prefix) / packages.relative_to(venv)
    (packages / _MARK).write_text(f"{own}\n", encoding="utf-8")
    warnings.warn("no registry: fresh environments borrow the packages of this one", stacklevel=2)
