"""Stages 1 to 4 on anyone's batch: what is kept, why the rest is not, and in which order to try it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch
from prune_engine.errors import ConfigError
from prune_engine.funnel import Funnel, FunnelStep
from prune_engine.own_kernels.given import work_out_given
from prune_engine.pipeline import Pipeline
from prune_engine.space import DesignSpace
from prune_engine.symbols.table import SymbolDef
from prune_engine.verdicts import BoolArray, Float64Array, Outcome, Stage, Verdict

#: Candidates that are judged and scored at a time, so that memory stays flat.
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Pruned:
    """What the strategies say of a batch of n candidates.

    ``kept`` bool (n,): those that no rule drops; ``legal`` bool (n,): those that no LEGALITY rule drops, which can
    run as far as anybody knows. ``order`` int64 (m,): positions of the kept, best first. ``scores`` float64 (n,),
    higher is better, 0 for the dropped; they are those of ``ranked_by``, None where nothing tells the candidates
    apart: they are in the order given then. ``latency_secs`` float64 (n,) is the draft's, NaN for the dropped; None
    if the draft had too little to go by. ``verdicts`` count the dropped by rule, with the reason of the first;
    ``dropped_by`` has, by rule, bool (n,): each candidate is dropped by the first rule that does. ``funnel`` has a
    step per rule that was asked. ``unread`` names given symbols that nobody read; ``failures`` says, by strategy,
    why one was done without.
    """

    kept: BoolArray
    legal: BoolArray
    order: NDArray[np.int64]
    scores: Float64Array
    latency_secs: Float64Array | None
    ranked_by: str | None
    verdicts: tuple[Verdict, ...]
    dropped_by: Mapping[str, BoolArray]
    funnel: tuple[FunnelStep, ...]
    unread: tuple[str, ...]
    failures: Mapping[str, str]
    _why: Mapping[str, Stage] = field(repr=False)
    _batch: CandidateBatch = field(repr=False)
    _pipeline: Pipeline = field(repr=False)

    def __len__(self) -> int:
        return len(self.kept)

    @property
    def n_kept(self) -> int:
        """How many are kept."""
        return int(self.kept.sum())

    def verdict(self, row: int) -> Verdict:
        """What became of one candidate, with the numbers that decided it. Not for hot paths."""
        candidate = self._batch.candidate(row)
        for rule, dropped in self.dropped_by.items():
            if dropped[row]:
                stage = self._why[rule]
                reason, evidence = self._pipeline.why_dropped(stage, rule, self._batch, row) or (rule, {})
                return Verdict(stage, rule, Outcome.DROPPED, reason, 1, candidate.candidate_id, evidence)
        evidence = {"score": float(self.scores[row])}
        if self.latency_secs is not None:
            evidence["latency_secs"] = float(self.latency_secs[row])
        by = self.ranked_by or "engine"
        return Verdict(Stage.DRAFT, by, Outcome.KEPT, "no rule drops it", 1, candidate.candidate_id, evidence)


def pruned(
    pipeline: Pipeline, symbols: Mapping[str, SymbolDef], batch: CandidateBatch, failures: Mapping[str, str]
) -> Pruned:
    """Ask the rules, then the trained verifier or else the draft, about a batch. Nothing is audited.

    ``symbols`` are the registered ones. ``failures`` is read at the end. Raises ConfigError for a given symbol
    that cannot be computed.
    """
    funnel, left = Funnel(), dict[str, DesignSpace]()
    space, _ = pipeline.restrict(replace(batch.space, symbols=symbols), funnel, None, left)
    batch = CandidateBatch(space, space.sketches[batch.sketch.index], batch.indices)
    read = work_out_given(batch)
    n = len(batch)
    drops = _cut(left, batch)
    why = dict.fromkeys(drops, Stage.TASK_SPACE)
    kept = _in_none(drops.values(), n)
    legal = _in_none((dropped for name, dropped in drops.items() if name not in pipeline.heuristics), n)
    scores, latency = np.zeros(n), np.full(n, np.nan)
    has_latency, ranked_by = True, set[str | None]()
    for rows in _chunks(n):
        part = batch.take(rows)
        of_rules: dict[str, BoolArray] = {}
        part_legal, part_kept = pipeline.judge(part, funnel, of_rules)
        for name, dropped in of_rules.items():
            # Who is outside the tables was dropped before.
            drops.setdefault(name, np.zeros(n, dtype=np.bool_))[rows] |= dropped & kept[rows]
            why.setdefault(name, Stage.RULE)
        legal[rows] &= part_legal
        kept[rows] &= part_kept
        living = rows[kept[rows]]
        if len(living):
            part = batch.take(living)
            scores[living], of_draft, by = _scored(pipeline, part)
            ranked_by.add(by)
            if of_draft is None:
                has_latency = False
            else:
                latency[living] = of_draft
        pipeline.scoring.forget()
    drops = {name: dropped for name, dropped in drops.items() if dropped.any()}
    is_ranked = len(ranked_by - {None}) == 1 and None not in ranked_by and len(np.unique(scores[kept])) > 1
    living = np.flatnonzero(kept)
    return Pruned(
        kept=kept,
        legal=legal,
        order=living[np.argsort(-scores[living], kind="stable")] if is_ranked else living,
        scores=scores,
        latency_secs=latency if has_latency and len(living) else None,
        ranked_by=next(iter(ranked_by)) if is_ranked else None,
        verdicts=tuple(_counted(pipeline, batch, drops, why)),
        dropped_by=drops,
        funnel=funnel.steps,
        unread=tuple(name for name in batch.space.given if name not in read),
        failures=dict(failures),
        _why=why,
        _batch=batch,
        _pipeline=pipeline,
    )


def batch_in(space: DesignSpace, batch: CandidateBatch) -> CandidateBatch:
    """The candidates in a space, with the symbols that either gives. Raises ConfigError if they are of another."""
    number = batch.sketch.index
    if not isinstance(space, DesignSpace):
        raise ConfigError(
            "is no space", who="space", got=repr(space)[:80], expected="a DesignSpace, as own_space's"
        )
    is_same = batch.space.task.task_id == space.task.task_id and number < len(space.sketches)
    if not is_same or space.sketches[number].sketch_id != batch.sketch.sketch_id:
        raise ConfigError(
            "are of another space",
            who=f"candidates of {batch.space.task.name!r}",
            expected=f"candidates of the space {space.task.name!r} that they are to be judged in",
        )
    home = replace(space, given={**space.given, **batch.space.given})
    return CandidateBatch(home, home.sketches[number], batch.indices)


def _scored(pipeline: Pipeline, batch: CandidateBatch) -> tuple[Float64Array, Float64Array | None, str | None]:
    """Scores (n,), the draft's latency (n,), and whose the scores are: the trained verifier's, else the draft's."""
    scoring = pipeline.scoring
    draft, verified = scoring.draft(batch), scoring.verify(batch)
    latency = None if draft is None else draft.latency_secs
    if verified is not None and verified.is_trained and scoring.verifier is not None:
        return verified.scores, latency, scoring.verifier.name
    if draft is not None and scoring.draft_scorer is not None and (latency is not None or np.ptp(draft.scores) > 0):
        return draft.scores, latency, scoring.draft_scorer.name
    return np.ones(len(batch)), None, None


