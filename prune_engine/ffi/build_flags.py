"""What a compiler and a linker need to build a C++ program that calls the engine."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from tvm_ffi import libinfo

from prune_engine.errors import ConfigError

_PACKAGE = Path(__file__).resolve().parents[1]


def include_folder() -> Path:
    """Where ``prune_engine/prune_engine.h`` lies."""
    return _PACKAGE / "include"


def cmake_folder() -> Path:
    """Where ``prune_engine-config.cmake`` lies."""
    return _PACKAGE / "cmake"


def compile_flags(*, embed: bool) -> list[str]:
    """Flags for the compiler; with ``embed`` for a program that starts Python itself.

    Raises ConfigError where Python's headers are not installed.
    """
    flags = ["-std=c++17"]
    folders = [include_folder(), Path(libinfo.find_include_path()), Path(libinfo.find_dlpack_include_path())]
    if embed:
        python = Path(sysconfig.get_path("include"))
        if not (python / "Python.h").is_file():
            raise _not_installed("the headers of this Python", f"{python}/Python.h")
        folders.append(python)
    return [*flags, *(f"-I{folder}" for folder in dict.fromkeys(folders))]


def link_flags(*, embed: bool) -> list[str]:
    """Flags for the linker, with run paths, so that the program finds the libraries where they are now.

    Raises ConfigError where Python has no shared library.
    """
    library = Path(libinfo.find_libtvm_ffi())
    flags = _found_in(library.parent, "tvm_ffi")
    return flags + _python_flags() if embed else flags


def _python_flags() -> list[str]:
    version = sysconfig.get_config_var("LDVERSION") or sysconfig.get_python_version()
    name = f"python{version}"
    places = [sysconfig.get_config_var(key) for key in ("LIBDIR", "LIBPL")]
    for place in filter(None, places):
        if (Path(place) / f"lib{name}.so").exists():
            return _found_in(Path(place), name)
    looked = " or ".join(filter(None, places))
    raise _not_installed("the shared library of this Python", f"lib{name}.so in {looked}")


def _found_in(folder: Path, name: str) -> list[str]:
    return [f"-L{folder}", f"-Wl,-rpath,{folder}", f"-l{name}"]


def _not_installed(what: str, expected: str) -> ConfigError:
    return ConfigError(
        f"{what} cannot be found",
        who="a program that starts Python",
        expected=expected,
        remedy="Install what belongs to it (on Debian and Ubuntu: python3-dev), or make the environment with a "
        "Python that has it, such as one of `uv python install`.",
    )
