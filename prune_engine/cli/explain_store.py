"""What a store alone can tell: counts of drops by reason, and the fate of what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prune_engine.cli.explain_tasks import KnownTask, candidate_named
from prune_engine.errors import ConfigError
from prune_engine.explain import explain_measurement, explain_verdicts
from prune_engine.measurement import DEFAULT_CANDIDATE

if TYPE_CHECKING:
    from prune_engine.store.base import Store, StoredCandidate


def explained_by_store(store: Store, known: KnownTask, candidate: str | None) -> dict[str, Any]:
    """The record of `explain` for a task without decision files. Raises ConfigError for an unknown candidate."""
    task = next(task for run in store.runs() for task in store.tasks(run.run_id) if task.task_id == known.task_id)
    head: dict[str, Any] = {"task_id": known.task_id, "name": known.name, "folder": None}
    if candidate is None:
        return {**head, "sentences": explain_verdicts(task, store.verdicts(known.task_id))}
    rows = {row.candidate_id: row for row in _measured(store, known.task_id)}
    identity = _identity(candidate, rows)
    sentences = explain_verdicts(task, store.verdicts(known.task_id, identity))
    return {**head, "candidate_id": identity, "sentences": [*sentences, explain_measurement(rows[identity])]}


def _identity(wanted: str, rows: dict[str, StoredCandidate]) -> str:
    if wanted not in ("best", "worst"):
        return candidate_named(wanted, list(rows))
    ran = [
        (secs, identity)
        for identity, row in rows.items()
        if identity != DEFAULT_CANDIDATE and (secs := row.measurement.latency_secs) is not None
    ]
    if not ran:
        raise ConfigError("nothing of this task ran", who="CANDIDATE", got=wanted, expected="an id")
    return min(ran)[1] if wanted == "best" else max(ran)[1]


def _measured(store: Store, task_id: str) -> list[StoredCandidate]:
    """What was measured on the device of the newest run that has anything of the task."""
    for run in store.runs():
        device, n_threads = run.manifest.get("device"), run.manifest.get("n_threads")
        if isinstance(device, str) and isinstance(n_threads, int):
            found = list(store.candidates(task_id, device, n_threads))
            if found:
                return found
    return []
