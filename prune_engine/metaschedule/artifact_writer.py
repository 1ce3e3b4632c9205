"""Saves a compiled model as an artefact."""

from __future__ import annotations

import importlib.metadata
import platform
import time
from collections.abc import Mapping
from pathlib import Path

from prune_engine import __version__
from prune_engine.artifact_files import (
    file_digest,
    output_error,
    publish,
    staging_folder,
)
from prune_engine.metaschedule.apply import CompiledModel
from prune_engine.metaschedule.artifact_library import write_library
from prune_engine.metaschedule.artifact_metadata import (
    LIBRARY_NAME,
    METADATA_NAME,
    SCHEMA_VERSION,
    ArtifactMetadata,
    TensorSpec,
)
from prune_engine.metaschedule.importers import ImportedModel, TensorInfo

_RECORDED_PACKAGES = ("apache-tvm", "apache-tvm-ffi", "numpy", "onnx", "onnxruntime")


def save_artifact(
    compiled: CompiledModel,
    model: ImportedModel,
    out_dir: Path,
    *,
    n_threads: int,
    target: str,
    manifest: Mapping[str, object],
) -> Path:
    """Write ``model.so`` and ``metadata.json`` into ``out_dir`` and return it.

    An artefact that is there already is replaced, other files are left alone. If writing fails the old
    artefact is intact and nothing half-written is left.

    Raises:
        OutputError: the folder cannot be written, the disk is full, or there is no linker.
    """
    out_dir = Path(out_dir)
    with staging_folder(out_dir) as staging:
        library = staging / LIBRARY_NAME
        write_library(compiled.executable, library, out_dir)
        try:
            metadata = _metadata(model, library, n_threads, target, manifest)
            text = metadata.model_dump_json(indent=2) + "\n"
            (staging / METADATA_NAME).write_text(text, encoding="utf-8")
        except OSError as error:
            raise output_error(error, out_dir) from error
        publish(staging, out_dir, [LIBRARY_NAME, METADATA_NAME])
    return out_dir


def _metadata(
    model: ImportedModel, library: Path, n_threads: int, target: str, manifest: Mapping[str, object]
) -> ArtifactMetadata:
    return ArtifactMetadata(
        schema_version=SCHEMA_VERSION,
        model_name=model.name,
        model_digest=model.digest,
        library=LIBRARY_NAME,
        library_digest=file_digest(library),
        target=target,
        n_threads=n_threads,
        inputs=tuple(_spec(info) for info in model.inputs),
        outputs=tuple(_spec(info) for info in model.outputs),
        versions=_versions(),
        created_at=time.time(),
        manifest=dict(manifest),
    )


def _spec(info: TensorInfo) -> TensorSpec:
    return TensorSpec(name=info.name, shape=info.shape, dtype=info.dtype)


def _versions() -> dict[str, str]:
    versions = {"prune-engine": __version__, "python": platform.python_version()}
    for package in _RECORDED_PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
