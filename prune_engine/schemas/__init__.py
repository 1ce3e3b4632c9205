"""JSON Schemas (2020-12) of the files that prune_engine writes for other programs, and of what verbs print.

They are package data, ``prune_engine/schemas/NAME.schema.json``, for programs in other languages.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from prune_engine.errors import ConfigError

_SUFFIX = ".schema.json"


def schema_names() -> tuple[str, ...]:
    """The names of all schemas: ``decision``, ``event``, ``profile``, each verb's, such as ``profiles-list``."""
    found = (item.name for item in files(__name__).iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in found if name.endswith(_SUFFIX)))


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of that name. Raises ConfigError for one that there is not."""
    file = files(__name__).joinpath(f"{name}{_SUFFIX}")
    if name not in schema_names():
        raise ConfigError("no such schema", who="schema", got=repr(name), expected=", ".join(schema_names()))
    return dict(json.loads(file.read_text(encoding="utf-8")))


def decision_schema() -> dict[str, Any]:
    """The JSON Schema of a line of a decision chain."""
    return schema("decision")
