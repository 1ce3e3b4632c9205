"""What other languages pass: texts, numbers and maps, checked before anything is done with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import tvm_ffi

from prune_engine.bounded_files import json_of
from prune_engine.errors import ConfigError

T = TypeVar("T")

#: Bytes of a JSON text: what the largest models' spaces have is a hundredth of it.
MAX_TEXT_BYTES = 1 << 28


class ArgumentError(ConfigError, TypeError):
    """An argument is of the wrong type."""


class TensorError(ConfigError, ValueError):
    """A tensor has the wrong form, lies in the wrong memory, or is too large."""


class TextError(ConfigError, ValueError):
    """A text is no JSON, or does not say what it should."""


def instance(value: object, kind: type[T], who: str, what: str) -> T:
    """A value of a kind. Raises ArgumentError, for null too; True and False are no integers."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ArgumentError("wrong type of argument", who=who, got=told(value), expected=what)
    return value


def text(value: object, who: str, what: str) -> str:
    """A text. Raises ArgumentError, and TextError for one that is too long."""
    found = str(instance(value, str, who, what))
    if len(found) > MAX_TEXT_BYTES:
        raise TextError(
            "too long a text", who=who, got=f"{len(found):,} characters", expected=f"<= {MAX_TEXT_BYTES:,}"
        )
    return found


def json_object(value: object, who: str) -> dict[str, Any]:
    """The object of a JSON text. Raises ArgumentError and TextError."""
    source = text(value, who, "a JSON text")
    try:
        found = json_of(source)
    except ValueError as error:
        raise TextError(f"no JSON: {error}", who=who, got=_short(source), expected="a JSON object") from error
    if not isinstance(found, dict):
        raise TextError("not an object", who=who, got=_short(source), expected='a JSON object, as {"key": 1}')
    return found


def plain_map(value: object, who: str) -> dict[str, Any]:
    """A JSON text, or a map of texts to anything, as a dict; containers in it become Python's."""
    if isinstance(value, (tvm_ffi.Map, Mapping)):
        return {text(key, f"{who}, a key", "a text"): _plain(item) for key, item in value.items()}
    if isinstance(value, str):
        return json_object(value, who)
    raise ArgumentError("wrong type of argument", who=who, got=told(value), expected="a JSON text, or a map")


def told(value: object) -> str:
    """What an error says was got: the kind of value, and a simple one itself."""
    if value is None:
        return "null"
    return (
        f"{type(value).__name__} {_short(value)}"
        if isinstance(value, (str, bytes, int, float))
        else type(value).__name__
    )


def _plain(value: object) -> Any:
    if isinstance(value, (tvm_ffi.Map, Mapping)):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (tvm_ffi.Array, list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, str) else value


def _short(value: object, most: int = 60) -> str:
    told = repr(value)
    return told if len(told) <= most else f"{told[:most]}..."
