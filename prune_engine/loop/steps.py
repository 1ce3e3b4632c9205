"""One task's search turned inside out: it says what to measure, and is told what came of it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from prune_engine.candidates import Candidate
from prune_engine.errors import TellError
from prune_engine.loop.round_decisions import RoundDecisions, RoundStart
from prune_engine.loop.rounds import Rounds
from prune_engine.loop.task_state import Incumbent, TaskState
from prune_engine.measurement import DEFAULT_CANDIDATE, MeasuredCandidate, MeasureError, Measurement
from prune_engine.pipeline import Pipeline, PruneResult
from prune_engine.verdicts import Outcome, SelectionReason, Stage, Verdict

#: Rounds in a row without a new candidate after which nothing is left.
_MAX_BARREN_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Proposal:
    """A candidate to measure: why it was chosen, and the latency that ``predicted_by`` expects, where one does."""

    candidate: Candidate
    reason: SelectionReason
    why: str
    predicted_secs: float | None
    predicted_by: str | None


@dataclass(frozen=True, slots=True)
class Bench:
    """What measurements that are made elsewhere are stored under."""

    device_name: str
    n_threads: int
    profile_digest: str


@dataclass(slots=True)
class _Round:
    """A choice that was handed out, and what is known of it that nobody learnt yet."""

    result: PruneResult
    incumbent_secs: float | None
    told: list[MeasuredCandidate] = field(default_factory=list)


class Steps:
    """The rounds of one open task, with the measuring left to the caller. Made by `Engine.steps`.

    What is told is stored at once and learnt when candidates are next asked for. Results may come in any order, in
    parts, and after more was asked for. Not thread-safe.
    """

    def __init__(
        self,
        state: TaskState,
        rounds: Rounds,
        pipeline: Pipeline,
        bench: Bench,
        *,
        record: Callable[[TaskState, MeasuredCandidate], None],
        tell: Callable[[TaskState, Sequence[Verdict]], None],
        retire: Callable[[TaskState], None],
        finish: Callable[[], None],
    ) -> None:
        self.state = state
        self._rounds, self._pipeline, self._bench = rounds, pipeline, bench
        self._record, self._tell, self._retire, self._finish = record, tell, retire, finish
        self._pending: dict[str, tuple[Candidate, _Round]] = {}
        self._untaught: list[_Round] = []
        self._is_exhausted = state.space is None

    @property
    def pending(self) -> tuple[Candidate, ...]:
        """What was handed out and not told of yet, in that order."""
        return tuple(candidate for candidate, _ in self._pending.values())

    @property
    def best(self) -> Incumbent | None:
        """The fastest candidate told of, in this run or an earlier one on the store."""
        return self.state.ranking[0] if self.state.ranking else None

    @property
    def stop_reason(self) -> str | None:
        """Why the engine would stop here: exhausted, plateau, converged, transferred; None if it would not."""
        return self.state.stop_reason

    def ask(self, n: int) -> list[Proposal]:
        """At most ``n`` candidates, none of which was handed out before; none if there are no more."""
        self._learn()
        found: list[Proposal] = []
        while len(found) < n and not self._is_exhausted:
            new = self._round(n - len(found))
            found += new
            if new:
                self.state.n_barren_rounds = 0
                continue
            if found:  # the next call finds out whether there are more
                break
            self.state.n_barren_rounds += 1
            is_closed = self.state.stop_reason is not None
            self._retire(self.state)  # which may give back what rules cut
            if self.state.stop_reason == "exhausted" or (
                is_closed and self.state.n_barren_rounds >= _MAX_BARREN_ROUNDS
            ):
                self._is_exhausted = True
        return found

    def tell(
        self,
        candidate_id: str,
        *,
        run_secs: Sequence[float] = (),
        error: MeasureError | None = None,
        trace_json: str | None = None,
    ) -> Measurement:
        """Take in a result: the seconds of one call for each repeat, or how it failed.

        ``trace_json`` is the compiler's text of what ran: with it the schedule can go to a library.

        Raises TellError for a candidate that is not pending, seconds that are no positive numbers, and where there
        is neither a latency nor an error, or both; StoreError if it cannot be stored. Nothing has changed then.
        """
        candidate, of_round = self._known(candidate_id)
        measurement = self._measurement(candidate_id, run_secs, error)
        measured = MeasuredCandidate(candidate, measurement, trace_json)
        self._record(self.state, measured)
        del self._pending[candidate_id]
        of_round.told.append(measured)
        if error is not None:
            reason = f"{error.kind.value}: {error.message}"
            verdict = Verdict(Stage.MEASURE, "workbench", Outcome.FAILED, reason, 1, candidate_id)
            self._tell(self.state, [verdict])
        self._retire(self.state)
        return measurement

    def tell_untuned(self, run_secs: Sequence[float]) -> Measurement:
        """Take in what the untuned kernel takes, once: gains are told against it.

        Raises TellError for seconds that are no positive numbers, and where it is known.
        """
        if self.state.default_secs is not None:
            raise TellError(
                "its result is known already", who="the untuned kernel", got=f"{self.state.default_secs:g} s before"
            )
        measurement = self._measurement(DEFAULT_CANDIDATE, run_secs, None)
        self._record(self.state, MeasuredCandidate(None, measurement))
        return measurement

    def close(self) -> None:
        """Learn what is left and mark the run as finished. What is pending is forgotten."""
        self._learn()
        self._finish()

    def _measurement(self, candidate_id: str, run_secs: Sequence[float], error: MeasureError | None) -> Measurement:
        """A result, if it is one. Raises TellError."""
        secs, who = tuple(float(one) for one in run_secs), f"candidate {candidate_id}"
        if bool(secs) == (error is not None):
            raise TellError(
                "a result is either latencies or an error",
                who=who,
                got="neither" if error is None else "both",
                expected="run_secs=0.0012, or error='...'",
            )
        if wrong := [one for one in secs if not (math.isfinite(one) and one > 0)]:
            raise TellError(
                "no latency",
                who=who,
                got=f"run_secs {wrong[0]!r}",
                expected="seconds of one call, finite and more than 0",
                remedy="Say error='...' of a candidate that failed.",
            )
        return Measurement(
            candidate_id=candidate_id,
            run_secs=secs,
            error=error,
            build_secs=0.0,
            device_name=self._bench.device_name,
            n_threads=self._bench.n_threads,
            profile_digest=self._bench.profile_digest,
            measured_at=time.time(),
        )

    def _known(self, candidate_id: str) -> tuple[Candidate, _Round]:
        if candidate_id in self._pending:
            return self._pending[candidate_id]
        is_told = candidate_id in self.state.known_ids
        raise TellError(
            "its result is known already" if is_told else "was not asked for in this search",
            who=f"candidate {candidate_id}",
            expected=f"one of the {len(self._pending)} that are pending",
            remedy="Each candidate is told once; what the store holds is never asked for again."
            if is_told
            else "After a restart, ask again: what was pending is forgotten.",
        )

    def _round(self, k: int) -> list[Proposal]:
        state = self.state
        before, incumbent_secs = RoundStart.of(state), state.best_secs
        result = self._rounds.choose(state, k)
        if result is None:
            self._is_exhausted = True
            return []
        self._tell(state, result.verdicts)
        self._rounds.mark_seen(state, result)
        decided = RoundDecisions(
            state,
            result,
            [],
            before,
            "",
            scoring=self._pipeline.scoring,
            selector=self._pipeline.selector_name,
        )
        of_round = _Round(result, incumbent_secs)
        self._untaught.append(of_round)
        reasons: Mapping[str, SelectionReason] = {
            candidate.candidate_id: reason
            for candidate, reason in zip(result.candidates, result.reasons, strict=True)
        }
        proposals = []
        for candidate, why, expected in decided.chosen():
            identity = candidate.candidate_id
            if identity in self._pending or identity in state.known_ids:
                continue
            self._pending[identity] = candidate, of_round
            secs, by = (expected.secs, str(json.loads(expected.by_json))) if expected else (None, None)
            proposals.append(Proposal(candidate, reasons[identity], why, secs, by))
        return proposals

    def _learn(self) -> None:
        """Teach what was told since, round by round. Each round's funnel counts once, with its first results."""
        kept = []
        waiting = {id(of_round) for _, of_round in self._pending.values()}
        for of_round in self._untaught:
            if of_round.told:
                self._rounds.learn(self.state, of_round.result, of_round.told, of_round.incumbent_secs)
                of_round.result, of_round.told = replace(of_round.result, funnel=()), []
            if id(of_round) in waiting:
                kept.append(of_round)
        self._untaught = kept
