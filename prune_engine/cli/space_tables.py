"""How design spaces are printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from prune_engine.cli.console import result_console
from prune_engine.display.tables import add_row, counted, fitting, make_table, percent, print_line, print_table


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
        print_line(
            console,
            f"interpreted: {totals['n_interpreted']} of {counted(totals['n_sketches'], 'sketch')} "
            f"({percent(totals['interpreted_share'])}); "
            f"candidates: {totals['size']:,}, after the rules {totals['size_after']:,}",
        )


def print_device(console: Console, record: Mapping[str, Any]) -> None:
    """Target and profile, in two lines."""
    target = record["target"]
    name = target.get("arch") or target.get("mcpu") or ""
    cores = f", {counted(int(target['num-cores']), 'core')}" if "num-cores" in target else ""
    print_line(console, f"target: {target['kind']} {name}".rstrip() + cores)
    print_line(console, f"profile: {record['profile']} ({record['profile_found']})")


def _cut(before: int, after: int) -> str:
    """How much smaller a space became."""
    return "-" if not before or after == before else percent(1 - after / before)


def _print_tasks(console: Console, rows: list[Mapping[str, Any]]) -> None:
    headers = ("no.", "task", "calls", "sketches", "read", "candidates", "after rules", "cut")
    cells = [
        [
            str(row["number"]),
            row["name"],
            str(row["calls"]),
            str(len(row["sketches"])),
            str(sum(sketch["is_interpreted"] for sketch in row["sketches"])),
            f"{row['size']:,}",
            f"{row['size_after']:,}",
            _cut(row["size"], row["size_after"]),
        ]
        for row in rows
    ]
    others = [[header, *(row[i] for row in cells)] for i, header in enumerate(headers) if i != 1]
    names = fitting([row[1] for row in cells], console, others)
    table = make_table(*headers, right=set(headers) - {"task"})
    for (number, _, *rest), name in zip(cells, names, strict=True):
        add_row(table, number, name, *rest)
    print_table(console, table)
    for row in rows:
        if row["error"]:
            print_line(console, f"{row['number']} {row['name']}: {row['error']}")
        for reason in sorted({s["opaque_reason"] for s in row["sketches"] if s["opaque_reason"]}):
            print_line(console, f"{row['number']} {row['name']}: not interpreted: {reason}")


def _print_task(console: Console, row: Mapping[str, Any]) -> None:
    from prune_engine.cli.funnel_tables import print_rules

    print_line(console, f"task {row['number']}: {row['name']} ({row['task_id']})")
    for alike in _alike(row["sketches"]):
        print_line(console, "")
        for sketch in alike:
            state = "interpreted" if sketch["is_interpreted"] else f"not interpreted: {sketch['opaque_reason']}"
            print_line(
                console,
                f"sketch {sketch['sketch']} ({sketch['sketch_id']}): "
                f"{counted(sketch['size'], 'candidate')}, {state}",
            )
            if sketch["structure"]:
                print_line(console, f"  {'; '.join(sketch['structure'])}")
        if len(alike) > 1:
            numbers = ", ".join(str(sketch["sketch"]) for sketch in alike)
            print_line(console, f"sketches {numbers}: the same variables")
        if alike[0]["variables"]:
            _print_variables(console, alike[0]["variables"])
    print_line(console, "")
    if row["rules"]:
        steps = [{**rule, "n_in": rule["size_before"], "n_out": rule["size_after"]} for rule in row["rules"]]
        print_rules(console, [{**step, "n_cut": step["n_in"] - step["n_out"]} for step in steps], "task-space rule")
        print_line(console, "")


def _alike(sketches: list[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Sketches grouped by their tables of variables, in the order of the first of each group."""
    groups: list[list[Mapping[str, Any]]] = []
    for sketch in sketches:
        group = next((g for g in groups if g[0]["variables"] == sketch["variables"]), None)
        if group is None:
            groups.append([sketch])
        else:
            group.append(sketch)
    return groups


def _print_variables(console: Console, variables: list[Mapping[str, Any]]) -> None:
    table = make_table("variable", "kind", "rows", "after", "splits", "levels", right=("rows", "after"))
    for variable in variables:
        subject = variable["subject"]
        add_row(
            table,
            variable["name"],
            variable["kind"],
            f"{variable['rows']:,}",
            f"{variable['rows_after']:,}",
            _subject(subject) if subject else "",
            " ".join(subject["levels"]) if subject else "",
        )
    print_table(console, table)


def _subject(subject: Mapping[str, Any]) -> str:
    kind = "reduction" if subject["is_reduction"] else "contiguous" if subject["is_contiguous"] else "spatial"
    return f"{subject['statement']}.{subject['iterator']} ({kind})"
