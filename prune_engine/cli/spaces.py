"""`prune-engine spaces`: what there is to choose in each kernel of a model, and what rules leave of it."""

from __future__ import annotations

import json
import sys
import time
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import typer

from prune_engine.cli import study_options as options
from prune_engine.display.streams import say, writing_to_stdout

if TYPE_CHECKING:
    from prune_engine.metaschedule.study import Study
    from prune_engine.space import DesignSpace, Sketch
    from prune_engine.task import TuningTask


def spaces(
    workload: options.What,
    target: options.Target = None,
    profile: options.Profile = None,
    threads: options.Threads = None,
    task: options.Task = None,
    shape: options.Shape = None,
    dim: options.Dim = None,
    disable_rule: options.DisableRule = None,
    block: options.Block = None,
    plugin: options.Plugin = None,
    strict: options.Strict = False,
    as_json: options.AsJson = False,
) -> None:
    """Show the design space of each task: sketches, variables, exact sizes before and after each rule.

    Nothing is measured. A sketch is interpreted if its loops could be read, so
    that candidates can be judged without the compiler.
    """
    from prune_engine.cli.late_progress import LateProgress
    from prune_engine.cli.space_tables import print_spaces

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
        )
        chosen, progress, rows = study.tasks_named(task), LateProgress(), []
        for done, (number, one) in enumerate(chosen):
            progress.tell(f"read {done} of {len(chosen)} spaces")
            rows.append(_task_record(study, number, one))
    record = {
        "workload": workload,
        "target": json.loads(study.device.target),
        "profile": study.device.profile.name,
        "profile_found": study.device.reason,
        "totals": _totals(rows),
        "tasks": rows,
    }
    with writing_to_stdout("Redirect it to a place with room."):
        if as_json:
            typer.echo(json.dumps(record, indent=2))
        else:
            print_spaces(record)
    if rows and all(row["error"] for row in rows):
        say("error: not one design space could be generated.")
        raise typer.Exit(1)


def _task_record(study: Study, number: int, task: TuningTask) -> dict[str, Any]:
    from prune_engine.errors import SpaceError
    from prune_engine.funnel import Funnel, StrategyFailure, with_failures_of_restriction

    record: dict[str, Any] = {
        "number": number,
        "name": task.name,
        "task_id": task.task_id,
        "calls": task.weight,
        "flop_count": task.flop_count,
        "error": None,
        "size": 0,
        "size_after": 0,
        "seconds": None,
        "rules": [],
        "sketches": [],
    }
    started = time.perf_counter()
    try:
        space = study.space(task)
    except SpaceError as error:
        return {**record, "error": str(error)}
    seconds = time.perf_counter() - started
    funnel = Funnel()
    failures: dict[str, StrategyFailure] = {}
    restricted, _ = study.pipeline(failures=failures).restrict(space, funnel)
    rules = [
        {
            "rule": step.strategy,
            "kind": step.kind.value if step.kind else None,
            "size_before": step.n_in,
            "size_after": step.n_out,
            "seconds": step.seconds,
            "failed": step.failed,
        }
        for step in with_failures_of_restriction(funnel.steps, failures, restricted.size)
    ]
    return {
        **record,
        "size": space.size,
        "size_after": restricted.size,
        "seconds": seconds,
        "rules": rules,
        "sketches": _sketch_records(study, space, restricted),
    }


def _sketch_records(study: Study, space: DesignSpace, restricted: DesignSpace) -> list[dict[str, Any]]:
    pairs = zip(space.sketches, restricted.sketches, strict=True)
    return [{**_sketch_record(*pair), "structure": study.structure(pair[0])} for pair in pairs]


def _sketch_record(sketch: Sketch, after: Sketch) -> dict[str, Any]:
    return {
        "sketch": sketch.index,
        "sketch_id": sketch.sketch_id,
        "size": sketch.size,
        "size_after": after.size,
        "is_interpreted": sketch.nests is not None,
        "opaque_reason": sketch.opaque_reason or None,
        "variables": [
            {
                "name": variable.name,
                "kind": variable.kind.value,
                "rows": variable.size,
                "rows_after": restricted.size,
                "subject": None
                if variable.subject is None
                else {
                    "statement": variable.subject.statement,
                    "iterator": variable.subject.iterator,
                    "is_reduction": variable.subject.is_reduction,
                    "is_contiguous": variable.subject.is_contiguous,
                    "levels": list(variable.subject.levels),
                },
            }
            for variable, restricted in zip(sketch.variables, after.variables, strict=True)
        ],
    }


def _totals(rows: list[dict[str, Any]]) -> dict[str, Any]:
    sketches = [sketch for row in rows for sketch in row["sketches"]]
    n_interpreted = sum(sketch["is_interpreted"] for sketch in sketches)
    return {
        "n_tasks": len(rows),
        "n_failed": sum(row["error"] is not None for row in rows),
        "size": sum(row["size"] for row in rows),
        "size_after": sum(row["size_after"] for row in rows),
        "n_sketches": len(sketches),
        "n_interpreted": n_interpreted,
        "interpreted_share": n_interpreted / len(sketches) if sketches else None,
    }
