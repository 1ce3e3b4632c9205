"""C++ programs built with the installed headers, once per module."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from kits.embedding import need_python_to_embed

HERE = Path(__file__).parent
#: That of the environment variable counts, as make does it.
_COMPILERS = (os.environ.get("CXX", ""), "g++", "clang++", "c++")


@pytest.fixture(scope="session")
def compiler() -> str:
    """A C++ compiler; without one there is nothing to test."""
    found = next((path for name in _COMPILERS if name and (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("there is no C++ compiler: g++, clang++ or what CXX names")
    return found


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """Variables for a program that embeds Python: none that tells it where that is."""
    hidden = ("PRUNE_ENGINE_PYTHON", "VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH")
    return {name: value for name, value in os.environ.items() if name not in hidden}


@pytest.fixture(scope="session")
def flags() -> Callable[..., list[str]]:
    """What ``python -m prune_engine.ffi`` prints, as words."""

    def printed(*options: str) -> list[str]:
        command = [sys.executable, "-m", "prune_engine.ffi", *options]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.split()

    return printed


@pytest.fixture(scope="session")
def build(compiler: str, flags: Callable[..., list[str]]) -> Callable[..., None]:
    """Build one of the sources of this folder; warnings are errors."""

    def built(source: str, program: Path, *options: str, embed: bool = True) -> None:
        if embed:
            need_python_to_embed()
        words = flags("--cxxflags", "--ldflags", *(["--embed"] if embed else []))
        # Headers of others are not ours to complain about.
        words = [
            word.replace("-I", "-isystem", 1) if "prune_engine/include" not in word else word for word in words
        ]
        strict = ["-Wall", "-Wextra", "-Werror", "-pthread", *options]
        command = [compiler, *strict, str(HERE / source), "-o", str(program), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
        assert done.returncode == 0, done.stderr[:4000]

    return built
