"""See that what is not to be loaded is there: a misspelt name would block nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from prune_engine.errors import ConfigError


def check_blocked(names: Sequence[str], files: Sequence[Path], who: str = "blocked_plugins") -> None:
    """See that there is a plugin of each name that is not to be loaded. Raises ConfigError on behalf of ``who``."""
    from prune_engine.plugin_host.loading import find_plugins

    known = {source.name for source in find_plugins(files)} if names else set()
    if unknown := sorted(set(names) - known):
        raise ConfigError(
            "no plugin of this name, so there is nothing to block",
            who=who,
            got=", ".join(map(repr, unknown)),
            expected="one of: " + (", ".join(sorted(known)) or "(no plugin is installed)"),
        )
