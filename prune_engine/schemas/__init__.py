"""JSON Schemas of the files that prune_engine writes for other programs."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def decision_schema() -> dict[str, Any]:
    """The JSON Schema of a line of a decision chain."""
    text = files(__name__).joinpath("decision.schema.json").read_text(encoding="utf-8")
    return dict(json.loads(text))
