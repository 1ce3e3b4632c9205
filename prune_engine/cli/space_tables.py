"""How design spaces are printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from prune_engine.cli.console import result_console


def print_spaces(record: Mapping[str, Any]) -> None:
    """A row per task; the one task in full where there is only one."""
    console = result_console()
    print_device(console, record)
    rows = record["tasks"]
    if len(rows) == 1 and not rows[0]["error"]:
        _print_task(console, rows[0])
    else:
        _print_tasks(console, rows)
    totals = record["totals"]
    if totals["n_sketches"]:
        share = f"{totals['interpreted_share']:.1%}"
        console.print(
            f"interpreted: {totals['n_interpreted']} of {totals['n_sketches']} sketches ({share}); "
            f"candidates: {totals['size']:,}, after the rules {totals['size_after']:,}",
            markup=False,
            soft_wrap=True,
        )


def print_device(console: Console, record: Mapping[str, Any]) -> None:
    """Target and profile, in two lines."""
    target = record["target"]
    name = target.get("arch") or target.get("mcpu") or ""
    cores = f", {target['num-cores']} cores" if "num-cores" in target else ""
    console.print(f"target: {target['kind']} {name}{cores}", markup=False, soft_wrap=True)
    console.print(f"profile: {record['profile']} ({record['profile_found']})", markup=False, soft_wrap=True)


def cut(before: int, after: int) -> str:
    """How much smaller a space became."""
    return "-" if not before or after == before else f"{1 - after / before:.2%}"


def _print_tasks(console: Console, rows: list[Mapping[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False)
    for header in ("no.", "task", "calls", "sketches", "interpreted", "candidates", "after rules", "cut"):
        table.add_column(header, justify="left" if header == "task" else "right")
    for row in rows:
        sketches = row["sketches"]
        table.add_row(
            str(row["number"]),
            Text(row["name"]),
            str(row["calls"]),
            str(len(sketches)),
            str(sum(sketch["is_interpreted"] for sketch in sketches)),
            f"{row['size']:,}",
            f"{row['size_after']:,}",
            cut(row["size"], row["size_after"]),
        )
    console.print(table)
    for row in rows:
        if row["error"]:
            console.print(f"{row['name']}: {row['error']}", markup=False, soft_wrap=True)
        for reason in sorted({s["opaque_reason"] for s in row["sketches"] if s["opaque_reason"]}):
            console.print(f"{row['name']}: not interpreted: {reason}", markup=False, soft_wrap=True)


def _print_task(console: Console, row: Mapping[str, Any]) -> None:
    console.print(f"task {row['number']}: {row['name']} ({row['task_id']})", markup=False, soft_wrap=True)
    for sketch in row["sketches"]:
        state = "interpreted" if sketch["is_interpreted"] else f"not interpreted: {sketch['opaque_reason']}"
        console.print(
            f"\nsketch {sketch['sketch']} ({sketch['sketch_id']}): {sketch['size']:,} candidates, {state}",
            markup=False,
            soft_wrap=True,
        )
        table = Table("variable", "kind", "rows", "after", "splits", "levels", box=None, pad_edge=False)
        for variable in sketch["variables"]:
            subject = variable["subject"]
            table.add_row(
                Text(variable["name"]),
                variable["kind"],
                f"{variable['rows']:,}",
                f"{variable['rows_after']:,}",
                Text(_subject(subject)) if subject else "",
                " ".join(subject["levels"]) if subject else "",
            )
        console.print(table)
    table = Table("\nrule", "\nkind", "\nbefore", "\nafter", "\ncut", "\ntime", box=None, pad_edge=False)
    for rule in row["rules"]:
        table.add_row(
            Text(rule["rule"]),
            rule["kind"] or "",
            f"{rule['size_before']:,}",
            f"{rule['size_after']:,}",
            cut(rule["size_before"], rule["size_after"]),
            f"{rule['seconds'] * 1e3:.2f} ms",
        )
    console.print(table)
    console.print()


def _subject(subject: Mapping[str, Any]) -> str:
    kind = "reduction" if subject["is_reduction"] else "contiguous" if subject["is_contiguous"] else "spatial"
    return f"{subject['statement']}.{subject['iterator']} ({kind})"
