"""The fate of each candidate that a round looked at closely, as lines."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from prune_engine.candidates import Candidate, CandidateBatch, rows_of
from prune_engine.decisions.draft_rows import Row, choices_json, rows_of_list
from prune_engine.decisions.lines import Fate, LineMaker, Prediction
from prune_engine.loop.task_state import Incumbent, TaskState
from prune_engine.measurement import MeasuredCandidate
from prune_engine.pipeline import AUDIT_PREFIX, PruneResult
from prune_engine.stages.draft_list import DraftList
from prune_engine.stages.pool import NOT_AUDITED
from prune_engine.stages.scoring import Scoring
from prune_engine.verdicts import Float64Array, Outcome, SelectionReason, Stage

_NOT_CHOSEN = "not among the chosen"
_SPARED = "dropped; it might have been measured as an audit, but others were"
_REPAIRED = "the compiler repaired another candidate's decisions into these"
#: Why a candidate is measured, in words.
_CHOSEN = {
    SelectionReason.TOP: "among the best by score",
    SelectionReason.EXPLORE: "drawn at random from the draft list",
    SelectionReason.AUDIT: "an audit of what dropped it",
    SelectionReason.PROBE: "drawn for what it teaches",
    SelectionReason.SEED: "transferred",
    SelectionReason.WHITELIST: "on the whitelist",
}


@dataclass(frozen=True, slots=True)
class RoundStart:
    """What was known before a round: the best candidate, and the best latency, the default's included."""

    incumbent: Incumbent | None
    best_secs: float | None

    @staticmethod
    def of(state: TaskState) -> RoundStart:
        """A task as it is now."""
        return RoundStart(state.ranking[0] if state.ranking else None, state.best_secs)


class RoundDecisions:
    """One round of a task. ``why_not`` is why chosen candidates have no measurement, where one has none."""

    def __init__(
        self,
        state: TaskState,
        result: PruneResult,
        measured: Sequence[MeasuredCandidate],
        before: RoundStart,
        why_not: str,
        *,
        scoring: Scoring,
        selector: str,
    ) -> None:
        self._state, self._result, self._before, self._why_not = state, result, before, why_not
        self._scoring, self._selector = scoring, selector
        self._measured = measured
        self._ran = {one.measurement.candidate_id: one for one in measured}
        self._chosen = {
            candidate.candidate_id: reason
            for candidate, reason in zip(result.candidates, result.reasons, strict=True)
        }
        self._fates = _told_fates(result)

    def lines(self, maker: LineMaker, head: str) -> Iterator[str]:
        """A line for each candidate of the draft list, for seeds, and for what else was measured."""
        told: set[str] = set()
        if (listed := self._result.draft_list) is not None:
            by, secs = self._predicted(listed)
            falls, by_json = _Falls(listed, self._result, self._selector), json.dumps(by)
            expectations = [math.nan] * len(listed.pool) if secs is None else secs.tolist()
            for row in rows_of_list(listed):
                told.add(row.candidate)
                fate = self._fates.get(row.candidate) or falls.fate(row)
                expected = expectations[row.position]
                yield self._line(
                    maker, head, row, fate, None if math.isnan(expected) else Prediction(expected, by_json)
                )
        sketches = self._state.bench_space.sketches
        unlisted = [*self._result.candidates, *(one.candidate for one in self._measured if one.candidate)]
        for candidate in unlisted:
            if candidate.candidate_id not in told:
                told.add(candidate.candidate_id)
                sketch = sketches[candidate.sketch_index]
                row = Row(-1, candidate.candidate_id, sketch.index, choices_json(sketch, candidate), "{}")
                repaired = Fate(Stage.MEASURE, "workbench", Outcome.KEPT, _REPAIRED)
                yield self._line(maker, head, row, self._fates.get(candidate.candidate_id, repaired), None)

    def chosen(self) -> Iterator[tuple[Candidate, str, Prediction | None]]:
        """Each candidate that was chosen, why, and the latency that is expected of it, where anybody can say."""
        expected: dict[str, Prediction] = {}
        if (listed := self._result.draft_list) is not None:
            by, secs = self._predicted(listed)
            latencies = [] if secs is None else secs.tolist()
            for row in rows_of_list(listed) if latencies else ():
                if row.candidate in self._chosen and not math.isnan(latencies[row.position]):
                    expected[row.candidate] = Prediction(latencies[row.position], json.dumps(by))
        for candidate in self._result.candidates:
            fate = self._fates.get(candidate.candidate_id)
            why = fate.reason if fate else self._chosen[candidate.candidate_id].value
            yield candidate, why, expected.get(candidate.candidate_id)

    def _line(self, maker: LineMaker, head: str, row: Row, fate: Fate, prediction: Prediction | None) -> str:
        selected_as, one = self._chosen.get(row.candidate), self._ran.get(row.candidate)
        if selected_as is not None and one is None:
            fate = Fate(Stage.MEASURE, "workbench", Outcome.SKIPPED, self._why_not)
        elif one is not None and one.measurement.error is not None:
            fate = Fate(Stage.MEASURE, "workbench", Outcome.FAILED, one.measurement.error.kind.value)
        return maker.of_candidate(
            head,
            fate,
            row,
            selected_as=selected_as,
            prediction=prediction,
            best_secs=self._before.best_secs,
            measured=one.measurement if one else None,
        )

    def _predicted(self, listed: DraftList) -> tuple[str, Float64Array | None]:
        """Who expected what latency of each position, float64 (n,), NaN where nothing is known.

        The trained verifier, else the draft. Either is held against what it says of the best candidate, whose
        latency is known; without one, or without a latency of its own, the draft is taken at its word.
        """
        pool, scoring, best = listed.pool, self._scoring, self._before.incumbent
        if not len(pool):
            return "", None
        known = self._incumbent_batch()
        try:
            if listed.verified is not None and scoring.verifier is not None and known is not None and best:
                raw = [
                    scoring.without_building(batch, one.scores)
                    for batch, one in zip(pool.batches, listed.verified, strict=True)
                ]
                mine = scoring.verify(known)
                if mine is not None and mine.is_trained and mine.scores[0] > 0:
                    with np.errstate(divide="ignore"):
                        secs = best.latency_secs * mine.scores[0] / pool.column(raw)
                    return scoring.verifier.name, np.where(np.isfinite(secs), secs, math.nan)
            if listed.drafts is None or scoring.draft_scorer is None:
                return "", None
            latencies = [
                np.full(len(draft.scores), math.nan) if draft.latency_secs is None else draft.latency_secs
                for draft in listed.drafts
            ]
            mine_drafted = scoring.draft(known) if known is not None else None
            factor = 1.0
            if best and mine_drafted is not None and mine_drafted.latency_secs is not None:
                factor = best.latency_secs / float(mine_drafted.latency_secs[0])
            return scoring.draft_scorer.name, factor * pool.column(latencies)
        finally:
            scoring.forget()

    def _incumbent_batch(self) -> CandidateBatch | None:
        """The best candidate as a batch, if the space has it."""
        space, best = self._state.space, self._before.incumbent
        if space is None or best is None or best.candidate.sketch_index >= len(space.sketches):
            return None
        sketch = space.sketches[best.candidate.sketch_index]
        rows = rows_of(sketch, best.candidate.decisions)
        return None if rows is None else CandidateBatch(space, sketch, rows[None, :])


