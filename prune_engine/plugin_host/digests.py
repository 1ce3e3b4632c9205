"""Hashes of plugins: their code, and the models and tables that they bring."""

from __future__ import annotations

import hashlib
import sys
from functools import lru_cache
from pathlib import Path
from types import ModuleType

_LEFT_OUT = "__pycache__"


def plugin_digest(plugin: object) -> str | None:
    """Hash of all files of a plugin's package, or of its one file; None where there are none to read.

    Of an object, the module of its class counts. 32 hexadecimal digits; the place of the files does not count.
    """
    module = plugin if isinstance(plugin, ModuleType) else sys.modules.get(type(plugin).__module__)
    if plugin is None or module is None:
        return None
    folders = [Path(folder) for folder in getattr(module, "__path__", ())]
    file = getattr(module, "__file__", None)
    if folders:
        return _digest(tuple(folders))
    return _digest((Path(file),)) if file else None


@lru_cache(maxsize=256)
def _digest(places: tuple[Path, ...]) -> str | None:
    # What is loaded does not change any more, so neither does its hash.
    digest = hashlib.blake2b(digest_size=16)
    try:
        for place in places:
            for name, path in _files(place):
                content = path.read_bytes()
                digest.update(f"{name}\0{len(content)}\0".encode())
                digest.update(content)
    except OSError:
        return None  # installed in a way that keeps no files: its version has to do
    return digest.hexdigest()


def _files(place: Path) -> list[tuple[str, Path]]:
    """The files of a folder by their path in it, in order; a file by itself."""
    if place.is_file():
        return [("", place)]
    found = [path for path in place.rglob("*") if _LEFT_OUT not in path.parts and path.is_file()]
    return sorted((path.relative_to(place).as_posix(), path) for path in found)
