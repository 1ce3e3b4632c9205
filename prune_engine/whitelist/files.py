"""Whitelists as files: text that a version control shows well, an entry in lines of its own, in a fixed order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prune_engine.bounded_files import read_bounded
from prune_engine.errors import ConfigError
from prune_engine.whitelist.entries import Removal, Whitelist, WhitelistEntry
from prune_engine.whitelist.events import entry_of, entry_text

#: Names the field that says what a file is; the number is its version.
MARK, VERSION = "prune_engine_whitelist", 1
#: A value whose JSON fits into so many characters stands on one line.
_WIDTH = 220
_MAX_BYTES = 256 << 20
_TRACE, _DIGEST = "trace_json", "digest"


@dataclass(frozen=True, slots=True)
class WhitelistContents:
    """What a file holds. ``removed`` gives the reason by id of what had been removed where it was written."""

    entries: tuple[WhitelistEntry, ...]
    removed: Mapping[str, str]
    revision: int


def whitelist_text(listed: Whitelist, written_by: str) -> str:
    """A whitelist as the text of a file. The same entries give the same text."""
    entries = sorted(listed.entries.values(), key=_order)
    record = {
        MARK: VERSION,
        "revision": listed.revision,
        "written_by": written_by,
        "entries": [_entry_record(entry) for entry in entries],
        "removed": [_removal_record(listed.removed[name]) for name in sorted(listed.removed)],
    }
    return _pretty(record, 0) + "\n"


def read_whitelist(path: Path) -> WhitelistContents:
    """Read a file that ``whitelist_text`` made. Nothing of a file that is wrong anywhere is taken.

    Raises ConfigError, which names the entry and the field that are wrong.
    """
    record = _record_of(path)
    version = record.get(MARK)
    if version != VERSION:
        is_ours = isinstance(version, int)
        raise ConfigError(
            "is of a version that this prune-engine does not read" if is_ours else "is no whitelist",
            who=str(path),
            got=f"version {version}" if is_ours else f"no field {MARK}",
            expected=f"version {VERSION}, as `prune-engine whitelist export` writes it",
        )
    items, removals = record.get("entries"), record.get("removed", [])
    if not isinstance(items, list) or not isinstance(removals, list):
        raise _damaged(path, "entries and removed are lists")
    entries = [_entry_of(path, number, item) for number, item in enumerate(items, 1)]
    if len({entry.entry_id for entry in entries}) < len(entries):
        raise _damaged(path, "an entry stands in it twice")
    try:
        removed = {str(one["entry_id"]): str(one["reason"]) for one in removals}
        return WhitelistContents(tuple(entries), removed, int(record["revision"]))
    except (TypeError, LookupError, ValueError) as error:
        raise _damaged(path, f"its revision or what was removed cannot be read ({error})") from error


def digest_of(entry: WhitelistEntry) -> str:
    """A hash of all that is known of an entry, evidence included."""
    return hashlib.sha256(entry_text(entry).encode()).hexdigest()[:32]


def _order(entry: WhitelistEntry) -> tuple[object, ...]:
    return entry.kernel_class.label, entry.task_name, entry.kernel_class.axes, entry.entry_id


def _entry_record(entry: WhitelistEntry) -> dict[str, Any]:
    record: dict[str, Any] = {
        "entry_id": entry.entry_id,
        _DIGEST: digest_of(entry),
        **json.loads(entry_text(entry)),
    }
    try:
        trace = json.loads(entry.trace_json)
    except ValueError:  # another compiler's: as it is
        return record
    if _compact(trace) == entry.trace_json:
        record[_TRACE] = trace  # an instruction a line
    return record


def _removal_record(removal: Removal) -> dict[str, Any]:
    return {
        "entry_id": removal.entry.entry_id,
        "task_name": removal.entry.task_name,
        "removed_at": removal.at,
        "removed_by": removal.by,
        "reason": removal.reason,
        "revision": removal.revision,
    }


def _entry_of(path: Path, number: int, item: object) -> WhitelistEntry:
    if not isinstance(item, dict):
        raise _damaged(path, f"entry {number} is no object")
    fields = dict(item)
    if not isinstance(fields.get(_TRACE), str):
        fields[_TRACE] = _compact(fields.get(_TRACE))
    name, digest = fields.pop("entry_id", None), fields.pop(_DIGEST, None)
    try:
        entry = entry_of(json.dumps(fields))
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"entry {number} ({name}): {error}") from error
    if name != entry.entry_id or digest != digest_of(entry):
        raise ConfigError(
            "an entry was changed after it was written",
            who=str(path),
            got=f"entry {number} ({name}) with digest {digest}",
            expected=f"entry {entry.entry_id} with digest {digest_of(entry)}",
            remedy="Evidence is not edited: export the list again, or add the schedule where it is to be changed.",
        )
    return entry


def _record_of(path: Path) -> dict[str, Any]:
    try:
        text = read_bounded(path, _MAX_BYTES)
    except ValueError as error:
        raise _damaged(path, f"it is longer than {_MAX_BYTES >> 20} MiB") from error
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigError(
            "cannot be read", who=str(path), got=why, expected="a whitelist that you may read"
        ) from error
    try:
        record = json.loads(text, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"it is no JSON ({error})") from error
    if not isinstance(record, dict):
        raise _damaged(path, "it is no JSON object")
    return record


def _without_repeats(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object's fields; of two of one name JSON would silently keep the second."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a field stands in an object twice")
    return fields


def _damaged(path: Path, why: str) -> ConfigError:
    return ConfigError(
        "is damaged or no whitelist; nothing of it was taken",
        who=str(path),
        got=why,
        expected="a file as `prune-engine whitelist export` writes it",
    )


def _pretty(value: Any, depth: int) -> str:
    """JSON on lines that can be read: what fits stands on one, all else is broken up."""
    short = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (dict, list)) or not value or (depth > 2 and len(short) <= _WIDTH):
        return short
    indent = " " * (depth + 1)
    if isinstance(value, dict):
        items = [
            f"{json.dumps(name, ensure_ascii=False)}: {_pretty(one, depth + 1)}" for name, one in value.items()
        ]
        opening, closing = "{}"
    else:
        items = [_pretty(one, depth + 1) for one in value]
        opening, closing = "[]"
    lines = ",\n".join(indent + item for item in items)
    return f"{opening}\n{lines}\n{' ' * depth}{closing}"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