def _cut(left: Mapping[str, DesignSpace], batch: CandidateBatch) -> dict[str, BoolArray]:
    """By rule, the candidates with a row that it cut out of the tables and that those before it left, bool (n,)."""
    drops: dict[str, BoolArray] = {}
    inside = np.ones(len(batch), dtype=np.bool_)
    for name, space in left.items():
        allowed = space.sketches[batch.sketch.index].allows(batch.indices)
        drops[name], inside = inside & ~allowed, inside & allowed
    return drops


def _in_none(masks: Iterable[BoolArray], n: int) -> BoolArray:
    keep = np.ones(n, dtype=np.bool_)
    for mask in masks:
        keep &= ~mask
    return keep


def _chunks(n: int) -> Iterator[NDArray[np.int64]]:
    for start in range(0, n, _CHUNK):
        yield np.arange(start, min(start + _CHUNK, n), dtype=np.int64)


def _counted(
    pipeline: Pipeline, batch: CandidateBatch, drops: Mapping[str, BoolArray], why: Mapping[str, Stage]
) -> Iterator[Verdict]:
    for name, dropped in drops.items():
        found = pipeline.why_dropped(why[name], name, batch, int(dropped.argmax()))
        reason, evidence = found or (name, {})
        yield Verdict(why[name], name, Outcome.DROPPED, reason, int(dropped.sum()), None, evidence)
