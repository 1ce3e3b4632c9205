"""The draft list of a round as JSON lines: columns until the last moment, as there are hundreds of candidates."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from prune_engine.candidates import Candidate, CandidateBatch
from prune_engine.space import Sketch
from prune_engine.stages.draft_list import DraftList
from prune_engine.verdicts import Float64Array


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate of a draft list, as far as the list knows it. ``decisions`` and ``evidence`` are JSON."""

    position: int
    candidate: str
    sketch: int
    decisions: str
    evidence: str


def rows_of_list(listed: DraftList) -> Iterator[Row]:
    """All candidates of a draft list, batch by batch."""
    pool = listed.pool
    ranks = _ranks(listed)
    for number, batch in enumerate(pool.batches):
        positions = np.flatnonzero(pool.owners == number)
        if not len(positions):
            continue
        rows = pool.rows[positions]
        columns = _columns(listed, number)
        evidence = _evidence({name: values[rows] for name, values in columns.items()}, ranks, positions)
        for position, (candidate, decisions), text in zip(
            positions.tolist(), _identities(batch, rows), evidence, strict=True
        ):
            yield Row(position, candidate, batch.sketch.index, decisions, text)


def choices_json(sketch: Sketch, candidate: Candidate) -> str:
    """A candidate's decisions by variable, as JSON."""
    pairs = zip(sketch.variables, candidate.decisions, strict=True)
    return "{" + ",".join(f"{json.dumps(v.name)}:{_value(decision)}" for v, decision in pairs) + "}"


def number_json(value: float | None) -> str:
    """A number of six digits as JSON; null for none, and for what is not finite."""
    return "null" if value is None or not math.isfinite(value) else f"{value:.6g}"


def evidence_json(evidence: Mapping[str, float]) -> str:
    """Finite numbers by name, as JSON."""
    items = (f"{json.dumps(name)}:{value:.6g}" for name, value in evidence.items() if math.isfinite(value))
    return "{" + ",".join(items) + "}"


def _identities(batch: CandidateBatch, rows: np.ndarray) -> Iterator[tuple[str, str]]:
    """The id and the decisions, as JSON, of some rows of a batch: see `candidate_id`."""
    sketch = batch.sketch
    head = f"{batch.space.task.task_id}|{sketch.sketch_id}|"
    plain, named = [], []
    for v, variable in enumerate(sketch.variables):
        used, which = np.unique(batch.indices[rows, v], return_inverse=True)
        choices = variable.table[used].tolist()
        texts = [",".join(map(str, choice)) for choice in choices]
        name = json.dumps(variable.name)
        values = [f"{name}:{_value(choice)}" for choice in choices]
        which = which.reshape(-1).tolist()
        plain.append([texts[i] for i in which])
        named.append([values[i] for i in which])
    if not sketch.variables:
        plain, named = [[""] * len(rows)], [[""] * len(rows)]
    for texts_of, values_of in zip(zip(*plain, strict=True), zip(*named, strict=True), strict=True):
        identity = hashlib.blake2b((head + ";".join(texts_of)).encode(), digest_size=12).hexdigest()
        yield identity, "{" + ",".join(values_of) + "}"


def _value(decision: Sequence[int]) -> str:
    return str(decision[0]) if len(decision) == 1 else "[" + ",".join(map(str, decision)) + "]"


def _columns(listed: DraftList, number: int) -> dict[str, Float64Array]:
    """What was thought of one batch, by name: scores and latencies, penalties and symbols of the draft."""
    found: dict[str, Float64Array] = {}
    if listed.drafts is not None:
        draft = listed.drafts[number]
        found["draft_score"] = draft.scores
        if draft.latency_secs is not None:
            found["draft_latency_secs"] = draft.latency_secs
        # What costs nothing is not worth a word: a penalty of 1, a term of 0.
        found |= {f"penalty_{name}": np.where(c == 1, np.nan, c) for name, c in draft.penalties.items()}
        found |= {name: np.where(c == 0, np.nan, c) for name, c in draft.symbols.items()}
    if listed.verified is not None:
        verified = listed.verified[number]
        found |= {
            "verify_score": verified.scores,
            "degradation_prob": verified.degradation_prob,
            "skip_above": np.full(len(verified.scores), verified.skip_above),
        }
    return found


def _evidence(columns: Mapping[str, Float64Array], ranks: np.ndarray | None, positions: np.ndarray) -> list[str]:
    """The columns as one JSON object for each row; what is not finite is left out."""
    n = len(positions)
    names, texts = [], []
    if ranks is not None:
        names.append("draft_rank")
        texts.append([f'"draft_rank":{rank}' for rank in ranks[positions].tolist()])
    for name, values in columns.items():
        key = json.dumps(name)
        if np.isfinite(values).all():
            texts.append([f"{key}:{value:.5g}" for value in values.tolist()])
        else:
            texts.append([f"{key}:{value:.5g}" if math.isfinite(value) else "" for value in values.tolist()])
        names.append(name)
    if not texts:
        return ["{}"] * n
    return ["{" + ",".join(filter(None, row)) + "}" for row in zip(*texts, strict=True)]


def _ranks(listed: DraftList) -> np.ndarray | None:
    """The place of each candidate on the list by the draft, 1 for the best, int64 (n,)."""
    if listed.drafts is None or not len(listed.pool):
        return None
    scores = listed.pool.column([draft.scores for draft in listed.drafts])
    ranks = np.empty(len(scores), dtype=np.int64)
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return ranks
