"""`prune-engine plugins check`: whether a plugin keeps its contracts, in a table of strategies and checks."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prune_engine.display.streams import say, writing_to_stdout

if TYPE_CHECKING:
    from prune_engine.cli.plugin_check_run import CheckReport, CheckRow

_DEFAULT_LIMIT_SECS = 60.0


def check(
    what: Annotated[
        str,
        typer.Argument(
            metavar="PLUGIN",
            help="A plugin file, a project's folder, or an installed plugin's name.",
            show_default=False,
        ),
    ],
    limit: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="Time that a single check may take.")
    ] = _DEFAULT_LIMIT_SECS,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Check a plugin: that it loads, its hooks on bad input, and the contract of each of its strategies.

    It is loaded in a process of its own. Rules, drafts and explorers are judged on spaces of a
    CPU and a GPU, and where nothing is known. The exit code is 1 if a check fails.
    """
    from prune_engine.cli.plugin_check_run import run_checks
    from prune_engine.cli.plugin_check_targets import check_targets
    from prune_engine.errors import ConfigError

    if importlib.util.find_spec("pytest") is None:
        raise ConfigError("pytest is not installed", who="plugins check", remedy="pip install pytest.")
    reports = [run_checks(target, limit, say) for target in check_targets(what)]
    with writing_to_stdout("Redirect it to a place with room."):
        if as_json:
            typer.echo(json.dumps(_record(what, reports), indent=2))
        else:
            for report in reports:
                _print(report)
    if any(report.failed for report in reports):
        raise typer.Exit(1)


def _record(what: str, reports: list[CheckReport]) -> dict[str, Any]:
    rows = [row for report in reports for row in report.rows]
    return {
        "checked": what,
        "n_passed": sum(row.status == "passed" for row in rows),
        "n_failed": sum(row.status == "failed" for row in rows),
        "n_warnings": sum(row.status == "warning" for row in rows),
        "plugins": [
            {
                "name": report.name,
                "hooks": list(report.hooks),
                "strategies": list(report.strategies),
                "checks": [asdict(row) for row in report.rows],
            }
            for report in reports
        ],
    }


def _print(report: CheckReport) -> None:
    from prune_engine.cli.console import result_console
    from prune_engine.display.tables import add_row, counted, make_table, print_line, print_table

    console = result_console()
    table = make_table("checked", "kind", "check", "cases", "result", right=["cases"])
    for row in report.rows:
        add_row(table, row.subject, row.kind, row.check.replace("_", " "), str(row.n_cases), row.status)
    print_table(console, table)
    for row in report.rows:
        if row.status in ("failed", "warning"):
            print_line(console, "")
            for line in _explanation(row):
                print_line(console, line)
    n_failed, n_warned = len(report.failed), sum(row.status == "warning" for row in report.rows)
    n_passed = sum(row.status == "passed" for row in report.rows)
    print_line(console, "")
    warned = f", {counted(n_warned, 'warning')}" if n_warned else ""
    print_line(console, f"plugin {report.name}: {counted(n_passed, 'check')} passed, {n_failed} failed{warned}")


def _explanation(row: CheckRow) -> list[str]:
    some = [case for case in row.failed_cases if case]
    cases = f" ({len(row.failed_cases)} of {row.n_cases} cases: {', '.join(some)})" if some else ""
    lines = [f"{row.status}: {row.who}: {row.check.replace('_', ' ')}{cases}"]
    for name, text in (("got", row.got), ("expected", row.expected), ("to do", row.remedy)):
        if text:
            lines.append(f"  {name + ':':10}{text}")
    return lines
