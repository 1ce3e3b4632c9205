"""What a caller has of a model, as something that can be named: a file, or a workload."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from prune_engine.api.requests import PathLike, path_text
from prune_engine.errors import ConfigError, PruneEngineError
from prune_engine.result_folder import RESULTS

if TYPE_CHECKING:
    import onnx
    import tvm

#: A file, a workload's name, or what is in memory: an onnx.ModelProto, or TVM's IRModule or PrimFunc.
Model: TypeAlias = "PathLike | onnx.ModelProto | tvm.IRModule | tvm.tirx.PrimFunc"

#: The folder in a result that holds what was given in memory.
_GIVEN = "model"
#: What errors call a model that has no file.
_IN_MEMORY = "the model given"
#: What protobuf can write into one file.
_MAX_PROTO_BYTES = 2**31 - 1


def result_folder(model: Model, out: PathLike | None) -> Path:
    """Where a result goes: ``out``, or tuned/MODEL. Raises ConfigError for what is no model."""
    from prune_engine.metaschedule.workloads.loading import result_name

    if out is not None:
        return Path(path_text("out", out))
    if isinstance(model, str | os.PathLike):
        return RESULTS / result_name(os.fspath(model))
    return RESULTS / _name(model)


def saved(model: Model, folder: Path) -> str:
    """What names the model; one that is in memory is written into ``folder`` first.

    Raises ConfigError for what is no model, OutputError.
    """
    if isinstance(model, str | os.PathLike):
        return os.fspath(model)
    from prune_engine.artifact_files import output_error

    name = _name(model)
    place = folder / _GIVEN
    text = _content(model)
    try:
        place.mkdir(parents=True, exist_ok=True)
        file = place / f"{name}{'.onnx' if _is_onnx(model) else '.json'}"
        staged = file.with_name(f".{file.name}.tmp")
        staged.write_bytes(text)
        staged.replace(file)
    except OSError as error:
        raise output_error(error, folder) from error
    return str(file)


@contextmanager
def named(model: Model) -> Iterator[str]:
    """What names the model as long as it is looked at."""
    if isinstance(model, str | os.PathLike):
        yield os.fspath(model)
        return
    from prune_engine.metaschedule.measure.tempdirs import scratch_folder

    with scratch_folder() as folder:
        file = saved(model, folder)
        try:
            yield file
        except PruneEngineError as error:  # nobody knows the file
            error.who = error.who and error.who.replace(file, _IN_MEMORY)
            error.args = (str(error).replace(file, _IN_MEMORY), *error.args[1:])
            raise


def _is_onnx(model: object) -> bool:
    onnx = sys.modules.get("onnx")
    return onnx is not None and isinstance(model, onnx.ModelProto)


def _name(model: object) -> str:
    """A file's name for a model in memory."""
    if not _is_onnx(model):
        _content_of_module(model, only_check=True)
        return "module"
    found: Any = model
    return re.sub(r"[^\w.-]+", "_", found.graph.name).strip("._")[:64] or "model"


def _content(model: object) -> bytes:
    if not _is_onnx(model):
        return _content_of_module(model)
    proto: Any = model
    if proto.ByteSize() > _MAX_PROTO_BYTES:
        raise ConfigError(
            "too large to be written as one file",
            who="model",
            got=f"{proto.ByteSize():,} bytes",
            expected=f"at most {_MAX_PROTO_BYTES:,}",
            remedy="Write it by onnx.save_model(..., save_as_external_data=True), and give the file.",
        )
    return bytes(proto.SerializeToString())


def _content_of_module(model: object, *, only_check: bool = False) -> bytes:
    # What comes of TVM can only be there if somebody imported it.
    if "tvm" in sys.modules:
        from prune_engine.metaschedule.workloads.in_memory import is_module, module_text

        if is_module(model):
            return b"" if only_check else module_text(model).encode()
    raise ConfigError(
        "is no model",
        who="model",
        got=f"{type(model).__module__}.{type(model).__qualname__}",
        expected="a file, a workload such as 'gemm:512x512x512', an onnx.ModelProto, or an IRModule or PrimFunc",
    )
