"""Tensor intrinsics of one of TVM's modules, kept parsed between runs.

TVM writes them in TVMScript and parses all of them on import: 2 to 3 s for those of CUDA, against 0.4 s to load
them from a file. The file is only good for the source it was made of. Those of the release that we depend on come
with the package; ``python -m prune_engine.metaschedule.intrinsic_cache`` makes them anew. For another one a file
is made in the user's cache folder at the first import.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import importlib
import importlib.util
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

#: Name -> what it computes and how, as two PrimFuncs.
Intrinsics = Mapping[str, tuple[Any, Any]]

_FORMAT = 1
#: Modules whose intrinsics come with the package, and where.
_SHIPPED = ("tvm.s_tir.tensor_intrin.cuda",)
_SHIPPED_FOLDER = Path(__file__).with_name("intrinsics")


def import_cached(module: str, folder: Path | None = None, shipped: Path = _SHIPPED_FOLDER) -> None:
    """Import a module that registers intrinsics, from the first file that holds them; without one make it.

    ``shipped`` has those that come with the package; ``folder`` is the user's cache by default. A file that
    cannot be read or written is done without.
    """
    name = _file_name(module)
    known = _read(shipped / f"{name}.gz")
    if known is None:
        path = (_user_cache() if folder is None else folder) / name
        known = _read(path)
        if known is None:
            _write(path, _text(_parsed(module)).encode())
            return
    with _registering(lambda name, _desc, _impl: known[name]), _unparsed():
        importlib.import_module(module)


def ship(module: str, shipped: Path = _SHIPPED_FOLDER) -> Path:
    """Write the file of a module, which must not be imported yet, that comes with the package. Returns where."""
    path = shipped / f"{_file_name(module)}.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(_text(_parsed(module)).encode(), mtime=0))  # the same bytes every time
    return path


def _parsed(module: str) -> Intrinsics:
    """Import a module as TVM does, and note what it registers."""
    seen: dict[str, tuple[Any, Any]] = {}

    def note(name: str, desc: Any, impl: Any) -> tuple[Any, Any]:
        seen[name] = desc, impl
        return desc, impl

    with _registering(note):
        importlib.import_module(module)
    return seen


def _file_name(module: str) -> str:
    """What a module's file is called: something else whenever its source or TVM changes."""
    spec = importlib.util.find_spec(module)
    assert spec is not None, "TVM has its own modules"
    assert spec.origin is not None, "TVM's modules are files"
    digest = hashlib.blake2b(Path(spec.origin).read_bytes(), digest_size=8)
    digest.update(f"{_FORMAT}|{version('apache-tvm')}|{version('apache-tvm-ffi')}".encode())
    return f"{module.rpartition('.')[2]}-intrinsics-{digest.hexdigest()}.json"


def _user_cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("prune-engine")


def _read(path: Path) -> Intrinsics | None:
    from tvm.ir import load_json

    try:
        data = path.read_bytes()
        content = load_json((gzip.decompress(data) if path.suffix == ".gz" else data).decode())
        return {str(name): (content[name][0], content[name][1]) for name in content}
    except (
        OSError,
        EOFError,
        zlib.error,
        RuntimeError,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
    ):  # none, or not ours
        return None


def _text(intrinsics: Intrinsics) -> str:
    from tvm.ir import save_json
    from tvm_ffi import convert

    return str(save_json(convert({name: list(pair) for name, pair in intrinsics.items()})))


def _write(path: Path, content: bytes) -> None:
    with contextlib.suppress(OSError):  # the next run parses again
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, staged = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
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


if __name__ == "__main__":
    from prune_engine.metaschedule._compat import import_tvm

    import_tvm()
    for one in _SHIPPED:
        print(ship(one))
