"""Whatever holds kernels, as tuning tasks: an ONNX model, a workload name, a TVMScript or a MetaSchedule file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path

from prune_engine.errors import ConfigError
from prune_engine.metaschedule.importers import ImportedModel, import_onnx
from prune_engine.metaschedule.onnx_files import check_readable, digest_of
from prune_engine.metaschedule.workloads.names import Workload, looks_like_name, parse_workload
from prune_engine.task import TuningTask

#: Whole shapes by the name of the input.
InputShapes = Mapping[str, tuple[int, ...]]


class SourceKind(Enum):
    """What a user can give where a model is expected."""

    ONNX = "an ONNX model"
    NAME = "a workload name"
    SCRIPT = "a TVMScript file"
    JSON = "a MetaSchedule workload file"


_KIND_OF_SUFFIX = {".py": SourceKind.SCRIPT, ".json": SourceKind.JSON}


def source_kind(what: str) -> SourceKind:
    """Tell what is meant, by its form alone. A file that exists is never taken for a name."""
    if looks_like_name(what) and not os.path.lexists(what):
        return SourceKind.NAME
    return _KIND_OF_SUFFIX.get(Path(what).suffix.lower(), SourceKind.ONNX)


def check_source(what: str, shapes: InputShapes | None = None, dims: Mapping[str, int] | None = None) -> None:
    """Raise what ``load_model`` would raise for a name that makes no sense or a file that cannot be read.

    Takes no time, so it can come before what does.
    """
    kind = source_kind(what)
    if kind is not SourceKind.ONNX and (shapes or dims):
        raise ConfigError(
            f"{kind.value} has fixed shapes",
            who="--shape" if shapes else "--dim",
            got=what,
            remedy="Leave the option out.",
        )
    if kind is SourceKind.NAME:
        parse_workload(what)
    else:
        check_readable(Path(what))


def result_name(what: str) -> str:
    """A name for the folder of results: the file's without its ending, or the workload's canonical one."""
    if source_kind(what) is SourceKind.NAME:
        return "".join(c if c.isalnum() or c in "-_" else "_" for c in parse_workload(what).text)
    return Path(what).stem


def load_tasks(
    what: str,
    target: str,
    *,
    shapes: InputShapes | None = None,
    dims: Mapping[str, int] | None = None,
) -> tuple[TuningTask, ...]:
    """The tuning tasks of a model, a workload or a file of kernels, for a canonical target.

    Raises as ``load_model``.
    """
    return _loaded(what, target, shapes, dims, is_built=False).tasks


def load_model(
    what: str,
    target: str,
    *,
    shapes: InputShapes | None = None,
    dims: Mapping[str, int] | None = None,
) -> ImportedModel:
    """What a user names, as a model: kernels from elsewhere than ONNX become one that calls each once.

    Raises:
        ModelImportError: the file is broken or holds what cannot be tuned.
        ConfigError: a workload name makes no sense, or ``shapes`` or ``dims`` do not fit.
    """
    return _loaded(what, target, shapes, dims, is_built=True)


def _loaded(
    what: str, target: str, shapes: InputShapes | None, dims: Mapping[str, int] | None, *, is_built: bool
) -> ImportedModel:
    """``is_built`` says that the model will be compiled as a whole."""
    kind = source_kind(what)
    if kind is SourceKind.ONNX:
        return import_onnx(Path(what), target=target, shapes=shapes or {}, dims=dims or {})
    check_source(what, shapes, dims)
    if kind is SourceKind.NAME:
        return _from_name(parse_workload(what), target)
    return _from_file(Path(what), kind, target, is_built)


def _from_name(workload: Workload, target: str) -> ImportedModel:
    from prune_engine.metaschedule.workloads.kernel_model import Kernel, kernel_model
    from prune_engine.metaschedule.workloads.kernels import workload_kernel

    text = workload.text
    kernel = Kernel(workload.operator.name, workload_kernel(workload))
    model = kernel_model(
        [kernel],
        name=text,
        source=Path(text),
        digest=hashlib.blake2b(text.encode(), digest_size=16).hexdigest(),
        target=target,
        task_names={kernel.name: text},
    )
    # The kernel's own name for it depends on the last step.
    return replace(model, outputs=tuple(replace(output, name=workload.output.name) for output in model.outputs))


def _from_file(path: Path, kind: SourceKind, target: str, is_built: bool) -> ImportedModel:
    from prune_engine.metaschedule.workloads.files import kernels_of_json, kernels_of_script
    from prune_engine.metaschedule.workloads.kernel_model import Kernel, kernel_model
    from prune_engine.metaschedule.workloads.relax_model import relax_model, relax_of_json
    from prune_engine.metaschedule.workloads.survival import check_survived

    digest = digest_of(path)
    if kind is SourceKind.JSON and (mod := relax_of_json(path)) is not None:
        return relax_model(mod, name=path.stem, source=path, digest=digest, target=target)
    kernels = kernels_of_script(path) if kind is SourceKind.SCRIPT else kernels_of_json(path)

    def model_of(some: Sequence[Kernel]) -> ImportedModel:
        return kernel_model(some, name=path.stem, source=path, digest=digest, target=target)

    check_survived(kernels, model_of, path, target, is_built=is_built)
    return model_of(kernels)
