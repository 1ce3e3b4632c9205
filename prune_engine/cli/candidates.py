"""`prune-engine candidates`: legal candidates of a space, with traces that stock TVM can replay."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prune_engine.cli import study_options as options
from prune_engine.display.streams import say, writing_to_stdout

if TYPE_CHECKING:
    from prune_engine.cli.late_progress import LateProgress
    from prune_engine.metaschedule.study import Study
    from prune_engine.task import TuningTask

_STDOUT = "-"


def candidates(
    workload: options.What,
    target: options.Target = None,
    profile: options.Profile = None,
    threads: options.Threads = None,
    n: Annotated[int, typer.Option("--number", "-n", min=1, help="Candidates of each task.")] = 512,
    seed: options.Seed = 0,
    out: Annotated[str, typer.Option(metavar="FILE", help="File to write; - is standard output.")] = _STDOUT,
    modules: Annotated[
        Path | None, typer.Option(help="Folder for each task's IRModule, as TVM's JSON: TASK_ID.json.")
    ] = None,
    task: options.Task = None,
    heuristics: Annotated[
        bool, typer.Option("--heuristics", help="Apply HEURISTIC rules, too: fewer candidates, by guesses.")
    ] = False,
    explorer: Annotated[str, typer.Option(help="Explorer that draws the candidates.")] = "explore.uniform",
    shape: options.Shape = None,
    dim: options.Dim = None,
    disable_rule: options.DisableRule = None,
    block: options.Block = None,
    plugin: options.Plugin = None,
    strict: options.Strict = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, with the candidates unless --out names a file.")
    ] = False,
) -> None:
    """Write distinct legal candidates, one JSON object a line, each with its trace as TVM's own JSON.

    Nothing is built or measured.
    """
    from prune_engine.cli.late_progress import LateProgress
    from prune_engine.errors import ConfigError
    from prune_engine.output_file import check_place, make_folder, write_whole

    path = None if out == _STDOUT else Path(out)
    if path is not None:
        check_place(path, head=b"{")  # before anything that takes seconds
    if modules is not None:
        make_folder(modules)
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
            explorer=explorer,
        )
        if not heuristics and (idle := study.heuristics & {*(disable_rule or ())}):
            raise ConfigError(
                "without effect without --heuristics: these rules are not applied anyway",
                who="--disable-rule",
                got=", ".join(sorted(idle)),
                remedy="Leave it out.",
            )
        if not study.judges_legality:
            say("warning: no LEGALITY rule is loaded, so nobody has judged whether these candidates are legal")
        progress = LateProgress()
        lines: list[str] = []
        for _, one in study.tasks_named(task):
            found = _lines_of(study, one, n, heuristics, seed, progress)
            if found and modules is not None:
                write_whole(modules / f"{one.task_id}.json", study.module_json(one))
            lines += found
    if not lines:
        from prune_engine.errors import SpaceError

        raise SpaceError(
            "no legal candidate was found",
            who=workload,
            expected="at least one that the target can run",
            remedy="`prune-engine prune` with the same options shows which rule cuts how many.",
        )
    text = "".join(f"{line}\n" for line in lines)
    if path is not None:
        write_whole(path, text)
    if as_json:
        record = {
            "workload": workload,
            "target": json.loads(study.device.target),
            "profile": study.device.profile.name,
            "profile_found": study.device.reason,
            "seed": seed,
            "n_candidates": len(lines),
            "file": str(path) if path is not None else None,
            "candidates": None if path is not None else [json.loads(line) for line in lines],
        }
        with writing_to_stdout("Name a file on a disk with room by --out."):
            typer.echo(json.dumps(record, indent=2))
    elif path is None:
        with writing_to_stdout("Name a file on a disk with room by --out."):
            sys.stdout.write(text)


def _lines_of(
    study: Study, task: TuningTask, n: int, heuristics: bool, seed: int, progress: LateProgress
) -> list[str]:
    """A task's candidates as JSON lines; what is missing of ``n`` is said."""
    import numpy as np

    from prune_engine.errors import SpaceError
    from prune_engine.metaschedule.candidate_lines import candidate_lines, compiler_check
    from prune_engine.proposals import Proposer
    from prune_engine.verdicts import RuleKind

    try:
        space = study.space(task)
    except SpaceError as error:
        say(f"{task.name}: {error}")
        return []
    opaque = [sketch for sketch in space.sketches if sketch.nests is None]
    if opaque:
        say(
            f"{task.name}: {len(opaque)} of {len(space.sketches)} sketches are not interpreted "
            f"({opaque[0].opaque_reason}): TVM checks their candidates one by one, which is slower"
        )
    proposer = Proposer(
        space,
        study.pipeline(lambda rule: heuristics or rule.kind is RuleKind.LEGALITY),
        study.explorer,
        compiler_check(study.materialiser(task), space),
        np.random.default_rng(seed),
        lambda found, of: progress.tell(f"searching {task.name}: {found:,} of {of:,} so far"),
    )
    proposals = proposer.propose(n)
    if len(proposals) < n:
        why = "the space has no more" if proposals.is_all else f"looked at {proposals.n_drawn:,} candidates"
        say(f"{task.name}: {len(proposals)} of {n} candidates ({why})")
    return candidate_lines(proposals, task)
