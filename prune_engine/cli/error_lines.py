"""How an error that ends a verb is told: in words, or with --json as one JSON object."""

from __future__ import annotations

import json
from collections.abc import Sequence

from prune_engine.display.streams import say
from prune_engine.display.style import print_error
from prune_engine.errors import ConfigError, PruneEngineError


def place_error(error: OSError) -> ConfigError:
    """What the system says of a file or folder that no verb expected to be refused, such as a name without end."""
    return ConfigError(
        "cannot be used",
        who=str(error.filename),
        got=error.strerror or str(error),
        remedy="Name another place, or see that it may be read and written.",
    )


def tell_error(error: PruneEngineError, arguments: Sequence[str]) -> None:
    """Tell on stderr what ends the program that was given these arguments."""
    message = str(error)
    if isinstance(error, ConfigError):
        from prune_engine.option_names import as_options

        message = as_options(message)
    if "--json" not in arguments:
        print_error(message)
        return
    parts = {
        name: None if (part := getattr(error, name)) is None else str(part)
        for name in ("who", "got", "expected", "remedy")
    }
    record = {"event": "error", "error": type(error).__name__, "message": message, "problem": error.problem}
    say(json.dumps({**record, **parts, "exit_code": error.exit_code}))
