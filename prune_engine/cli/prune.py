"""`prune-engine prune`: the funnel of a space, rule by rule."""

from __future__ import annotations

import json
import sys
import time
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prune_engine.cli import study_options as options
from prune_engine.display.streams import say, writing_to_stdout

if TYPE_CHECKING:
    from collections.abc import Callable

    from prune_engine.census import Census, Share
    from prune_engine.cli.late_progress import LateProgress
    from prune_engine.funnel import FunnelStep, StrategyFailure
    from prune_engine.metaschedule.study import Study
    from prune_engine.pipeline import Pipeline
    from prune_engine.task import TuningTask

_DEFAULT_SAMPLES = 200_000


def prune(
    workload: options.What,
    profile: options.Profile = None,
    target: options.Target = None,
    threads: options.Threads = None,
    task: options.Task = None,
    samples: Annotated[
        int, typer.Option(min=1, help="Candidates drawn from a space of more than 4 million.")
    ] = _DEFAULT_SAMPLES,
    seed: options.Seed = 0,
    shape: options.Shape = None,
    dim: options.Dim = None,
    disable_rule: options.DisableRule = None,
    block: options.Block = None,
    plugin: options.Plugin = None,
    strict: options.Strict = False,
    as_json: options.AsJson = False,
) -> None:
    """Show what the rules leave of a design space: sizes, the legal share, what each rule cuts, times.

    Spaces of up to 4 million candidates are judged completely, larger ones by a
    random sample. Nothing is measured.
    """
    from prune_engine.cli.funnel_tables import print_funnels
    from prune_engine.cli.late_progress import LateProgress

    with redirect_stdout(sys.stderr):  # stdout is for the result alone, whatever plugins print
        study = options.open_study(
            workload,
            target=target,
            profile=profile,
            threads=threads,
            shape=shape,
            dim=dim,
            disabled_rules=disable_rule,
            blocked_plugins=block,
            plugin_files=plugin,
            strict=strict,
            seed=seed,
        )
        progress = LateProgress()
        rows = [
            _task_record(study, number, one, samples, seed, progress) for number, one in study.tasks_named(task)
        ]
    record = {
        "workload": workload,
        "target": json.loads(study.device.target),
        "profile": study.device.profile.name,
        "profile_found": study.device.reason,
        "seed": seed,
        "tasks": rows,
    }
    with writing_to_stdout("Redirect it to a place with room."):
        if as_json:
            typer.echo(json.dumps(record, indent=2))
        else:
            print_funnels(record)
    if rows and all(row["error"] for row in rows):
        say("error: not one design space could be generated.")
        raise typer.Exit(1)


def _task_record(
    study: Study, number: int, task: TuningTask, samples: int, seed: int, progress: LateProgress
) -> dict[str, Any]:
    import numpy as np

    from prune_engine.census import take_census
    from prune_engine.errors import SpaceError

    record: dict[str, Any] = {"number": number, "name": task.name, "task_id": task.task_id, "error": None}
    failures: dict[str, StrategyFailure] = {}
    started = time.perf_counter()
    try:
        space = study.space(task)
    except SpaceError as error:
        return {**record, "error": str(error)}
    space_secs = time.perf_counter() - started
    pipeline = study.pipeline(failures=failures)
    census = take_census(
        pipeline,
        space,
        sample_size=samples,
        rng=np.random.default_rng(seed),
        failures=failures,
        on_progress=lambda done, of: progress.tell(f"{task.name}: judged {done:,} of {of:,} candidates"),
    )
    opaque = sorted({sketch.opaque_reason for sketch in space.sketches if sketch.nests is None})
    return {
        **record,
        "n_sketches": len(space.sketches),
        "n_interpreted": sum(sketch.nests is not None for sketch in space.sketches),
        "opaque_reasons": opaque,
        "failed_rules": {name: failure.error for name, failure in failures.items()},
        "space_secs": space_secs,
        **_census_record(census, lambda step: _why(step, pipeline, task)),
    }


def _why(step: FunnelStep, pipeline: Pipeline, task: TuningTask) -> str | None:
    """Why a rule cut something: of the first candidate that it dropped, or of all that a task-space rule cut."""
    from prune_engine.verdicts import Stage

    if not step.n_cut or step.failed:
        return None
    if step.stage is not Stage.TASK_SPACE:
        return pipeline.first_reason(step.strategy, task.task_id)
    return pipeline.table_reason(step.strategy)


def _census_record(census: Census, why: Callable[[FunnelStep], str | None]) -> dict[str, Any]:
    return {
        "size": census.full_size,
        "size_after_space_rules": census.size,
        "is_complete": census.is_complete,
        "n_judged": census.n_judged,
        "n_opaque": census.n_opaque,
        "n_legal": census.n_legal if census.is_legality_judged else None,
        "n_kept": census.n_kept,
        "legal_share": _share_record(census.legal),
        "kept_share": _share_record(census.kept),
        "kept_share_of_space": census.kept_of_space,
        "judge_secs": census.seconds,
        "judged_per_sec": census.per_sec,
        "space_rules": [_step_record(step, why(step)) for step in census.space_steps],
        "rules": [_step_record(step, why(step)) for step in census.rule_steps],
    }


def _share_record(share: Share | None) -> dict[str, float] | None:
    return None if share is None else {"value": share.value, "low": share.low, "high": share.high}


def _step_record(step: FunnelStep, reason: str | None) -> dict[str, Any]:
    return {
        "rule": step.strategy,
        "kind": step.kind.value if step.kind else None,
        "n_in": step.n_in,
        "n_cut": step.n_cut,
        "n_out": step.n_out,
        "seconds": step.seconds,
        "failed": step.failed,
        "reason": reason,
    }