class _Falls:
    """What became of candidates of a draft list that nobody chose and no compiler refused."""

    def __init__(self, listed: DraftList, result: PruneResult, selector: str) -> None:
        told = next((v for v in result.verdicts if v.stage is Stage.VERIFY and v.outcome is Outcome.DROPPED), None)
        self._skipped = Fate(Stage.VERIFY, told.strategy, Outcome.DROPPED, told.reason) if told else None
        self._left = Fate(Stage.SELECT, selector, Outcome.SKIPPED, _NOT_CHOSEN)
        self._audited = [Fate(stage, name, Outcome.DROPPED, _SPARED) for stage, name in listed.pool.auditees]
        self._is_skipped, self._audits = listed.is_skipped.tolist(), listed.pool.audits.tolist()

    def fate(self, row: Row) -> Fate:
        if self._is_skipped[row.position] and self._skipped is not None:
            return self._skipped
        audit = self._audits[row.position]
        return self._left if audit == NOT_AUDITED else self._audited[audit]


def _told_fates(result: PruneResult) -> Mapping[str, Fate]:
    """What verdicts say of single candidates: why they were chosen, or what the compiler refused."""
    fates: dict[str, Fate] = {}
    audited: dict[str, str] = {}
    reasons: dict[str, SelectionReason] = {
        candidate.candidate_id: reason for candidate, reason in zip(result.candidates, result.reasons, strict=True)
    }
    for verdict in result.verdicts:
        identity = verdict.candidate_id
        if identity is None:
            continue
        if verdict.stage is Stage.MEASURE:
            fates[identity] = Fate(verdict.stage, verdict.strategy, verdict.outcome, verdict.reason)
        elif verdict.stage is Stage.SELECT:
            chosen = reasons.get(identity)
            why = _CHOSEN[chosen] if chosen is not None else verdict.reason
            if chosen in (SelectionReason.SEED, SelectionReason.WHITELIST):  # which say more: from where, by whom
                why = verdict.reason.replace(chosen.value, _CHOSEN[chosen], 1)
            if identity in audited:
                why = audited[identity]
            fates[identity] = Fate(verdict.stage, verdict.strategy, verdict.outcome, why)
        elif verdict.reason.startswith(AUDIT_PREFIX):
            audited[identity] = f"{verdict.strategy}: {verdict.reason}"
    return fates
