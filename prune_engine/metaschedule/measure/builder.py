"""What a build child does: from a module's JSON to a shared library in its own folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

from prune_engine.measurement import MeasureErrorKind
from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.measure.children import JobFailedError
from prune_engine.metaschedule.measure.jobs import ArtifactJob, BuildJob, Job
from prune_engine.metaschedule.measure.protocol import WIDE_FILE
from prune_engine.metaschedule.rounding import rounding_of, widened

KERNEL_FILE = "kernel.so"
#: LLVM and the lowering passes raise all of these.
_BUILD_ERRORS = (RuntimeError, ValueError, TypeError, LookupError)


def build(job: Job, target: Any, folder: Path, *, checks_arguments: bool) -> None:
    """Write ``kernel.so`` to ``folder``. Raises JobFailedError or whatever TVM raises.

    A kernel that ``checks_arguments`` refuses buffers of other shapes and types than its own. The checks are
    a wrapper round the computation, whose machine code is the same with and without, and they are a fifth
    of the median build: one build per task with them is enough.
    """
    if isinstance(job, ArtifactJob):
        shutil.copyfile(job.path, folder / KERNEL_FILE)
        return
    object_file = folder / "kernel.o"
    # Not hasattr(), not lib.mod: any unknown attribute of a runtime module is looked up as a function, for
    # which TVM compiles the whole module a second time, in memory.
    module = compile_module(job.module_json, target, checks_arguments=checks_arguments)
    module.write_to_file(str(object_file))
    link(object_file, folder / KERNEL_FILE)
    object_file.unlink()


def build_wide(job: Job, target: Any, folder: Path) -> None:
    """Write the kernel in float64 beside it; nothing for one that means something else in another type."""
    tvm = import_tvm()
    if not isinstance(job, BuildJob) or not rounding_of(tvm.ir.load_json(job.module_json)).can_widen:
        return
    object_file = folder / "wide.o"
    # Whatever a kernel has that does not exist in float64: bounds are then made of its results alone.
    with contextlib.suppress(*_BUILD_ERRORS):
        module = compile_module(widened(job.module_json), target, checks_arguments=False)
        module.write_to_file(str(object_file))
        link(object_file, folder / WIDE_FILE)
        object_file.unlink()


def compile_module(module_json: str, target: Any, *, checks_arguments: bool) -> Any:
    """Compile like MetaSchedule's own builder does; returns the runtime module."""
    tvm = import_tvm()
    mod = tvm.ir.load_json(module_json)
    mod = tvm.s_tir.transform.RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod)
    with tvm.transform.PassContext(config={"tirx.disable_assert": not checks_arguments}):
        return tvm.tirx.build(mod, target=target)


def link(object_file: Path, library: Path) -> None:
    """Link one object file. The bare linker takes 4 ms where the compiler driver takes 90."""
    done = subprocess.run(
        [*linker(), "-o", str(library), str(object_file)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise JobFailedError(
            MeasureErrorKind.BUILD_ERROR, f"the linker ended with {done.returncode}: {done.stderr.strip()[-1000:]}"
        )


@lru_cache(maxsize=1)
def linker() -> tuple[str, ...]:
    """The command that links a shared library, with its options."""
    bare = shutil.which("ld") or shutil.which("ld.lld")
    if bare is not None:
        return (bare, "-shared")
    driver = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if driver is None:
        raise JobFailedError(
            MeasureErrorKind.BUILD_ERROR, "no linker found: install binutils or a C compiler (ld, cc, gcc or clang)"
        )
    return (driver, "-shared", "-fPIC")
