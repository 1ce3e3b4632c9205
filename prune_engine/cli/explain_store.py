"""What a store alone can tell: counts of drops by reason, and the fate of what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from prune_engine.errors import ConfigError
from prune_engine.explain.known_tasks import KnownTask, candidate_named
from prune_engine.explain.tasks import explain_measurement, explain_verdicts
from prune_engine.measurement import DEFAULT_CANDIDATE

if TYPE_CHECKING:
    from prune_engine.store.base import Store, StoredCandidate


def explained_by_store(store: Store, known: KnownTask, candidate: str | None) -> dict[str, Any]:
    """The record of `explain` for a task without decision files. Raises ConfigError for an unknown candidate."""
    task = next(task for run in store.runs() for task in store.tasks(run.run_id) if task.task_id == known.task_id)
    head: dict[str, Any] = {"task_id": known.task_id, "name": known.name, "folder": None}
    if candidate is None:
        return {**head, "sentences": explain_verdicts(task, store.verdicts(known.task_id))}
    rows = measured_of(store, known.task_id)
    if candidate in ("best", "worst"):
        secs = {name: row.measurement.latency_secs for name, row in rows.items()}
        identity = identity_of(candidate, {name: value for name, value in secs.items() if value is not None})
    else:
        identity = candidate_named(candidate, list(rows))
    sentences = explain_verdicts(task, store.verdicts(known.task_id, identity))
    return {**head, "candidate_id": identity, "sentences": [*sentences, *measured_told(rows, identity)]}


def measured_of(store: Store, task_id: str) -> dict[str, StoredCandidate]:
    """By id what was measured on the device of the newest run that has anything of the task, its default apart."""
    for run in store.runs():
        device, n_threads = run.manifest.get("device"), run.manifest.get("n_threads")
        if isinstance(device, str) and isinstance(n_threads, int):
            found = {row.candidate_id: row for row in store.candidates(task_id, device, n_threads)}
            if found:
                return {name: row for name, row in found.items() if name != DEFAULT_CANDIDATE}
    return {}


def measured_told(rows: Mapping[str, StoredCandidate], identity: str) -> list[str]:
    """How a candidate ran by a store, where that has it."""
    return [explain_measurement(rows[identity])] if identity in rows else []


def identity_of(wanted: str, latency_secs: Mapping[str, float], remedy: str | None = None) -> str:
    """The best or the worst by latency. Raises ConfigError, with ``remedy``, if nothing ran."""
    if not latency_secs:
        raise ConfigError("nothing of this task ran", who="CANDIDATE", got=wanted, expected="an id", remedy=remedy)
    ranked = sorted((secs, name) for name, secs in latency_secs.items())
    return ranked[0 if wanted == "best" else -1][1]
