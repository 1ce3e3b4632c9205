"""What metadata.json of an artefact holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from prune_engine.errors import ArtifactError

LIBRARY_NAME = "model.so"
METADATA_NAME = "metadata.json"
SCHEMA_VERSION = 1

#: More than any machine has processors. TVM ends the process if it cannot start as many threads as it is told.
MAX_THREADS = 4096


class TensorSpec(BaseModel):
    """An input or output; ``dtype`` is numpy's name."""

    model_config = ConfigDict(frozen=True)

    name: str
    shape: tuple[int, ...]
    dtype: str


class ArtifactMetadata(BaseModel):
    """Content of metadata.json. Unknown fields are ignored, so that later minor additions stay readable.

    ``manifest`` is whatever the tuning run wants to keep (JSON values); nothing here reads it.
    """

    model_config = ConfigDict(frozen=True)

    schema_version: int = Field(ge=1)
    model_name: str
    model_digest: str
    library: str
    library_digest: str
    target: str
    n_threads: int = Field(ge=1, le=MAX_THREADS)
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    versions: Mapping[str, str]
    created_at: float
    manifest: Mapping[str, Any] = Field(default_factory=dict)


def read_metadata(folder: Path) -> ArtifactMetadata:
    """Read and check metadata.json. Raises ArtifactError."""
    path = Path(folder) / METADATA_NAME
    remedy = "Give the folder that `prune-engine tune --out` wrote."
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArtifactError(
            "there is no readable metadata file", who=str(path), got=error, remedy=remedy
        ) from error
    try:
        metadata = ArtifactMetadata.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ArtifactError(
            "the metadata are damaged", who=str(path), got=f"{place}: {first['msg']}".lstrip(": "), remedy=remedy
        ) from error
    if metadata.schema_version > SCHEMA_VERSION:
        raise ArtifactError(
            "this artefact was written by a newer prune_engine",
            who=str(path),
            got=f"schema_version {metadata.schema_version}",
            expected=f"at most {SCHEMA_VERSION}",
            remedy="Upgrade prune-engine, or tune again with this version.",
        )
    return metadata
