"""What measuring a share of the drops tells about the strategies that guess: how often they drop a winner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from prune_engine.census import Share, share_of
from prune_engine.funnel import FunnelStep
from prune_engine.measurement import Measurement
from prune_engine.pipeline import AUDIT_PREFIX
from prune_engine.stages.pool import Auditee
from prune_engine.store.base import StoredCandidate
from prune_engine.verdicts import Outcome, Stage, Verdict

#: Single measurements that differ by less are no different: the moods of a machine between them.
_NOISE = 0.05
#: Measured candidates that a rule keeps before their best is something to hold against what it drops.
_MIN_KEPT = 16
#: Of n trials without a success a share of up to 3 / n is plausible at 95 % (the rule of three).
_RULE_OF_THREE = 3.0
_OFF_PREFIX = "switched off: "
_RULE_STAGES = (Stage.TASK_SPACE, Stage.RULE)
_AUDITED_STAGES = (*_RULE_STAGES, Stage.DRAFT, Stage.VERIFY)


@dataclass(frozen=True, slots=True)
class AuditReport:
    """One strategy's drops of one task, or of several.

    Of ``n_dropped`` candidates ``n_measured`` were measured all the same. ``n_winners`` of those were no slower
    than 1.05 times the best of the task in the end, which is as good as it within the noise of single
    measurements, or beat so much of what a rule keeps that it was switched off; a failure, and what was stopped
    early for being slow, is no winner. ``switched_off`` says why a rule judges this task no more, "" if it does.
    """

    stage: Stage
    strategy: str
    n_dropped: int
    n_measured: int
    n_winners: int
    switched_off: str = ""

    @property
    def false_prune(self) -> Share | None:
        """The share of winners in what it drops, with Wilson's interval; None without an audit."""
        return share_of(self.n_winners, self.n_measured, is_exact=False)

    @property
    def at_most(self) -> float | None:
        """Where none of the audits won, the share of winners that can be ruled out: more than 3 / n (95 %)."""
        if self.n_winners or not self.n_measured:
            return None
        return min(1.0, _RULE_OF_THREE / self.n_measured)


@dataclass(frozen=True, slots=True)
class Loss:
    """A candidate that a rule drops and that beats all it keeps, by ``gain``: 0.1 is a tenth less time."""

    candidate_id: str
    gain: float


