"""Audits in the loop: how many a round may measure, what they showed, and which rules judge a task no more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prune_engine.audits.rates import switch_off_verdict
from prune_engine.config import EngineConfig
from prune_engine.loop.task_state import TaskState
from prune_engine.measurement import MeasuredCandidate
from prune_engine.pipeline import Pipeline, PruneResult
from prune_engine.stages.shortlist import MAX_AUDIT_SHARE
from prune_engine.store.base import Store, StoredCandidate
from prune_engine.verdicts import SelectionReason, Verdict

#: Why candidates are measured that no explorer proposed and no guess let pass.
_NOT_PROPOSED = (SelectionReason.SEED, SelectionReason.WHITELIST)


class Auditor:
    """Keeps the accounts of every task's audits. ``say`` is told warnings, ``tell`` given verdicts to store."""

    def __init__(
        self,
        pipeline: Pipeline,
        config: EngineConfig,
        store: Store,
        say: Callable[[str], None],
        tell: Callable[[TaskState, Sequence[Verdict]], None],
    ) -> None:
        self._pipeline, self._config, self._store = pipeline, config, store
        self._say, self._tell = say, tell
        #: Tasks of which a candidate ran that every guess let pass.
        self._fruitful: set[str] = set()

    def max_audits(self, state: TaskState) -> int | None:
        """How many audits the next round may measure; None without a limit.

        Over the whole task they are at most 5 % of the trials, or twice the audit fraction if that is more.
        """
        share = max(MAX_AUDIT_SHARE, 2 * self._config.audit_fraction)
        return None if share >= 1 else max(0, int(share * state.n_trials) - state.audits.n_measured)

    def may_overrule(self, state: TaskState) -> bool:
        """Whether guesses must leave something to measure: nothing ran yet that all of them let pass."""
        return state.task.task_id not in self._fruitful

    def note(self, state: TaskState, result: PruneResult, measured: Sequence[MeasuredCandidate]) -> None:
        """Hold what was dropped and measured all the same against what was kept."""
        state.audits.add_drops(result.funnel, self._pipeline.guesses)
        ran = {one.measurement.candidate_id: one.measurement for one in measured}
        for candidate, auditee, reason in zip(result.candidates, result.auditees, result.reasons, strict=True):
            measurement = ran.get(candidate.candidate_id)
            if measurement is None:
                continue
            if auditee is not None:
                state.audits.add(auditee, measurement)
            elif (
                reason not in (SelectionReason.SEED, SelectionReason.WHITELIST)
                and measurement.latency_secs is not None
            ):
                self._fruitful.add(state.task.task_id)
        if result.overruled and ran:
            why = "it leaves nothing of what was proposed"
            self._switch_off(result.overruled, state, why, next(iter(ran)), {})
        self._switch_off_wrong_rules(state)

    def restore(self, state: TaskState, stored: Sequence[StoredCandidate]) -> None:
        """Take in what earlier runs left in the store."""
        state.audits.restore(self._store.verdicts(state.task.task_id), stored, self._pipeline.guesses)
        if state.ranking:
            self._fruitful.add(state.task.task_id)
        for rule in state.audits.off:
            self._give_back(rule, state)

    def give_back_cuts(self, state: TaskState) -> bool:
        """Where nothing can be found in what rules leave of the tables, let them cut none. Returns if any did."""
        rules = self._pipeline.cutting(state.task.task_id) if self.may_overrule(state) else frozenset()
        for rule in sorted(rules):
            self._switch_off(
                rule, state, "nothing could be measured in what it leaves of the choice tables", None, {}
            )
        return bool(rules)

    def _switch_off_wrong_rules(self, state: TaskState) -> None:
        """A heuristic that drops what beats all it keeps judges this task no more."""
        for rule in sorted(self._pipeline.heuristics - state.audits.off):
            loss = state.audits.loss(rule, state.latencies, state.default_secs)
            if loss is not None:
                why = f"it drops a candidate that takes {loss.gain:.0%} less time than all that it keeps"
                self._switch_off(rule, state, why, loss.candidate_id, {"gain": loss.gain})

    def _switch_off(
        self, rule: str, state: TaskState, why: str, candidate_id: str | None, evidence: dict[str, float]
    ) -> None:
        """Let a rule judge a task no more; it is told and stored."""
        state.audits.switch_off(rule, why, candidate_id)
        self._give_back(rule, state)
        self._say(f"warning: {rule} is switched off for {state.task.name}: {why}")
        self._tell(state, [switch_off_verdict(rule, why, candidate_id, evidence)])

    def _give_back(self, rule: str, state: TaskState) -> None:
        """Let a rule judge a task no more; what it cut out of the choice tables comes back."""
        self._pipeline.switch_off(rule, state.task.task_id)
        if state.full_space is not None:
            state.space, _ = self._pipeline.restrict(state.full_space)
