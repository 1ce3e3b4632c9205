"""JSON objects against the models that say what they may hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from prune_engine.errors import ConfigError

Options = TypeVar("Options", bound=BaseModel)
#: Mistakes that are told of at most, and characters of each value.
_MOST_TOLD, _MOST_SHOWN = 8, 60


def checked(model: type[Options], options: Mapping[str, Any], who: str) -> Options:
    """An object as a model has it. Raises ConfigError naming each key that is wrong."""
    try:
        return model.model_validate(dict(options))
    except ValidationError as error:
        lines = [
            f"{'.'.join(map(str, e['loc']))}: {e['msg']} (got {str(e['input'])[:_MOST_SHOWN]})"
            for e in error.errors()
        ]
        raise ConfigError(
            "; ".join(lines[:_MOST_TOLD]), who=who, expected=f"keys out of: {', '.join(model.model_fields)}"
        ) from error
