"""Write the schemas anew: ``python -m prune_engine.schemas.writing`` in a checkout of the project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from prune_engine.schemas.verbs import made_schemas


def schema_text(schema: dict[str, Any]) -> str:
    """A schema as its file has it."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def write_schemas(folder: Path) -> None:
    """Write all schemas that follow from types into a folder."""
    for name, schema in made_schemas().items():
        (folder / f"{name}.schema.json").write_text(schema_text(schema), encoding="utf-8")


if __name__ == "__main__":
    write_schemas(Path(__file__).parent)
