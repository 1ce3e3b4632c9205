"""The one place that knows where this TVM release keeps things, and how to import it quickly."""

from __future__ import annotations

import importlib
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_INTRINSICS = "tvm.s_tir.tensor_intrin"

#: Submodules of tensor_intrin that register the intrinsics of a target kind's design spaces.
_INTRINSICS_OF_KEY = {
    "x86": ("x86",),
    "arm": ("arm_cpu",),
    "cuda": ("cuda",),
    "rocm": ("rocm",),
    "hexagon": ("hexagon",),
    "riscv": ("riscv_cpu",),
}


def import_tvm() -> Any:
    """Import tvm in about a second and return it; idempotent.

    The first TuneContext imports ``tvm.s_tir.tensor_intrin``, which parses the intrinsics of every
    architecture (8-23 s). We put an empty package in its place whose submodules are imported by
    ``load_intrinsics`` for the architecture at hand.
    """
    tvm = importlib.import_module("tvm")
    if _INTRINSICS not in sys.modules:
        s_tir = importlib.import_module("tvm.s_tir")
        package = types.ModuleType(_INTRINSICS)
        package.__path__ = [str(Path(str(s_tir.__file__)).parent / "tensor_intrin")]
        sys.modules[_INTRINSICS] = package
        vars(s_tir)["tensor_intrin"] = package
    return tvm


def load_intrinsics(architecture: str) -> None:
    """Register the tensor intrinsics of one architecture: x86, arm, cuda, rocm, hexagon or riscv."""
    import_tvm()
    with _cheap_stacks():
        for name in _INTRINSICS_OF_KEY.get(architecture, ()):
            importlib.import_module(f"{_INTRINSICS}.{name}")


@contextmanager
def _cheap_stacks() -> Iterator[None]:
    """Make ``inspect.stack`` skip source lines: TVMScript calls it per parse and never looks at them."""
    original: Callable[..., Any] = inspect.stack

    def without_source(context: int = 0) -> Any:
        return original(context * 0)

    vars(inspect)["stack"] = without_source
    try:
        yield
    finally:
        vars(inspect)["stack"] = original
