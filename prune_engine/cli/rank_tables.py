"""How rankings of recorded spaces are printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from prune_engine.cli.console import result_console
from prune_engine.display.tables import Columns, counted, print_line, print_named

_NONE = "-"
_RECORDED = ("candidates", "failed", "best ms", "median/best", "seconds")


def print_rankings(record: Mapping[str, Any]) -> None:
    """A row per workload."""
    console = result_console()
    rows = [row for row in record["workloads"] if not row["error"]]
    if rows:
        print_line(console, _heading(record, rows))
        _print_rows(console, rows)
    for row in record["workloads"]:
        if row["error"]:
            print_line(console, row["error"])


def _heading(record: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """What was ranked by what."""
    names = sorted(
        {row["ranked_by"] or "nothing: no score tells the candidates apart, the order is random" for row in rows}
    )
    profiles = sorted({row["profile"] for row in rows})
    text = f"ranked by {' or '.join(names)}; profile {', '.join(profiles)}"
    if record["source"]:
        text += f"; the verifier knew {record['source']}"
    if record["n_samples"]:
        how = "as the engine chooses them" if record["sampling"] == "loop" else "drawn at random"
        fewest, most = (pick(row["n_measured"] for row in rows) for pick in (min, max))
        n = counted(most, "candidate") if fewest == most else f"{fewest:,} to {most:,} candidates"
        text += f"; {n} measured before, {how}"
    return text


def _print_rows(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    picks = list(rows[0]["found"])
    names = [row["name"] + (f" on {row['device']}" if row["device"] else "") for row in rows]
    recorded, found = [_recorded(row) for row in rows], [_found(row, picks) for row in rows]
    if len(rows) > 1:
        names.append("geometric mean")
        recorded.append([""] * len(_RECORDED))
        found.append([*(_mean(rows, k) for k in picks), ""])
    tops = [f"top {k}" for k in picks]
    print_named(
        console,
        "workload",
        names,
        Columns(_RECORDED, recorded),
        Columns([*tops, "correlation"], found),
    )


def _recorded(row: Mapping[str, Any]) -> list[str]:
    """What the recording holds, and how long ordering it took."""
    return [
        f"{row['n_candidates']:,}",
        f"{row['n_failed']:,}",
        f"{row['best_secs'] * 1e3:.4g}",
        f"{row['median_secs'] / row['best_secs']:.1f}",
        f"{row['learn_secs'] + row['score_secs']:.2f}",
    ]


def _found(row: Mapping[str, Any], picks: Sequence[str]) -> list[str]:
    """What the order is worth."""
    correlation = row["correlation"]
    return [
        *(f"{row['found'][k]:.2f}" for k in picks),
        _NONE if correlation is None else f"{correlation:.2f}",
    ]


def _mean(rows: Sequence[Mapping[str, Any]], k: str) -> str:
    from math import exp, fsum, log

    values = [row["found"][k] for row in rows]
    return "0.00" if min(values) <= 0 else f"{exp(fsum(map(log, values)) / len(values)):.2f}"
