"""`prune-engine transfer MODEL.onnx`: a faster model from schedules of others, with few measurements or none."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from prune_engine.cli.report_option import Report, report_file
from prune_engine.cli.sessions import report_outcome, stop_on_signals
from prune_engine.display.observers import progress_observer

_SOURCE, _BUDGET, _TARGET, _STRATEGY, _OUTPUT = "Source", "Budget", "Device", "Strategies", "Result"


def transfer(
    model: Annotated[
        Path,
        typer.Argument(
            help="The ONNX file, a workload such as gemm:512x512x512, or a file of kernels: .py, .json.",
            show_default=False,
        ),
    ],
    source: Annotated[
        str,
        typer.Option(
            "--from",
            rich_help_panel=_SOURCE,
            metavar="SOURCE",
            help="library (all of it), best (of its models for this one), the name of a model that was tuned, a "
            "library file, or the folder of a MetaSchedule database.",
        ),
    ] = "library",
    choose_by: Annotated[
        str,
        typer.Option(
            rich_help_panel=_SOURCE, help="How --from best ranks models: covered, squared, linear or count."
        ),
    ] = "covered",
    builtin_library: Annotated[
        bool,
        typer.Option(
            "--builtin-library/--no-builtin-library",
            rich_help_panel=_SOURCE,
            help="Also look at what is shipped.",
        ),
    ] = True,
    measurements: Annotated[
        int,
        typer.Option(
            min=0,
            rich_help_panel=_BUDGET,
            help="Measurements per kernel, earlier runs on the store included; with 0 the best ranked is used.",
        ),
    ] = 16,
    search: Annotated[
        bool,
        typer.Option(
            "--search/--no-search",
            rich_help_panel=_BUDGET,
            help="Spend half of the measurements, and what the library leaves over, on what the draft thinks best.",
        ),
    ] = True,
    seconds: Annotated[float, typer.Option(min=1, rich_help_panel=_BUDGET, help="Time budget.")] = 300.0,
    in_network: Annotated[
        bool,
        typer.Option(
            "--in-network/--no-in-network",
            rich_help_panel=_BUDGET,
            help="Decide kernels that take much of the time inside the whole model.",
        ),
    ] = True,
    seed: Annotated[int, typer.Option(min=0, rich_help_panel=_BUDGET, help="Seed of random inputs.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=_OUTPUT, metavar="FOLDER", help="Folder for the result.", show_default="tuned/MODEL"
        ),
    ] = None,
    shape: Annotated[
        list[str] | None, typer.Option(help="Shape of an input, x=1x3x224x224; may be repeated.")
    ] = None,
    dim: Annotated[
        list[str] | None, typer.Option(help="Size of a symbolic dimension, batch=1; may be repeated.")
    ] = None,
    target: Annotated[
        str, typer.Option(rich_help_panel=_TARGET, help="TVM target: native, 'llvm -mcpu=...', or JSON.")
    ] = "native",
    threads: Annotated[
        int | None,
        typer.Option(rich_help_panel=_TARGET, min=1, help="Threads a kernel runs on.", show_default="usable cores"),
    ] = None,
    profile: Annotated[
        str, typer.Option(rich_help_panel=_TARGET, help="Hardware profile: auto, a name, or a YAML file.")
    ] = "auto",
    store: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_SOURCE,
            help="Where measurements and the library are kept: file or URL.",
            show_default="user data folder",
        ),
    ] = None,
    block: Annotated[
        list[str] | None, typer.Option(rich_help_panel=_STRATEGY, help="Plugin not to load; may be repeated.")
    ] = None,
    plugin: Annotated[
        list[Path] | None, typer.Option(rich_help_panel=_STRATEGY, help="Plugin file to load too; may be repeated.")
    ] = None,
    strict: Annotated[
        bool, typer.Option(rich_help_panel=_STRATEGY, help="Stop at the first plugin that fails.")
    ] = False,
    policy: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=_STRATEGY,
            help="Lock file of `prune-engine policy pin`: do not run by any other policy.",
            show_default=False,
        ),
    ] = None,
    report: Report = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", rich_help_panel=_OUTPUT, help="Print the result only.")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", rich_help_panel=_OUTPUT, help="Result as JSON on stdout, progress as JSON lines on stderr."
        ),
    ] = False,
) -> None:
    """Make a model faster with schedules of kernels like its own, and few measurements.

    Each kernel measures at most --measurements schedules: transferred ones first,
    then the engine's own picks. The result folder is as that of `prune-engine tune`,
    which can go on where this ends.
    """
    from prune_engine.api.requests import model_request, search_config
    from prune_engine.cli.options import ask_for_open_dimensions, parse_dim, parse_shape
    from prune_engine.config import SEARCH_SHARE
    from prune_engine.metaschedule.transfer_source import is_place
    from prune_engine.metaschedule.tune import tune_model
    from prune_engine.metaschedule.workloads.loading import SourceKind, source_kind

    path = Path(source) if is_place(source) else None
    config = search_config(
        seconds=seconds,
        transfer_only=True,
        transfer_trials=measurements,
        transfer_search_share=SEARCH_SHARE if search else 0.0,
        transfer_source="library" if path else source,
        source_form=choose_by,
        builtin_library=builtin_library,
        seed=seed,
        blocked_plugins=block or (),
        plugin_files=plugin or (),
        strict=strict,
    )
    shapes, dims = dict(map(parse_shape, shape or ())), dict(map(parse_dim, dim or ()))
    if source_kind(str(model)) is SourceKind.ONNX:
        shapes, dims = ask_for_open_dimensions(model, shapes, dims)
    request = model_request(
        model,
        config,
        out=out,
        shape=shapes,
        dim=dims,
        target=target,
        threads=threads,
        profile=profile,
        store=store,
        policy=policy,
        library_path=path,
        is_decided_in_network=in_network and measurements > 0,
    )
    page = report_file(report, request.out_dir)
    with (
        stop_on_signals(as_json) as should_stop,
        progress_observer(quiet, as_json) as observer,
        # Stdout is for the result alone, whatever plugins print.
        redirect_stdout(sys.stderr),
    ):
        outcome = tune_model(request, observer=observer, should_stop=should_stop)
    report_outcome(request, outcome, as_json, page)
