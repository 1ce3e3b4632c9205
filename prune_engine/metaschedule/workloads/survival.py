"""Whether the compiler survives kernels of a file: it may crash long after it has read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from prune_engine.errors import ModelImportError, PruneEngineError
from prune_engine.metaschedule._compat import load_intrinsics
from prune_engine.metaschedule.forked import crash_of
from prune_engine.metaschedule.importers import ImportedModel
from prune_engine.metaschedule.materialise import Materialiser
from prune_engine.metaschedule.targets import architecture_of
from prune_engine.metaschedule.workloads.kernel_model import Kernel
from prune_engine.task import TuningTask


def try_space(make: Callable[[], TuningTask]) -> None:
    """Make a task and its design space, for nothing but to see whether the compiler survives it. Errors pass."""
    with suppress(PruneEngineError):
        Materialiser(make(), 0).design_space()


def check_survived(
    kernels: Sequence[Kernel],
    model_of: Callable[[Sequence[Kernel]], ImportedModel],
    path: Path,
    target: str,
    *,
    is_built: bool,
) -> None:
    """Do in a copy of this process all that is done with the kernels of a file, with ``is_built`` the build too.

    Raises ModelImportError that names the kernel on which the compiler crashes, or does not come to an end.
    """
    load_intrinsics(architecture_of(target))  # once, here, and not in each copy

    def crash(some: Sequence[Kernel]) -> str | None:
        return crash_of(lambda: _all(lambda: model_of(some), target, is_built))

    found = crash(kernels)
    if found is None:
        return
    # By themselves they are told apart; it may also be that only all of them together are too much.
    alone = ((kernel.name, crash([kernel])) for kernel in kernels)
    name, found = next(((name, one) for name, one in alone if one), ("", found))
    raise ModelImportError(
        f"kernel {name!r} cannot be compiled" if name else "the kernels cannot be compiled together",
        who=str(path),
        got=found,
        expected="kernels as TVM 0.27 writes them",
        remedy="Write the file anew with TVM, or leave the kernel out.",
    )


def _all(make: Callable[[], ImportedModel], target: str, is_built: bool) -> None:
    from prune_engine.metaschedule.apply import compile_model

    model = make()
    for task in model.tasks:
        try_space(partial(replace, task))
    if is_built:
        compile_model(model, [], target)
