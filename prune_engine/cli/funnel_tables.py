"""How funnels are printed."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from rich.console import Console

from prune_engine.cli.console import result_console
from prune_engine.cli.space_tables import print_device
from prune_engine.display.tables import (
    add_row,
    counted,
    fitting,
    hundredths,
    make_table,
    percent,
    print_line,
    print_table,
)


def print_funnels(record: Mapping[str, Any]) -> None:
    """The device, then the funnel of each task, and a row for each where there are several."""
    console = result_console()
    print_device(console, record)
    for row in record["tasks"]:
        print_line(console, f"\ntask {row['number']}: {row['name']}")
        if row["error"]:
            print_line(console, row["error"])
        else:
            _print_funnel(console, row)
    if len(record["tasks"]) > 1:
        _print_totals(console, record["tasks"])


def print_rules(console: Console, steps: list[Mapping[str, Any]], title: str) -> None:
    """What each rule cut of what reached it; those that cut nothing in one line, those that failed below."""
    shown = [step for step in steps if step["n_cut"] or step["failed"]]
    table = make_table(title, "cut", "%", "left", "time", right=("cut", "%", "left", "time"))
    for kind, group in groupby(shown, key=lambda step: step["kind"]):
        add_row(table, f"{kind}:" if kind else "of unknown kind:", "", "", "", "")
        for step in group:
            add_row(
                table,
                f"  {step['rule']}{' (failed)' if step['failed'] else ''}",
                f"{step['n_cut']:,}",
                hundredths(step["n_cut"] / step["n_in"]) if step["n_cut"] else "",
                f"{step['n_out']:,}",
                f"{step['seconds'] * 1e3:,.2f} ms",
            )
    if shown:
        print_table(console, table)
    if n_idle := len(steps) - len(shown):
        print_line(
            console, f"{n_idle} {'more ' if shown else ''}{title if n_idle == 1 else title + 's'} cut nothing"
        )
    for step in shown:
        if step.get("reason"):
            print_line(console, f"why {step['rule']}: {step['reason']}")
    for step in steps:
        if step["failed"]:
            print_line(console, f"warning: {step['rule']} failed and was left out: {step['failed']}")


def _print_funnel(console: Console, row: Mapping[str, Any]) -> None:
    print_line(
        console,
        f"space: {counted(row['size'], 'candidate')} in {counted(row['n_sketches'], 'sketch')}, "
        f"{row['n_interpreted']} of them interpreted; read in {row['space_secs']:.2f} s",
    )
    for reason in row["opaque_reasons"]:
        print_line(console, f"not interpreted: {reason}")
    print_rules(console, row["space_rules"], "task-space rule")
    n, n_opaque, n_left = row["n_judged"], row["n_opaque"], row["size_after_space_rules"]
    how = "all of" if row["is_complete"] else "a random sample of"
    of_which = " that are interpreted" if n_opaque else ""
    print_line(console, f"judged: {counted(n, 'candidate')}, {how} the {n_left:,} left{of_which}")
    print_rules(console, row["rules"], "trial-space rule")
    if n_opaque:
        print_line(
            console, f"not judged: {percent(n_opaque / (n + n_opaque))} are of sketches that are not interpreted"
        )
    print_line(console, f"legal: {_legal(row)}")
    print_line(console, f"kept by all rules: {_kept(row)}")
    if row["judged_per_sec"]:
        print_line(console, f"time: {row['judge_secs']:.2f} s, {row['judged_per_sec']:,.0f} candidates/s")


def _legal(row: Mapping[str, Any]) -> str:
    if row["n_judged"] and row["n_legal"] is None:
        failed = [name for name, step in _by_rule(row).items() if step["failed"] and step["kind"] == "legality"]
        why = f"{', '.join(failed)} failed" if failed else "no LEGALITY rule is loaded"
        return f"not judged ({why})"
    return _share(row["legal_share"], row["n_legal"], row)


def _kept(row: Mapping[str, Any]) -> str:
    text = _share(row["kept_share"], row["n_kept"], row)
    of_all = row["kept_share_of_space"]
    return text if of_all is None else f"{text}; {_about(row)}{percent(of_all)} of the whole space"


def _share(share: Mapping[str, float] | None, n: int, row: Mapping[str, Any]) -> str:
    if share is None:
        return "nothing could be judged"
    interval = (
        "" if row["is_complete"] else f", {percent(share['low'])} to {percent(share['high'])} with 95 % confidence"
    )
    return f"{n:,} of {row['n_judged']:,} judged ({percent(share['value'])}{interval})"


def _about(row: Mapping[str, Any]) -> str:
    return "" if row["is_complete"] else "about "


def _by_rule(row: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {step["rule"]: step for step in (*row["space_rules"], *row["rules"])}


def _print_totals(console: Console, rows: list[Mapping[str, Any]]) -> None:
    """A row per task. Shares are of what was judged, the last of the whole space."""
    print_line(console, "")
    good = [row for row in rows if not row["error"]]
    cells = [
        [
            str(row["number"]),
            row["name"],
            f"{row['size']:,}",
            "not judged" if row["legal_share"] is None else _about(row) + percent(row["legal_share"]["value"]),
            "not judged" if row["kept_share"] is None else _about(row) + percent(row["kept_share"]["value"]),
            "-" if row["kept_share_of_space"] is None else _about(row) + percent(row["kept_share_of_space"]),
        ]
        for row in good
    ]
    headers = ("no.", "task", "candidates", "legal", "kept", "kept of all")
    others = [[header, *(row[i] for row in cells)] for i, header in enumerate(headers) if i != 1]
    names = fitting([row[1] for row in cells], console, others)
    table = make_table(*headers, right=set(headers) - {"task"})
    for (number, _, *rest), name in zip(cells, names, strict=True):
        add_row(table, number, name, *rest)
    print_table(console, table)
    total = sum(row["size"] for row in good)
    print_line(console, f"all: {counted(total, 'candidate')} in {counted(len(good), 'task')}")