class AuditLog:
    """The drops and audits of one task."""

    def __init__(self) -> None:
        self._n_dropped: Counter[Auditee] = Counter()
        #: Latency by candidate, None for a failure or what is no full measurement.
        self._audited: dict[Auditee, dict[str, float | None]] = {}
        self._switched_off: dict[str, str] = {}
        #: What rules were switched off for.
        self._losses: set[str] = set()

    def add_drops(self, funnel: Sequence[FunnelStep], guesses: Collection[str]) -> None:
        """Count what the strategies named ``guesses`` dropped in a round, audits included."""
        for step in funnel:
            if step.strategy in guesses and step.stage in _AUDITED_STAGES and step.n_in > step.n_out:
                self._n_dropped[step.stage, step.strategy] += step.n_in - step.n_out

    def add_cuts(self, verdicts: Sequence[Verdict], guesses: Collection[str]) -> None:
        """Count what the rules named ``guesses`` cut out of the space before it was searched."""
        for verdict in verdicts:
            if verdict.strategy in guesses and verdict.stage is Stage.TASK_SPACE:
                self._n_dropped[verdict.stage, verdict.strategy] = verdict.count

    def add(self, auditee: Auditee, measurement: Measurement) -> None:
        """Take in an audit that was measured."""
        self._audited.setdefault(auditee, {})[measurement.candidate_id] = _comparable_secs(measurement)

    def restore(
        self, verdicts: Sequence[Verdict], stored: Sequence[StoredCandidate], guesses: Collection[str]
    ) -> None:
        """Take in what earlier runs left in a store: a task's verdicts, and what was measured on this device.

        Drops are counted over all devices, without the few that were spared for an audit and not chosen.
        """
        known = {row.candidate_id: row.measurement for row in stored}
        for verdict in verdicts:
            auditee = verdict.stage, verdict.strategy
            if verdict.strategy not in guesses or verdict.stage not in _AUDITED_STAGES:
                continue
            if is_switch_off(verdict) and verdict.candidate_id in known:
                self.switch_off(verdict.strategy, verdict.reason.removeprefix(_OFF_PREFIX), verdict.candidate_id)
            is_audit = verdict.outcome is Outcome.KEPT and verdict.reason.startswith(AUDIT_PREFIX)
            if (verdict.outcome is Outcome.DROPPED or is_audit) and verdict.stage is not Stage.TASK_SPACE:
                self._n_dropped[auditee] += verdict.count
            if is_audit and verdict.candidate_id in known:
                self.add(auditee, known[verdict.candidate_id])

    def loss(self, rule: str, ranking: Sequence[tuple[str, float]], default_secs: float | None) -> Loss | None:
        """What a rule costs by measurement; None if nothing beyond noise, or too little is known.

        ``ranking`` holds the comparable candidates and their latencies, best first.
        """
        both = [self._audited.get((stage, rule), {}) for stage in _RULE_STAGES]
        audited = {identity: secs for part in both for identity, secs in part.items() if secs is not None}
        kept = [secs for identity, secs in ranking if identity not in audited]
        if not audited or len(kept) < _MIN_KEPT:
            return None
        best = min(audited, key=lambda identity: audited[identity])
        gain = 1 - audited[best] / min(kept[0], default_secs or kept[0])
        return Loss(best, gain) if gain > _NOISE else None

    def switch_off(self, rule: str, why: str, candidate_id: str | None) -> None:
        """Note that a rule judges this task no more, maybe because of a candidate that it drops."""
        self._switched_off[rule] = why
        if candidate_id is not None:
            self._losses.add(candidate_id)

    @property
    def n_measured(self) -> int:
        """Candidates that were measured as audits."""
        return len(set().union(*self._audited.values()))

    @property
    def off(self) -> frozenset[str]:
        """The rules that judge this task no more."""
        return frozenset(self._switched_off)

    def reports(self, best_secs: float | None) -> tuple[AuditReport, ...]:
        """A report on each strategy that dropped something or was switched off, in the order of the stages."""
        auditees = {*self._n_dropped, *self._audited}
        known = {strategy for _, strategy in auditees}
        auditees |= {(Stage.RULE, rule) for rule in self._switched_off if rule not in known}
        ordered = sorted(auditees, key=lambda auditee: (_place(auditee[0]), auditee[1]))
        return tuple(self._report(auditee, best_secs) for auditee in ordered)

    def _report(self, auditee: Auditee, best_secs: float | None) -> AuditReport:
        stage, strategy = auditee
        latencies = self._audited.get(auditee, {})
        limit = (best_secs or 0.0) * (1 + _NOISE)
        return AuditReport(
            stage=stage,
            strategy=strategy,
            n_dropped=max(self._n_dropped[auditee], len(latencies)),
            n_measured=len(latencies),
            n_winners=sum(
                (secs is not None and secs <= limit) or identity in self._losses
                for identity, secs in latencies.items()
            ),
            switched_off=self._switched_off.get(strategy, "") if stage in _RULE_STAGES else "",
        )


def switch_off_verdict(rule: str, why: str, candidate_id: str | None, evidence: Mapping[str, float]) -> Verdict:
    """What a store is told of a rule that judges a task no more; ``candidate_id`` is what showed it."""
    return Verdict(Stage.RULE, rule, Outcome.FAILED, f"{_OFF_PREFIX}{why}", 1, candidate_id, evidence)


def is_switch_off(verdict: Verdict) -> bool:
    """Whether a verdict says that a rule judges a task no more; it is on the candidate that showed it."""
    return (
        verdict.stage is Stage.RULE and verdict.outcome is Outcome.FAILED and verdict.reason.startswith(_OFF_PREFIX)
    )


def merged(reports: Sequence[AuditReport]) -> tuple[AuditReport, ...]:
    """The reports of several tasks, one per strategy, in the order of the stages."""
    found: dict[Auditee, list[AuditReport]] = {}
    for report in reports:
        found.setdefault((report.stage, report.strategy), []).append(report)
    return tuple(
        AuditReport(
            stage=stage,
            strategy=strategy,
            n_dropped=sum(r.n_dropped for r in parts),
            n_measured=sum(r.n_measured for r in parts),
            n_winners=sum(r.n_winners for r in parts),
            switched_off="; ".join(r.switched_off for r in parts if r.switched_off),
        )
        for (stage, strategy), parts in sorted(found.items(), key=lambda item: (_place(item[0][0]), item[0][1]))
    )


def _place(stage: Stage) -> int:
    return _AUDITED_STAGES.index(stage)


def _comparable_secs(measurement: Measurement) -> float | None:
    return None if measurement.is_censored else measurement.latency_secs
