"""Lock files: a policy that was pinned, and the check of a run against it."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from prune_engine.bounded_files import json_of, read_bounded
from prune_engine.errors import ConfigError, OutputError
from prune_engine.provenance.policy import Policy, change_lines, diff

#: A lock file is a few kilobytes; whatever is larger is none.
_MAX_BYTES = 4 << 20
#: Differences that an error message lists.
_N_LISTED = 8


def write_lock(path: Path, policy: Policy) -> None:
    """Write a policy to a lock file, whole or not at all. Raises OutputError."""
    text = json.dumps(policy.as_json(), indent=2, sort_keys=True) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(number, "w", encoding="utf-8") as file:
                file.write(text)
            Path(name).chmod(0o644)  # it is meant to be shared, unlike other temporary files
            Path(name).replace(path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OutputError(
            "the policy cannot be written",
            who=str(path),
            got=error.strerror or str(error),
            remedy="Name a file in a folder that you can write to.",
        ) from error


def read_lock(path: Path) -> Policy:
    """Read a lock file. Raises ConfigError for what is none, is damaged, was edited or is of a newer format."""
    try:
        record = json_of(read_bounded(path, _MAX_BYTES))
    except (OSError, ValueError) as error:
        raise ConfigError(
            "the policy cannot be read",
            who=str(path),
            got=error.strerror or str(error) if isinstance(error, OSError) else error,
            expected="a lock file of `prune-engine policy pin`",
        ) from error
    return Policy.from_json(record, str(path))


def check_pinned(path: Path, policy: Policy) -> None:
    """Raise ConfigError, with the differences, unless ``policy`` is the one that a lock file holds."""
    pinned = read_lock(path)
    if pinned.hash == policy.hash:
        return
    lines = change_lines(diff(pinned, policy))
    more = f"; and {len(lines) - _N_LISTED} more" if len(lines) > _N_LISTED else ""
    raise ConfigError(
        "this run would not follow the pinned policy: " + "; ".join(lines[:_N_LISTED]) + more,
        who=str(path),
        got=policy.short_hash,
        expected=pinned.short_hash,
        remedy="Undo the change, or pin the policy anew with `prune-engine policy pin`.",
    )
