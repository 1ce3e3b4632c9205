"""Tensor intrinsics of one of TVM's modules, kept parsed between runs.

TVM writes them in TVMScript and parses all of them on import: 2 to 3 s for those of CUDA, against 0.4 s to load
them from a file. The file is only good for the source it was made of.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

#: Name -> what it computes and how, as two PrimFuncs.
Intrinsics = Mapping[str, tuple[Any, Any]]

_FORMAT = 1


def import_cached(module: str, folder: Path | None = None) -> None:
    """Import a module that registers intrinsics, from the cache if it holds them; else fill the cache.

    ``folder`` is the user's cache by default. A file that cannot be read or written is done without.
    """
    path = _path(module, folder)
    known = _read(path)
    if known is not None:
        with _registering(lambda name, _desc, _impl: known[name]), _unparsed():
            importlib.import_module(module)
        return
    seen: dict[str, tuple[Any, Any]] = {}

    def note(name: str, desc: Any, impl: Any) -> tuple[Any, Any]:
        seen[name] = desc, impl
        return desc, impl

    with _registering(note):
        importlib.import_module(module)
    _write(path, seen)


def _path(module: str, folder: Path | None) -> Path:
    """Where a module's intrinsics are kept: another place whenever its source or TVM changes."""
    spec = importlib.util.find_spec(module)
    assert spec is not None, "TVM has its own modules"
    assert spec.origin is not None, "TVM's modules are files"
    digest = hashlib.blake2b(Path(spec.origin).read_bytes(), digest_size=8)
    digest.update(f"{_FORMAT}|{version('apache-tvm')}|{version('apache-tvm-ffi')}".encode())
    if folder is None:
        from platformdirs import user_cache_path

        folder = user_cache_path("prune-engine")
    return folder / f"{module.rpartition('.')[2]}-intrinsics-{digest.hexdigest()}.json"


def _read(path: Path) -> Intrinsics | None:
    from tvm.ir import load_json

    try:
        content = load_json(path.read_text(encoding="utf-8"))
        return {str(name): (content[name][0], content[name][1]) for name in content}
    except (OSError, RuntimeError, ValueError, TypeError, LookupError, AttributeError):  # none, or not ours
        return None


def _write(path: Path, intrinsics: Intrinsics) -> None:
    from tvm.ir import save_json
    from tvm_ffi import convert

    text = str(save_json(convert({name: list(pair) for name, pair in intrinsics.items()})))
    with contextlib.suppress(OSError):  # the next run parses again
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, staged = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            Path(staged).replace(path)
        except BaseException:
            Path(staged).unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def _registering(change: Callable[[str, Any, Any], tuple[Any, Any]]) -> Iterator[None]:
    """Let ``change`` have what is registered meanwhile, and register what it returns."""
    from tvm.s_tir import TensorIntrin

    original = TensorIntrin.register

    def register(name: str, desc: Any, impl: Any, override: bool = False) -> None:
        original(name, *change(name, desc, impl), override)

    TensorIntrin.register = staticmethod(register)
    try:
        yield
    finally:
        TensorIntrin.register = original


@contextlib.contextmanager
def _unparsed() -> Iterator[None]:
    """Leave functions that are meant for TVMScript as they are: nobody looks at them."""
    from tvm.script import tirx

    original = tirx.prim_func

    def prim_func(function: Any = None, **_options: Any) -> Any:
        return function if function is not None else prim_func_with_options

    def prim_func_with_options(function: Any) -> Any:
        return function

    tirx.prim_func = prim_func
    try:
        yield
    finally:
        tirx.prim_func = original
