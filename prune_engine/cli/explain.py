"""`prune-engine explain`: what became of a task's candidates and why, in plain sentences."""

from __future__ import annotations

import json
import sys
import textwrap
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prune_engine.cli import study_options as options
from prune_engine.display.streams import writing_to_stdout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prune_engine.store.base import Store


def explain(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK",
            help="A task's name, number or the first letters of its id; with --why-not also a workload or a file.",
            show_default=False,
        ),
    ],
    candidate: Annotated[
        str | None,
        typer.Argument(
            metavar="CANDIDATE", help="An id, or its first letters; best or worst.", show_default="the whole task"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder of a result, which `prune-engine tune` wrote.",
            show_default="all in ./tuned",
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(help="Store to look into as well, for what the decisions do not tell of: file or URL."),
    ] = None,
    why_not: Annotated[
        str | None,
        typer.Option(
            "--why-not",
            metavar="DECISIONS",
            help="Decisions of a candidate nobody looked at: NAME=VALUE,... by variable, or JSON; some suffice.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Workload or file that the task is of, for --why-not.", show_default="what the result names"
        ),
    ] = None,
    target: options.Target = None,
    profile: options.Profile = None,
    threads: options.Threads = None,
    shape: options.Shape = None,
    dim: options.Dim = None,
    seed: options.Seed = 0,
    disable_rule: options.DisableRule = None,
    block: options.Block = None,
    plugin: options.Plugin = None,
    strict: options.Strict = False,
    as_json: options.AsJson = False,
) -> None:
    """Tell what became of a task's candidates, of one of them, or of one that nobody looked at.

    Nothing is built or measured: a run has written down what it decided.
    """
    from prune_engine.cli.explain_recorded import explained
    from prune_engine.errors import ArtifactError, ConfigError
    from prune_engine.explain.known_tasks import known_tasks

    if why_not is None and model is not None:
        raise ConfigError("without effect without --why-not", who="--model", remedy="Leave it out.")
    if why_not is not None and candidate is not None:
        raise ConfigError("names a candidate already", who="--why-not", got=f"CANDIDATE {candidate}")
    opened = _opened(store)
    try:
        with redirect_stdout(sys.stderr):  # stdout is for the result alone, whatever plugins print
            tasks = known_tasks(out, opened, with_untouched=why_not is None)
            if why_not is None:
                record = explained(task, candidate, tasks, opened)
            else:
                from prune_engine.cli.explain_why_not import why_not_told

                record = why_not_told(
                    task,
                    why_not,
                    tasks,
                    model,
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
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ArtifactError(
            "cannot be read", who=str(error.filename or out), got=error.strerror or str(error)
        ) from error
    finally:
        if opened is not None:
            opened.close()
    with writing_to_stdout("Redirect it to a place with room."):
        if as_json:
            typer.echo(json.dumps(record, indent=2))
        else:
            _print(record["sentences"])


def _print(sentences: Sequence[str]) -> None:
    from prune_engine.cli.console import result_console

    console = result_console()
    for sentence in sentences:
        # What follows the first line of a sentence is set in, so that one sees where the next begins.
        lines = textwrap.wrap(
            sentence, console.width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
        console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


def _opened(url: str | None) -> Store | None:
    if url is None:
        return None
    from prune_engine.store.open import open_existing_store

    return open_existing_store(url)
