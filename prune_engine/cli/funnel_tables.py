"""How funnels are printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from prune_engine.cli.console import result_console
from prune_engine.cli.space_tables import cut, print_device


def print_funnels(record: Mapping[str, Any]) -> None:
    """The device, then the funnel of each task."""
    console = result_console()
    print_device(console, record)
    for row in record["tasks"]:
        console.print(f"\ntask {row['number']}: {row['name']}", markup=False, soft_wrap=True)
        if row["error"]:
            console.print(row["error"], markup=False, soft_wrap=True)
        else:
            _print_funnel(console, row)


def _print_funnel(console: Console, row: Mapping[str, Any]) -> None:
    def line(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    line(
        f"space: {row['size']:,} candidates in {row['n_sketches']} sketches, {row['n_interpreted']} of them "
        f"interpreted; read in {row['space_secs']:.2f} s"
    )
    for reason in row["opaque_reasons"]:
        line(f"not interpreted: {reason}")
    _print_steps(console, row["space_rules"], "task-space rule", "before", "after")
    n, n_opaque, n_left = row["n_judged"], row["n_opaque"], row["size_after_space_rules"]
    how = "all of" if row["is_complete"] else "a random sample of"
    line(f"judged: {n:,} candidates, {how} the {n_left:,} left" + (" that are interpreted" if n_opaque else ""))
    _print_steps(console, row["rules"], "trial-space rule", "reached", "left")
    if n_opaque:
        line(f"not judged: {n_opaque / (n + n_opaque):.2%} are of sketches that are not interpreted")
    line(f"legal: {_share(row['legal_share'], row['is_complete'])}")
    line(f"kept by all rules: {_share(row['kept_share'], row['is_complete'])}")
    if row["judged_per_sec"]:
        line(f"time: {row['judge_secs']:.2f} s, {row['judged_per_sec']:,.0f} candidates/s")


def _print_steps(console: Console, steps: list[Mapping[str, Any]], title: str, before: str, after: str) -> None:
    table = Table(box=None, pad_edge=False)
    for header in (title, "kind", before, "cut", "", after, "time"):
        table.add_column(header, justify="left" if header in (title, "kind") else "right")
    for step in steps:
        table.add_row(
            Text(step["rule"]),
            step["kind"] or "",
            f"{step['n_in']:,}",
            f"{step['n_cut']:,}",
            cut(step["n_in"], step["n_out"]),
            f"{step['n_out']:,}",
            f"{step['seconds'] * 1e3:,.2f} ms",
        )
    if steps:
        console.print(table)


def _share(share: Mapping[str, float] | None, is_exact: bool) -> str:
    if share is None:
        return "nothing could be judged"
    if is_exact:
        return f"{share['value']:.3%} (exact)"
    return f"{share['value']:.3%} ({share['low']:.3%} to {share['high']:.3%} with 95 % confidence)"
