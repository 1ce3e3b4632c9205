"""Hold what verbs print with --json against the published schemas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from jsonschema import Draft202012Validator

from prune_engine.schemas import schema
from prune_engine.schemas.verbs import PRINTED, schema_name


def closed(node: Any) -> Any:
    """A schema that takes no field that it does not name: published ones are open, for later versions."""
    if isinstance(node, dict):
        found = {key: closed(value) for key, value in node.items()}
        if "properties" in node and "additionalProperties" not in node:
            found["additionalProperties"] = False
        return found
    return [closed(item) for item in node] if isinstance(node, list) else node


def complaints(name: str, value: Any) -> list[str]:
    """What a closed schema has against a value, a line each."""
    validator = Draft202012Validator(closed(schema(name)))
    return [f"{error.json_path}: {error.message[:300]}" for error in validator.iter_errors(value)]


def verb_of(arguments: Sequence[str]) -> str | None:
    """The verb that is typed, such as ``profiles list``; None for one of a plugin."""
    words = [word for word in arguments if not word.startswith("-")]
    two = " ".join(words[:2])
    return two if two in PRINTED else words[0] if words and words[0] in PRINTED else None


def check_printed(arguments: Sequence[object], code: int, out: str, err: str) -> None:
    """Assert that what a verb printed with --json is as its schema says, and its error, if it ended with one."""
    words = [str(argument) for argument in arguments]
    if "--json" not in words or (verb := verb_of(words)) is None:
        return
    if out.strip():
        assert not (found := complaints(schema_name(verb), json.loads(out))), f"{verb}: {found[:5]}"
    for line in err.splitlines():
        if line.startswith('{"event"'):
            assert not (found := complaints("event", json.loads(line))), f"{verb}: {line}: {found[:5]}"
