"""What `prune-engine whitelist` prints."""

from __future__ import annotations

import json
import time
from typing import Any

from prune_engine.display.tables import add_row, counted, fitting, make_table, print_line, print_table
from prune_engine.hardware.host import cpu_model
from prune_engine.loop.harvest import compiler_version
from prune_engine.whitelist.entries import Check, Removal, Whitelist, WhitelistEntry
from prune_engine.whitelist.events import entry_text

#: Digits of an entry's id in tables.
_ID_WIDTH = 10


def counts_here(entry: WhitelistEntry) -> bool:
    """Whether an entry passed its last check on this processor under this compiler."""
    check = _last_here(entry)
    return check is not None and check.is_passed


def evidence_line(check: Check) -> str:
    """What a check found, in one line."""
    if not check.is_passed:
        return "failed: " + "; ".join(check.problems)
    n_cases = counted(len(check.numeric), "kind")
    return f"legal; numbers right on {n_cases} of inputs; {_times(check)}"


def entry_record(entry: WhitelistEntry) -> dict[str, Any]:
    """An entry as JSON values, its evidence included; without the kernel's module."""
    fields: dict[str, Any] = json.loads(entry_text(entry))
    del fields["workload"]
    checks = [check_record(check) for check in entry.checks]
    return {**fields, "entry_id": entry.entry_id, "counts_here": counts_here(entry), "checks": checks}


def check_record(check: Check) -> dict[str, Any]:
    """A check as JSON values."""
    return {
        "is_passed": check.is_passed,
        "speedup": check.speedup,
        "problems": list(check.problems),
        "device_name": check.device_name,
        "n_threads": check.n_threads,
        "tvm_version": check.tvm_version,
        "prune_engine_version": check.prune_engine_version,
        "symbols_version": check.symbols_version,
        "checked_at": check.checked_at,
        "run_secs": list(check.run_secs),
        "default_secs": list(check.default_secs),
        "numeric": [
            {
                "name": case.name,
                "is_ok": case.is_ok,
                "max_error": case.max_error,
                "bound": case.bound,
                "problem": case.problem,
            }
            for case in check.numeric
        ],
    }


def removal_record(removal: Removal) -> dict[str, Any]:
    """A removal as JSON values."""
    return {
        "entry_id": removal.entry.entry_id,
        "task_name": removal.entry.task_name,
        "removed_at": removal.at,
        "removed_by": removal.by,
        "reason": removal.reason,
        "revision": removal.revision,
    }


def print_entries(listed: Whitelist, place: str) -> None:
    """A table of what is listed, each with its last check here, or the last of all."""
    from prune_engine.cli.console import result_console

    console = result_console()
    entries = sorted(listed.entries.values(), key=lambda entry: (entry.task_name, entry.entry_id))
    if entries:
        rows = [_cells(entry) for entry in entries]
        table = make_table("kernel", "entry", "speedup", "ms", "here", "added", "note", right=("speedup", "ms"))
        columns = [list(column) for column in zip(*rows, strict=True)]
        names = fitting([entry.task_name for entry in entries], console, columns)
        for name, row in zip(names, rows, strict=True):
            add_row(table, name, *row)
        print_table(console, table)
    print_line(console, f"{counted(len(entries), 'schedule')}, revision {listed.revision}, in {place}")


def print_removed(listed: Whitelist, place: str) -> None:
    """A table of what was removed, with the reasons."""
    from prune_engine.cli.console import result_console

    console = result_console()
    if listed.removed:
        table = make_table("revision", "kernel", "entry", "removed", "reason", right=("revision",))
        for one in sorted(listed.removed.values(), key=lambda one: one.revision):
            when = f"{_date(one.at)} {one.by}"
            entry_id = one.entry.entry_id[:_ID_WIDTH]
            add_row(table, str(one.revision), one.entry.task_name, entry_id, when, one.reason)
        print_table(console, table)
    print_line(console, f"{counted(len(listed.removed), 'schedule')} removed from {place}")


def _cells(entry: WhitelistEntry) -> list[str]:
    check = _last_here(entry)
    standing = "not checked" if check is None else "counts" if check.is_passed else "failed"
    shown = check or entry.checks[-1]
    secs, speedup = _median_ms(shown), shown.speedup
    return [
        entry.entry_id[:_ID_WIDTH],
        "-" if speedup is None else f"{speedup:.3g}x",
        secs,
        standing,
        f"{_date(entry.added_at)} {entry.added_by}",
        entry.note,
    ]


def _times(check: Check) -> str:
    if check.speedup is None:
        return "not timed"
    return f"{_median_ms(check)} ms, {check.speedup:.3g} times as fast as the untuned kernel"


def _median_ms(check: Check) -> str:
    return f"{sorted(check.run_secs)[len(check.run_secs) // 2] * 1e3:.4g}" if check.run_secs else "-"


def _last_here(entry: WhitelistEntry) -> Check | None:
    return entry.last_check(cpu_model(), compiler_version())


def _date(secs: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(secs))
