"""Which versions of the engine a plugin is made for, and whether this is one of them.

A plugin says so in one of two places, or in both. Its distribution requires ``prune-engine>=0.1,<1``, like any
other library that it uses: an installer sees to that, but not where one was told to ignore it, or where the engine
was exchanged later. And its module may hold ``PRUNE_ENGINE_API = 1``: a plugin file has no other way to say it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from prune_engine import __version__

#: The major version of what plugins see: hooks, strategy kinds, records. Raised when a plugin would have to change.
PLUGIN_API = 1
#: The module attribute in which a plugin may say which one it is made for.
ATTRIBUTE = "PRUNE_ENGINE_API"

_OWN_NAME = re.compile(r"prune[-_.]+engine(?![A-Za-z0-9._-])", re.IGNORECASE)


def requirement_misfit(distribution: str | None, requires: Sequence[str]) -> str | None:
    """Why a distribution is not made for this engine, by its requirements (PEP 508), or None if it may be."""
    for text in requires:
        if not _OWN_NAME.match(text):
            continue
        from packaging.requirements import InvalidRequirement, Requirement  # only where there is one to read

        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue  # no installer read it either
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if applies and not requirement.specifier.contains(__version__, prereleases=True):
            return (
                f"made for prune-engine{requirement.specifier}, and this is {__version__}; "
                f"pip install --upgrade {distribution} prune-engine"
            )
    return None


def attribute_misfit(plugin: object) -> str | None:
    """Why a module or plugin object is not made for this engine, by what it says itself, or None if it may be."""
    wanted = getattr(plugin, ATTRIBUTE, PLUGIN_API)
    if isinstance(wanted, bool) or not isinstance(wanted, int):
        return f"{ATTRIBUTE} is {wanted!r}; expected the major version of the plugin API as a number: {PLUGIN_API}"
    if wanted == PLUGIN_API:
        return None
    remedy = "upgrade prune-engine" if wanted > PLUGIN_API else "take a later release of the plugin"
    return f"made for version {wanted} of the plugin API, and this prune-engine has {PLUGIN_API}; {remedy}"


def says_for_which(plugin: object, requires: Sequence[str]) -> bool:
    """Whether a plugin names versions at all: its module does, or a requirement with limits."""
    named = any(_OWN_NAME.match(text) and re.search(r"[<>=~!]", text.partition(";")[0]) for text in requires)
    return named or hasattr(plugin, ATTRIBUTE)
