"""What the schema has against a profile, in words: problem and remedy."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Literal, get_args, get_origin

from pydantic import BaseModel

from prune_engine.hardware.schema import (
    Calibration,
    ComputeUnit,
    Count,
    HardwareProfile,
    Limits,
    MemoryLevel,
    Probe,
    Tile,
)

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_MODELS: tuple[type[BaseModel], ...] = (
    HardwareProfile,
    MemoryLevel,
    ComputeUnit,
    Limits,
    Calibration,
    Probe,
    Count,
    Tile,
)
_KEYS = sorted({field for model in _MODELS for field in model.model_fields})
_NUMBER_AS_TEXT = re.compile(r"[-+]?[\d_.]+([eE][-+]?\d+)?")
#: Complaint of pydantic -> what to do, where that does not depend on the value.
_REMEDIES = {
    "greater_than": "Write a number above 0, or null for the whole field if it is unknown.",
    "enum": "Write one of them.",
    "literal_error": "Write one of them.",
    "bool_type": "Write true or false.",
    "int_type": "Write a whole number.",
    "int_from_float": "Write a whole number.",
    "float_type": "Write a number.",
    "finite_number": "Write a number, or null for the whole field if it is unknown.",
    "string_type": "Write text, in quotes if YAML takes it for something else.",
    "string_too_short": "Write something there.",
    "string_pattern_mismatch": "Use lower-case letters, digits, '.', '_' and '-'; types are such as float16, int8.",
}


def explain(detail: ErrorDetails) -> tuple[str, str]:
    """A pydantic complaint as problem and remedy."""
    got, kind, key = detail["input"], detail["type"], str(detail["loc"][-1]) if detail["loc"] else ""
    if kind == "extra_forbidden":
        meant = meant_keys(key)
        if meant and meant[0].startswith(f"{key}_"):
            return "unknown key, its unit is missing", f"Write {' or '.join(meant)}."
        return "unknown key", f"Did you mean {meant[0]}?" if meant else "Remove it."
    if kind == "missing":
        return "missing", _how_to_give(key)
    if kind == "string_too_short" and detail["loc"][:1] == ("sources",):
        return "no source is given", "Write the title, page or address, or the rule of what is derived."
    if isinstance(got, str) and kind in ("int_type", "float_type", "model_type"):
        if kind != "model_type" and _NUMBER_AS_TEXT.fullmatch(got) and "e" in got.lower():
            return (
                f"{got!r} is text to YAML, not a number",
                "Write the sign of the exponent and a decimal point, as in 3.35e+12.",
            )
        if kind != "model_type":
            return f"{got!r} is text, not a number", "Write a plain number in the unit that the key names."
    if kind == "model_type" and isinstance(got, str | int | float):
        return f"bare value {got!r}", f"Write {{value: {got}, source: <key of sources>}}, or null if unknown."
    if got is None and key in _KEYS:
        return "must not be null", _how_to_give(key)
    message = detail["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    shown = message if isinstance(got, dict | list) else f"{message}, got {got!r}"
    return shown, _REMEDIES.get(kind, "")


def meant_keys(key: str) -> list[str]:
    """The keys somebody may have meant who wrote an unknown one."""
    with_unit = [known for known in _KEYS if known.startswith(f"{key}_")]
    return with_unit or difflib.get_close_matches(key, _KEYS, n=1)


def _how_to_give(key: str) -> str:
    """How a field is written that must be there, by its type."""
    if key == "source":
        return "Give source: a key of sources."
    annotation = next((m.model_fields[key].annotation for m in _MODELS if key in m.model_fields), None)
    origin = get_origin(annotation) or annotation
    if type(None) in get_args(annotation):
        return f"Give {key}, as null if it is unknown."
    if origin is tuple:
        return f"Give {key}, as [] if there is none."
    if origin is Mapping:
        return f"Give {key}, as {{}} if there is none."
    if origin is Literal:
        return f"Give {key}: {' or '.join(map(str, get_args(annotation)))}."
    if isinstance(origin, type) and issubclass(origin, Enum):
        return f"Give {key}: {' or '.join(str(item.value) for item in origin)}."
    if origin is bool:
        return f"Give {key}: true or false."
    return f"Give {key}."
