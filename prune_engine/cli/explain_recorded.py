"""What files of decisions and a store say of a task or a candidate, as one record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prune_engine.cli.explain_store import explained_by_store, identity_of, measured_of, measured_told
from prune_engine.decisions.records import as_json, read_decisions
from prune_engine.errors import ArtifactError, ConfigError
from prune_engine.explain.chains import Chain, duration_text, explain_candidate, explain_task
from prune_engine.explain.known_tasks import KnownTask, candidate_named, stale_told, task_named

if TYPE_CHECKING:
    from prune_engine.store.base import Store, StoredCandidate

_BEST, _WORST = "best", "worst"
_ASK_THE_STORE = "What other runs measured is told by --store with the run's store."


def explained(
    wanted: str, candidate: str | None, tasks: Sequence[KnownTask], store: Store | None
) -> dict[str, Any]:
    """Tell of a task, or of a candidate of it: by its decisions, and by what a store has besides.

    Raises ConfigError for a task or candidate that there is not, ArtifactError for files without a decision.
    """
    known = task_named(wanted, tasks)
    if known.folder is None and known.untouched:
        return _untouched(known, candidate)
    if known.folder is None:
        assert store is not None, "a task without decisions is of the store"
        return explained_by_store(store, known, candidate)
    chain = Chain.of(known.task_id, read_decisions(known.folder, known.task_id))
    if not chain.counts:
        raise ArtifactError(
            "no line on this task is a decision",
            who=str(known.folder),
            got=f"task {known.task_id}",
            expected="lines as `prune-engine tune` writes them",
        )
    rows = measured_of(store, known.task_id) if store is not None else {}
    head = {"task_id": known.task_id, "name": chain.name, "folder": str(known.folder)}
    stale = stale_told(known.folder)
    if candidate is None:
        return {**head, "sentences": [*stale, *explain_task(chain), *_added(chain, rows, store)]}
    identity = _identity(candidate, chain, rows, None if store is not None else _ASK_THE_STORE)
    if identity not in chain.looked_at and store is not None:  # of a run whose decisions are elsewhere
        return explained_by_store(store, known, identity)
    fates = list(read_decisions(known.folder, known.task_id, identity))
    return {
        **head,
        "candidate_id": identity,
        "sentences": [*stale, *explain_candidate(chain, fates), *measured_told(rows, identity)],
        "decisions": [as_json(fate) for fate in fates],
    }


def _untouched(known: KnownTask, candidate: str | None) -> dict[str, Any]:
    if candidate is not None:
        raise ConfigError(
            f"{known.name} has no candidates to tell of: {known.untouched}", who="CANDIDATE", got=candidate
        )
    told = f"Task {known.name}: {known.untouched}."
    return {"task_id": known.task_id, "name": known.name, "folder": None, "sentences": [told]}


def _identity(wanted: str, chain: Chain, rows: Mapping[str, StoredCandidate], remedy: str | None) -> str:
    """The candidate that is meant, among those of the decisions and of the store."""
    if wanted not in (_BEST, _WORST):
        return candidate_named(wanted, list({**dict.fromkeys(chain.looked_at), **rows}))
    ran = {one.candidate: one.measured.latency_secs for one in chain.ranked if one.candidate and one.measured}
    known = {name: secs for name, secs in ran.items() if secs is not None}
    return identity_of(wanted, {**known, **_secs(rows)}, remedy)


def _added(chain: Chain, rows: Mapping[str, StoredCandidate], store: Store | None) -> list[str]:
    """What a store knows of a task beside its decisions."""
    if store is None:
        return []
    others = sorted((secs, name) for name, secs in _secs(rows).items() if name not in chain.measured)
    if not others:
        return [f"The store ({store.url}) has no more of it."]
    secs, name = others[0]
    return [
        f"The store ({store.url}) has {len(others):,} more that ran, of runs whose decisions are not here: "
        f"the best of them is {name}, {duration_text(secs)}."
    ]


def _secs(rows: Mapping[str, StoredCandidate]) -> dict[str, float]:
    found = {name: row.measurement.latency_secs for name, row in rows.items()}
    return {name: secs for name, secs in found.items() if secs is not None}
