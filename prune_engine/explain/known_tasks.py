"""Which task `explain` is asked about, and where there is something to tell of it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prune_engine.decisions.files import DECISIONS_FOLDER
from prune_engine.decisions.records import read_tasks, runs_of
from prune_engine.errors import ConfigError
from prune_engine.explain.stop_reasons import stop_reason_text
from prune_engine.result_folder import RESULT_NAME, RESULTS, tasks_told, told_by_result

if TYPE_CHECKING:
    from prune_engine.store.base import Store

_MIN_LETTERS = 4
_MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class KnownTask:
    """A task that something is recorded of: ``folder`` is that of its decisions, None for the store alone.

    ``number`` is its place from 1 on in its result, or in its run on the store. ``untouched`` says, where neither
    has anything on a task of a result, why that is so. ``is_added``: of a store that was named beside a result
    folder, so that the folder's tasks are meant first.
    """

    task_id: str
    name: str
    folder: Path | None
    number: int
    untouched: str = ""
    is_added: bool = False


def known_tasks(out: Path | None, store: Store | None, *, with_untouched: bool = False) -> list[KnownTask]:
    """The tasks of a result folder, by default of all in ./tuned, and of a store.

    ``with_untouched`` adds those of the results that nothing is recorded of.

    Raises ConfigError for a folder without decisions.
    """
    if out is not None:
        is_result = (out / DECISIONS_FOLDER).is_dir() or (out / RESULT_NAME).is_file()
        folders = [out / DECISIONS_FOLDER if is_result else out]
    else:
        folders = sorted(RESULTS.glob(f"*/{DECISIONS_FOLDER}"))
    found = [task for folder in folders for task in _tasks_of(folder)]
    untouched = [task for folder in folders for task in _untouched(folder)] if with_untouched else []
    if out is not None and not found and not untouched and store is None:
        raise ConfigError(
            "no decisions are recorded there",
            who=str(out),
            expected=f"a result folder of `prune-engine tune`, with {DECISIONS_FOLDER}/",
            remedy="Runs with --no-decisions have none; --store tells what a store knows.",
        )
    known = {task.task_id for task in found}
    for run in store.runs() if store is not None else ():
        assert store is not None
        for number, task in enumerate(store.tasks(run.run_id), 1):
            if task.task_id not in known:
                known.add(task.task_id)
                found.append(KnownTask(task.task_id, task.name, None, number, is_added=out is not None))
    return [*found, *(task for task in untouched if task.task_id not in known)]


def stale_told(folder: Path) -> list[str]:
    """A sentence where the decisions in a folder are not of the run that its result is of; else none."""
    run = told_by_result(folder.parent).get("run_id")
    runs = runs_of(folder)
    if not isinstance(run, str) or run in runs or not runs:
        return []
    return [
        f"The result in {folder.parent} is of a later run ({run[:12]}) that recorded no decisions: this is what "
        f"{'an earlier run' if len(runs) == 1 else f'{len(runs)} earlier runs'} decided."
    ]


def task_named(wanted: str, tasks: Sequence[KnownTask]) -> KnownTask:
    """The task of a name, of a number from 1, or of the first letters of an id.

    Of several results with the task the last one counts; a result that was named goes before a store. Raises
    ConfigError that lists what is near.
    """
    found = [t for t in tasks if wanted == t.name]
    found = found or [t for t in tasks if len(wanted) >= _MIN_LETTERS and t.task_id.startswith(wanted)]
    found = found or [t for t in tasks if wanted == str(t.number)]
    found = [t for t in found if not t.is_added] or found
    if found and len({t.task_id for t in found}) == 1:
        return found[-1]
    if found:
        ids = ", ".join(sorted({f"{t.task_id} ({t.name})" for t in found})[:_MOST_NAMED])
        raise ConfigError(
            "several tasks are meant",
            who="TASK",
            got=repr(wanted),
            expected=f"one of: {ids}",
            remedy="Name one by its id, or its result folder by --out.",
        )
    raise ConfigError(
        "nothing is recorded of such a task",
        who="TASK",
        got=repr(wanted),
        expected=_near(wanted, tasks),
        remedy="Name the result folder by --out, or the store by --store.",
    )


def candidate_named(wanted: str, known: Sequence[str]) -> str:
    """The candidate of an id or of its first letters. Raises ConfigError that lists what is near."""
    found = [c for c in known if len(wanted) >= _MIN_LETTERS and c.startswith(wanted)]
    if len(found) == 1 or wanted in found:
        return wanted if wanted in found else found[0]
    near = found or difflib.get_close_matches(wanted, known, n=_MOST_NAMED, cutoff=0.5)
    listed = ", ".join(sorted(near)[:_MOST_NAMED])
    raise ConfigError(
        "several candidates are meant" if found else "no such candidate was looked at closely",
        who="CANDIDATE",
        got=repr(wanted),
        expected=f"best, worst, or an id such as {listed}"
        if listed
        else f"best, worst, or one of {len(known):,} ids, of which {_MIN_LETTERS} letters are enough",
        remedy=None if found else "What became of one that fell earlier is told by --why-not with its decisions.",
    )


def _near(wanted: str, tasks: Sequence[KnownTask]) -> str:
    unique = list(dict.fromkeys(task.name for task in tasks))
    near = difflib.get_close_matches(wanted, unique, n=_MOST_NAMED, cutoff=0.5)
    if near:
        return f"one such as {', '.join(near)}"
    if not tasks:
        return "a task of an earlier run"
    listed = ", ".join(f"{task.number} ({task.name})" for task in tasks[:_MOST_NAMED])
    more = f" and {len(tasks) - _MOST_NAMED} more" if len(tasks) > _MOST_NAMED else ""
    return f"one of: {listed}{more}"


def _tasks_of(folder: Path) -> list[KnownTask]:
    """The tasks of one folder, in the order in which the result lists them, if there is one."""
    places = {str(task.get("task_id")): place for place, task in enumerate(tasks_told(folder.parent))}
    found = sorted(read_tasks(folder), key=lambda task: places.get(task[0], len(places)))
    return [
        KnownTask(task_id, name, folder, places.get(task_id, len(places) + i) + 1)
        for i, (task_id, name) in enumerate(found)
    ]


def _untouched(folder: Path) -> list[KnownTask]:
    """The tasks of a result that no decision is recorded of, with the reason."""
    recorded = {task_id for task_id, _ in read_tasks(folder)}
    found = []
    for number, task in enumerate(tasks_told(folder.parent), 1):
        if isinstance(identity := task.get("task_id"), str) and identity not in recorded:
            name = task.get("name")
            found.append(
                KnownTask(identity, name if isinstance(name, str) else identity, None, number, _why_untouched(task))
            )
    return found


def _why_untouched(task: Mapping[str, Any]) -> str:
    reason, examples = str(task.get("stop_reason")), task.get("failure_examples")
    shown = next(iter(examples.values()), "") if isinstance(examples, dict) else ""
    if reason == "default_failed":
        return f"no candidate of it was looked at, as its untuned kernel could not be measured ({shown})"
    if reason == "no_space":
        return f"no candidate of it was looked at, as it has no design space ({shown})"
    if task.get("n_trials"):
        return (
            f"{task['n_trials']} candidates of it were measured, but no decisions on it are recorded here; --store "
            "tells what a store knows"
        )
    size = task.get("space_size")
    if isinstance(size, int) and size <= 1:
        return "no candidate of it was looked at, as it has nothing to choose: it keeps its only schedule"
    why = f", the run ended before because {stop_reason_text(reason)}" if task.get("stop_reason") else ""
    return f"no candidate of it was looked at: it got no turn{why}"


def manifest_model(out: Path) -> str | None:
    """What a result folder says that it was tuned from, None if it does not say."""
    model = told_by_result(out).get("model")
    return model if isinstance(model, str) else None
