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

#: Submodules whose intrinsics take so long to parse that they are kept.
_CACHED = ("cuda",)


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


def prepare_builder() -> None:
    """Spare a process that only builds the import of tensor intrinsics: schedules that are made need none."""
    import_tvm()


def load_intrinsics(architecture: str) -> None:
    """Register the tensor intrinsics of one architecture: x86, arm, cuda, rocm, hexagon or riscv."""
    import_tvm()
    from prune_engine.metaschedule.intrinsic_cache import import_cached

    with _cheap_stacks():
        for name in _INTRINSICS_OF_KEY.get(architecture, ()):
            module = f"{_INTRINSICS}.{name}"
            if module not in sys.modules:
                import_cached(module) if name in _CACHED else importlib.import_module(module)


@contextmanager
def _cheap_stacks() -> Iterator[None]:
    """Make ``inspect.stack`` name frames only.

    TVMScript calls it for every function it parses, for the frames' variables. It would look for the module and
    the source lines of each frame: half of the time that registering intrinsics takes.
    """
    original: Callable[..., Any] = inspect.stack

    def frames_only(context: int = 0) -> list[inspect.FrameInfo]:  # noqa: ARG001 - the signature of inspect.stack
        frame, found = inspect.currentframe(), []
        while frame := frame.f_back if frame else None:
            code = frame.f_code
            found.append(inspect.FrameInfo(frame, code.co_filename, frame.f_lineno, code.co_name, None, None))
        return found

    vars(inspect)["stack"] = frames_only
    try:
        yield
    finally:
        vars(inspect)["stack"] = original
