"""`prune-engine tune MODEL.onnx`: from a model file to a faster one."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prune_engine.cli.report_option import Report, report_file
from prune_engine.cli.sessions import report_outcome, stop_on_signals
from prune_engine.display.observers import progress_observer

if TYPE_CHECKING:
    from prune_engine.config import EngineConfig

_BUDGET, _TARGET, _MEASURE, _STRATEGY, _OUTPUT = "Budget", "Device", "Measuring", "Strategies", "Result"

#: What says how kernels are compiled, measured or written: nothing of that happens in a replay.
_NOT_REPLAYED = (
    *("shape", "dim", "target", "build_timeout", "run_timeout", "memory", "flush_cache"),
    *("transfer", "builtin_library"),
    *("explorer", "policy"),
)


def tune(
    context: typer.Context,
    model: Annotated[
        Path | None,
        typer.Argument(
            help="The ONNX file, a workload such as gemm:512x512x512, or a file of kernels: .py, .json.",
            show_default=False,
        ),
    ] = None,
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
    seconds: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=_BUDGET, min=1, help="Time budget for tuning.", show_default="300, if no --trials"
        ),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=_BUDGET, min=0, help="Measured candidates in all, earlier runs on the store included."
        ),
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
            rich_help_panel=_MEASURE,
            help="Where measurements are kept: file or URL.",
            show_default="user data folder",
        ),
    ] = None,
    plateau: Annotated[
        int, typer.Option(rich_help_panel=_BUDGET, min=1, help="Close a task after so many trials without gain.")
    ] = 96,
    seed: Annotated[int, typer.Option(rich_help_panel=_BUDGET, min=0, help="Seed of every random draw.")] = 0,
    batch: Annotated[
        int,
        typer.Option(
            rich_help_panel=_BUDGET, min=1, help="Candidates per batch; at most 8 in a task's first 32 trials."
        ),
    ] = 16,
    build_timeout: Annotated[
        float | None, typer.Option(rich_help_panel=_MEASURE, min=0.1, help="Seconds one build may take.")
    ] = None,
    run_timeout: Annotated[
        float | None, typer.Option(rich_help_panel=_MEASURE, min=0.1, help="Seconds one candidate may run.")
    ] = None,
    memory: Annotated[
        str | None, typer.Option(rich_help_panel=_MEASURE, help="Memory a candidate may use, as 8G.")
    ] = None,
    flush_cache: Annotated[
        bool, typer.Option(rich_help_panel=_MEASURE, help="Flush the caches before each timed call.")
    ] = False,
    fp_tolerance: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=_MEASURE,
            min=0,
            max=0.999,
            help="Relative error accepted of floating-point results.",
            show_default="by type and reduction length",
        ),
    ] = None,
    strict_fp: Annotated[
        bool,
        typer.Option("--strict-fp", rich_help_panel=_MEASURE, help="Add up in the untuned kernel's order only."),
    ] = False,
    stress_check: Annotated[
        bool,
        typer.Option(
            "--stress-check/--no-stress-check",
            rich_help_panel=_MEASURE,
            help="Before a schedule ships, try it on inputs that are hard on numbers.",
        ),
    ] = True,
    explorer: Annotated[
        str, typer.Option(rich_help_panel=_STRATEGY, help="Explorer to use.")
    ] = "explore.evolution",
    draft: Annotated[
        str, typer.Option(rich_help_panel=_STRATEGY, help="Draft scorer to use, or none.")
    ] = "draft.symbols",
    verifier: Annotated[
        str, typer.Option(rich_help_panel=_STRATEGY, help="Verifier to use, or none.")
    ] = "lightgbm.residual",
    selector: Annotated[str, typer.Option(rich_help_panel=_STRATEGY, help="Selector to use.")] = "select.diverse",
    prior: Annotated[
        str,
        typer.Option(
            rich_help_panel=_STRATEGY, help="What the verifier starts from: builtin, none, or a model file."
        ),
    ] = "builtin",
    disable_rule: Annotated[
        list[str] | None, typer.Option(rich_help_panel=_STRATEGY, help="Rule to leave out; may be repeated.")
    ] = None,
    block: Annotated[
        list[str] | None, typer.Option(rich_help_panel=_STRATEGY, help="Plugin not to load; may be repeated.")
    ] = None,
    plugin: Annotated[
        list[Path] | None, typer.Option(rich_help_panel=_STRATEGY, help="Plugin file to load too; may be repeated.")
    ] = None,
    transfer: Annotated[
        bool,
        typer.Option(
            "--transfer/--no-transfer",
            rich_help_panel=_STRATEGY,
            help="Begin with schedules of kernels like these that were tuned before.",
        ),
    ] = True,
    builtin_library: Annotated[
        bool,
        typer.Option(
            "--builtin-library/--no-builtin-library",
            rich_help_panel=_STRATEGY,
            help="Also with those that are shipped.",
        ),
    ] = True,
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
    replay: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=_MEASURE,
            help="Search in a recorded MetaSchedule database instead, without measuring; no model is given then.",
            show_default=False,
        ),
    ] = None,
    decisions: Annotated[
        bool,
        typer.Option(
            "--decisions/--no-decisions",
            rich_help_panel=_OUTPUT,
            help="Record what became of each candidate, for `prune-engine explain`.",
        ),
    ] = True,
    decisions_size: Annotated[
        str, typer.Option(rich_help_panel=_OUTPUT, help="What those records may take of the disk.")
    ] = "64M",
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
    """Tune a model for this machine's processor and write a faster one.

    The result folder holds model.so and metadata.json (for `prune-engine run` or
    plain TVM), a MetaSchedule database, and result.json. The same command again
    never measures a candidate twice.
    """
    from prune_engine.api.requests import DEFAULT_SECS, model_request, n_bytes, search_config
    from prune_engine.cli.options import ask_for_open_dimensions, parse_dim, parse_shape, refuse_without_effect
    from prune_engine.metaschedule.tune import tune_model
    from prune_engine.metaschedule.workloads.loading import SourceKind, source_kind

    config = search_config(
        trials=trials,
        seconds=DEFAULT_SECS if seconds is None and trials is None and replay is None else seconds,
        batch_size=batch,
        plateau_trials=plateau,
        seed=seed,
        explorer=explorer,
        draft=draft,
        verifier=verifier,
        selector=selector,
        prior=prior,
        disabled_rules=disable_rule or (),
        blocked_plugins=block or (),
        plugin_files=plugin or (),
        transfer=transfer,
        builtin_library=builtin_library,
        strict=strict,
        fp_tolerance=fp_tolerance,
        strict_fp=strict_fp,
        stress_check=stress_check,
    )
    if replay is not None:
        refuse_without_effect(
            context, _NOT_REPLAYED, "with --replay, which proposes recorded candidates and measures none"
        )
    if replay is not None or model is None:
        _replay(
            model,
            replay,
            config,
            profile=profile,
            threads=threads,
            store=store,
            out=out,
            decision_bytes=n_bytes("decisions_size", decisions_size) if decisions else 0,
            report=report,
            quiet=quiet,
            as_json=as_json,
        )
        return
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
        build_timeout=build_timeout,
        run_timeout=run_timeout,
        memory=memory,
        flush_cache=flush_cache,
        policy=policy,
        decisions=decisions,
        decisions_size=decisions_size,
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


def _replay(
    model: Path | None,
    db: Path | None,
    config: EngineConfig,
    *,
    profile: str,
    threads: int | None,
    store: str | None,
    out: Path | None,
    decision_bytes: int,
    report: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    from prune_engine.cli.replays import replay_database, report_replay
    from prune_engine.errors import ConfigError

    if db is None or model is not None:
        raise ConfigError(
            "one of the two is tuned",
            who="tune",
            got="neither a model nor --replay" if db is None else "a model and --replay",
            expected="a model, or --replay with a recorded database",
        )
    with (
        stop_on_signals(as_json) as should_stop,
        progress_observer(quiet, as_json) as observer,
        redirect_stdout(sys.stderr),
    ):
        record = replay_database(
            db,
            config,
            profile=profile,
            n_threads=threads,
            store_url=store,
            observer=observer,
            should_stop=should_stop,
            out_dir=out,
            decision_bytes=decision_bytes,
            report=report,
        )
    report_replay(record, as_json)
