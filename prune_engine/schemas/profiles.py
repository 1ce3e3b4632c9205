"""What `profiles`, `plugins` and `policy` print with --json."""

from __future__ import annotations

from pydantic import JsonValue
from typing_extensions import TypedDict

from prune_engine.hardware.fields import Difference
from prune_engine.provenance.policy import PolicyChange


class ProfileEntry(TypedDict):
    """A profile that was found; ``error`` says why a file cannot be used, and the others are null then."""

    name: str
    layer: str
    origin: str
    kind: str | None
    description: str | None
    aliases: list[str]
    digest: str | None
    error: str | None


class Mistake(TypedDict):
    """What is wrong in which line, counted from 1; the problem begins with the field."""

    line: int
    problem: str
    remedy: str | None


class CheckedProfile(TypedDict):
    """A file that was checked. ``error`` is all of it in words, null if it can be used."""

    file: str
    pack: str | None
    name: str
    kind: str | None
    n_known: int
    n_unknown: int
    notes: list[str]
    error: str | None
    mistakes: list[Mistake]


class CheckedProfiles(TypedDict):
    """All files that were checked; the exit code is 2 unless ``n_broken`` is 0."""

    profiles: list[CheckedProfile]
    n_broken: int


class NewProfile(TypedDict):
    """Files that were written."""

    name: str
    pack: str | None
    files: list[str]


Differences = list[Difference]


class Plugin(TypedDict):
    """A plugin, the hooks it implements and the strategies it registers; ``detail`` says why it is not loaded."""

    name: str
    version: str | None
    distribution: str | None
    status: str
    detail: str
    hooks: list[str]
    strategies: list[str]


class PluginCheck(TypedDict):
    """A check over all of its cases; ``who``, ``got``, ``expected``, ``remedy`` are of the first that failed."""

    subject: str
    kind: str
    check: str
    status: str
    n_cases: int
    failed_cases: list[str]
    who: str
    got: str
    expected: str
    remedy: str


class CheckedPlugin(TypedDict):
    """A plugin that was checked."""

    name: str
    hooks: list[str]
    strategies: list[str]
    checks: list[PluginCheck]


class CheckedPlugins(TypedDict):
    """All plugins that were checked; the exit code is 1 unless ``n_failed`` is 0."""

    checked: str
    n_passed: int
    n_failed: int
    n_warnings: int
    plugins: list[CheckedPlugin]


class NewPlugin(TypedDict):
    """Files that were written."""

    name: str
    kind: str
    folder: str
    files: list[str]


class Policy(TypedDict):
    """What steers pruning, by section, and its hash."""

    hash: str
    format_version: int
    content: dict[str, JsonValue]


class PolicyDifference(TypedDict):
    """Hashes of two policies, and what differs."""

    old: str
    new: str
    changes: list[PolicyChange]


class PinnedPolicy(TypedDict):
    """A lock file that was written."""

    file: str
    pinned: str
    hash: str
