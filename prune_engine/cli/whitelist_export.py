"""What an export of the whitelist must not lose: entries that cannot be read, and what the file holds already."""

from __future__ import annotations

from pathlib import Path

from prune_engine.bounded_files import json_of, read_bounded
from prune_engine.errors import ConfigError, OutputError, StoreError
from prune_engine.whitelist.entries import Whitelist
from prune_engine.whitelist.files import MARK, read_whitelist

#: Entries that an error names.
_N_NAMED = 4


def check_all_readable(listed: Whitelist, store_url: str) -> None:
    """Raise StoreError where entries of a whitelist cannot be read: a file would lack them."""
    if not listed.broken:
        return
    n_broken, (name, why) = len(listed.broken), next(iter(listed.broken.items()))
    raise StoreError(
        "not all of the whitelist can be read, so nothing was exported",
        who=store_url,
        got=f"{n_broken} unreadable of {n_broken + len(listed.entries)}, such as {name} ({why})",
        remedy="`prune-engine whitelist remove` ends such an entry; --skip-unreadable exports the others.",
    )


def check_nothing_lost(file: Path, listed: Whitelist, *, overwrite: bool) -> None:
    """Raise OutputError for a file that is no whitelist.

    Without ``overwrite`` also for one that cannot be read, or has entries which this whitelist never had.
    """
    if not file.is_file() or not file.stat().st_size:
        return
    try:
        record = json_of(read_bounded(file).decode("utf-8"))
        is_ours = isinstance(record, dict) and MARK in record
    except (ValueError, OSError):
        is_ours = False
    if not is_ours:
        raise OutputError(
            "holds something else, which is not overwritten",
            who=str(file),
            got="no whitelist",
            expected="a new file, or an earlier export",
            remedy="Name another place, or move that file away.",
        )
    if overwrite:
        return
    remedy = "Import it first, or name another place; --overwrite replaces it all the same."
    try:
        known = read_whitelist(file).entries
    except ConfigError as error:
        raise OutputError(
            f"holds a whitelist that cannot be read ({error.problem})", who=str(file), remedy=remedy
        ) from error
    lost = [e.entry_id for e in known if e.entry_id not in {*listed.entries, *listed.removed, *listed.broken}]
    if lost:
        more = f" and {len(lost) - _N_NAMED} more" if len(lost) > _N_NAMED else ""
        raise OutputError(
            "holds entries that this whitelist does not have, which are not overwritten",
            who=str(file),
            got=", ".join(lost[:_N_NAMED]) + more,
            remedy=remedy,
        )
