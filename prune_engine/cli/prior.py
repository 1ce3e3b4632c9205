"""`prune-engine prior`: what the verifier learns from recordings of another device, as a file for `--prior`."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prune_engine.cli import study_options as options
from prune_engine.display.streams import say, writing_to_stdout

if TYPE_CHECKING:
    from prune_engine.cli.prior_sources import Kind, Sources
    from prune_engine.recorded.priors import LearntPrior

_DEVICE, _PROGRAMS, _STRATEGY, _OUTPUT = "Device", "Stores", "Strategies", "Result"
#: As many as prune_engine.recorded.priors.N_ROWS, which takes numpy to import.
_ROWS = 4096


def prior(
    context: typer.Context,
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE...",
            help="Folder of a MetaSchedule database or of a result, table of kernels (.tsv, .tsv.gz), or a store: "
            "file or URL.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path, typer.Option(rich_help_panel=_OUTPUT, help="File to write, for `tune --prior`.", show_default=False)
    ],
    profile: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_DEVICE,
            help="Profile of the device that the kernels ran on: a name, a YAML file, or auto for this machine.",
            show_default="that of a store's runs, of a table's --device; databases need it",
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=_DEVICE,
            min=1,
            help="Threads that they ran on.",
            show_default="the cores that their targets state",
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(rich_help_panel=_DEVICE, help="Which device of a table, or of a store that has several."),
    ] = None,
    rows: Annotated[
        int,
        typer.Option(min=16, help="Candidates to learn of each workload, drawn at random if there are more."),
    ] = _ROWS,
    seed: options.Seed = 0,
    workload: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel=_PROGRAMS,
            help="Model or workload that a store's runs tuned, since a store keeps no programs; may be repeated.",
            show_default="what they say they tuned",
        ),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(rich_help_panel=_PROGRAMS, help="Shape of its input, x=1x3x224x224; may be repeated."),
    ] = None,
    dim: Annotated[
        list[str] | None,
        typer.Option(rich_help_panel=_PROGRAMS, help="Size of its symbolic dimension, batch=1; may be repeated."),
    ] = None,
    verifier: Annotated[
        str | None, typer.Option(rich_help_panel=_STRATEGY, help="Verifier to teach.", show_default=False)
    ] = None,
    block: options.Block = None,
    plugin: options.Plugin = None,
    as_json: options.AsJson = False,
) -> None:
    """Learn a prior from what was measured, on another device or of other kernels, and write it.

    With it, `tune --prior FILE` on a device of the same kind ranks before its first
    measurement; whatever it uses it measures. Nothing is measured here.
    """
    from prune_engine.cli.options import check_blocked, parse_dim, parse_shape
    from prune_engine.cli.prior_sources import Asked, kind_of, read_sources
    from prune_engine.config import EngineConfig
    from prune_engine.metaschedule.stored_spaces import Programs
    from prune_engine.recorded.priors import check_prior_place, learn_prior

    found = [(source, kind_of(source)) for source in sources]
    _refuse(context, {kind for _, kind in found})
    programs = Programs(tuple(workload or ()), dict(map(parse_shape, shape or ())), dict(map(parse_dim, dim or ())))
    chosen = {"verifier": None if verifier == "none" else verifier} if verifier else {}
    config = EngineConfig.of(
        seed=seed, blocked_plugins=tuple(block or ()), plugin_files=tuple(plugin or ()), **chosen
    )
    check_blocked(config.blocked_plugins, config.plugin_files)
    with redirect_stdout(sys.stderr):  # stdout is for the result alone, whatever plugins print
        check_prior_place(out, config)
        read = read_sources(found, Asked(profile, threads, device, programs))
        for remark in read.remarks:
            say(f"warning: {remark}")
        learnt = learn_prior(read.spaces, config, read.profile, out, n_rows=rows)
    for failed in learnt.failed_plugins:
        say(f"warning: plugin {failed.name} {failed.summary}")
    record = _record(read, learnt, out, rows, seed)
    with writing_to_stdout("Redirect it to a place with room."):
        if as_json:
            typer.echo(json.dumps(record, indent=2))
        else:
            _print(record)


def _refuse(context: typer.Context, kinds: set[Kind]) -> None:
    """Refuse options about what no source is."""
    from prune_engine.cli.options import refuse_without_effect
    from prune_engine.cli.prior_sources import Kind

    if Kind.STORE not in kinds:
        refuse_without_effect(context, ("workload", "shape", "dim"), "without a store among the sources")
    if kinds == {Kind.TABLE}:
        refuse_without_effect(context, ("threads",), "on tables of kernels, which ran on whole devices")
    if kinds == {Kind.DATABASE}:
        refuse_without_effect(context, ("device",), "on databases, of which --profile says the device")


def _record(read: Sources, learnt: LearntPrior, out: Path, n_asked: int, seed: int) -> dict[str, Any]:
    return {
        "file": str(out),
        "n_bytes": out.stat().st_size,
        "verifier": learnt.verifier,
        "profile": read.profile.name,
        "n_threads": read.n_threads,
        "seed": seed,
        "max_rows": n_asked,
        "n_workloads": len(learnt.learnt),
        "n_rows": learnt.n_rows,
        "workloads": [
            {
                "name": kernel.name,
                "source": source,
                "n_candidates": kernel.n_candidates,
                "n_failed": kernel.n_failed,
                "n_unmatched": kernel.n_unmatched,
                "n_rows": kernel.n_rows,
                "left_out": kernel.left_out,
            }
            for source, kernel in zip(read.of, learnt.kernels, strict=True)
        ],
        "remarks": list(read.remarks),
        "failed_plugins": {plugin.name: plugin.summary for plugin in learnt.failed_plugins},
    }


def _print(record: dict[str, Any]) -> None:
    from prune_engine.cli.console import result_console
    from prune_engine.display.tables import Columns, counted, print_line, print_named

    console = result_console()
    learnt = [row for row in record["workloads"] if row["left_out"] is None]
    threads = f" with {counted(record['n_threads'], 'thread')}" if record["n_threads"] else ""
    print_line(
        console,
        f"{record['verifier']} learnt {counted(record['n_rows'], 'candidate')} of "
        f"{counted(record['n_workloads'], 'workload')} as measured on {record['profile']}{threads}",
    )
    cells = [[f"{row[field]:,}" for field in ("n_candidates", "n_failed", "n_rows")] for row in learnt]
    print_named(
        console, "workload", [row["name"] for row in learnt], Columns(("recorded", "failed", "learnt"), cells)
    )
    for row in record["workloads"]:
        if row["left_out"] is not None:
            print_line(console, f"left out: {row['name']}: {row['left_out']}")
    size = f"{record['n_bytes'] / 1024:,.0f} KiB"
    print_line(
        console,
        f"written to {record['file']} ({size}); try: prune-engine tune model.onnx --prior {record['file']}",
    )
