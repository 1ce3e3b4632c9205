"""`prune-engine verify FOLDER`: are the kept kernels still legal, correct and as fast as they were?"""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prune_engine.display.streams import say, writing_to_stdout

if TYPE_CHECKING:
    from prune_engine.provenance.verification import Verification

#: What CI sees when a kept kernel does not hold any more.
REGRESSION = 1
#: Differences of policies that people are shown; --json has all.
_N_CHANGES = 20


def verify(
    artifact: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="Folder of a result, which `prune-engine tune` wrote.", show_default=False
        ),
    ],
    profile: Annotated[
        str, typer.Option(help="Hardware profile to hold it against: auto, a name, or a YAML file.")
    ] = "auto",
    measure: Annotated[
        bool, typer.Option("--measure/--no-measure", help="Build, run and time; else rules and compiler only.")
    ] = True,
    max_slowdown: Annotated[
        float, typer.Option(min=1.0, help="Factor by which a kernel may be slower than recorded.")
    ] = 1.1,
    strict: Annotated[bool, typer.Option(help="Warnings are regressions too.")] = False,
    block: Annotated[list[str] | None, typer.Option(help="Plugin not to load; may be repeated.")] = None,
    plugin: Annotated[list[Path] | None, typer.Option(help="Plugin file to load too; may be repeated.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the result only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Check the kernels of a tuned model again, after a change of driver, compiler, profile or rules.

    Each winner must still be legal, compute what the untuned kernel computes, and
    be as fast as recorded, by its time or by its gain over the untuned kernel.
    Ends with 1 if one is not.
    """
    from prune_engine.cli.options import check_blocked
    from prune_engine.config import EngineConfig
    from prune_engine.metaschedule.verifying import VerifyRequest, verify_artifact

    check_blocked(block or (), plugin or ())
    given = {"blocked_plugins": tuple(block or ()), "plugin_files": tuple(plugin or ())}
    config = EngineConfig.of(**{name: value for name, value in given.items() if value})
    request = VerifyRequest(artifact, profile, measure, max_slowdown, config)
    with redirect_stdout(sys.stderr):  # stdout is for the result alone, whatever plugins print
        result = verify_artifact(request, say=(lambda _: None) if quiet else say)
    is_regression = result.is_regression(strict=strict)
    with writing_to_stdout("Redirect it to a place with room."):
        if as_json:
            typer.echo(json.dumps({**result.as_json(), "is_regression": is_regression}, indent=2))
        else:
            _print(result, is_regression)
    if is_regression:
        raise typer.Exit(REGRESSION)


def _print(result: Verification, is_regression: bool) -> None:
    from prune_engine.display.tables import counted
    from prune_engine.provenance.policy import change_lines

    for old, new, what in (
        (*result.devices, "device"),
        (*result.profiles, "profile"),
        (*(one and one[:12] for one in result.policies), "policy"),
    ):
        typer.echo(f"{what}: {old or 'not recorded'} -> {new}" if old != new else f"{what}: {new}, as recorded")
    for name, (before, now) in result.versions.items():
        typer.echo(f"version of {name}: {before} -> {now or 'not installed'}")
    lines = change_lines(result.changes)
    for line in lines[:_N_CHANGES]:
        typer.echo(f"  policy: {line}")
    if len(lines) > _N_CHANGES:
        typer.echo(f"  and {len(lines) - _N_CHANGES} more; `prune-engine policy diff {result.artifact}` lists all")
    for remark in result.remarks:
        typer.echo(f"note: {remark}")
    for check in result.checks:
        typer.echo(f"{check.status.value:8} {check.name}: {check.message}")
    for kernel in result.kernels:
        typer.echo(f"{kernel.status.value:8} {kernel.name}")
        for check in kernel.checks:
            typer.echo(f"    {check.status.value:8} {check.name}: {check.message}")
    if not result.kernels:
        typer.echo("no kernel was tuned: the untuned model shipped")
    counts = [kernel.status.value for kernel in result.kernels]
    told = ", ".join(f"{counts.count(status)} {status}" for status in dict.fromkeys(counts))
    ended = f"{': ' + told if told else ''}; {'regression' if is_regression else 'no regression'}"
    typer.echo(counted(len(counts), "kernel") + ended)
