"""Stages 1 to 5 over batches: restrict, mask, draft, verify, select. Pure: no I/O, no plugin manager, no compiler.

A strategy that raises or breaks its contract is reported to ``on_failure`` and its stage does nothing: a
failing rule keeps everything (a LEGALITY rule fails open, the compiler still checks), a failing draft or
verifier scores nothing, a failing selector takes the best by score.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

import numpy as np

from prune_engine import contracts
from prune_engine.candidates import Candidate, CandidateBatch, SeenRows
from prune_engine.config import EngineConfig
from prune_engine.contracts import STRATEGY_FAILURES
from prune_engine.funnel import Funnel, FunnelStep
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.space import DesignSpace
from prune_engine.stages.draft_list import DraftList
from prune_engine.stages.masking import Masking
from prune_engine.stages.pool import Auditee, Pool
from prune_engine.stages.scoring import Scoring
from prune_engine.stages.selecting import with_few_audits
from prune_engine.stages.shortlist import Shortlist, Shortlister
from prune_engine.stages.standing import OnFailure, Standing
from prune_engine.stages.vetting import Refusal, Vetted, vetted
from prune_engine.strategies import DraftScorer, Rule, SelectionPool, Selector, Strategy, Verifier
from prune_engine.verdicts import (
    BoolArray,
    Float64Array,
    Outcome,
    RuleKind,
    Selection,
    SelectionReason,
    Stage,
    Verdict,
)

P = ParamSpec("P")
T = TypeVar("T")

#: What the verdict on an audit begins with: why it was dropped follows.
AUDIT_PREFIX = "dropped, measured as an audit"
_DRAFTED = "its latency by the draft, and the penalties in it"
#: Rows that fitness is computed of at a time, so that memory stays flat.
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class PruneResult:
    """What survives a round, best first, with the reason each is measured, and a verdict on all that does not.

    Every candidate proposed, audits of cut rows included, is counted exactly once: by a verdict that is DROPPED or
    SKIPPED, or by one of SELECT that is KEPT. An audit that is measured has a KEPT verdict of what dropped it
    besides, and ``auditees[i]`` names that strategy; it is None for what is no audit. ``funnel`` has a step for
    every strategy that was asked, also for one that dropped nothing. ``is_hopeless`` says that the verifier thinks
    none of what reached it worth measuring: what is measured are its best guesses all the same. ``overruled`` names
    a rule that would have left nothing to measure, so that what it drops was kept. ``draft_list`` tells of each
    candidate that was looked at closely.
    """

    candidates: tuple[Candidate, ...]
    reasons: tuple[SelectionReason, ...]
    verdicts: tuple[Verdict, ...]
    n_proposed: int
    n_unseen: int
    seconds: float
    funnel: tuple[FunnelStep, ...] = ()
    auditees: tuple[Auditee | None, ...] = ()
    is_hopeless: bool = False
    refused: tuple[Candidate, ...] = ()
    overruled: str | None = None
    draft_list: DraftList | None = None

    @classmethod
    def of_choice(
        cls,
        candidates: Sequence[Candidate],
        reason: SelectionReason,
        verdicts: Sequence[Verdict],
        seconds: float,
    ) -> PruneResult:
        """A round whose candidates no stage chose: transferred seeds, whitelisted schedules."""
        n = len(candidates)
        return cls(
            candidates=tuple(candidates),
            reasons=(reason,) * n,
            verdicts=tuple(verdicts),
            n_proposed=n,
            n_unseen=n,
            seconds=seconds,
            auditees=(None,) * n,
        )


class Pipeline:
    """The strategies in the engine's order.

    Between rounds it remembers only which of them are not used any more, and the reason each rule gave for its
    first drop of each task. ``scoring`` asks the draft and the verifier.
    """

    def __init__(
        self,
        *,
        rules: Sequence[Rule],
        draft_scorer: DraftScorer | None,
        verifier: Verifier | None,
        selector: Selector,
        profile: HardwareProfile,
        config: EngineConfig,
        on_failure: OnFailure,
    ) -> None:
        """Order the rules: LEGALITY before HEURISTIC, then by declared order, then by name."""
        self._selector, self._config = selector, config
        self._standing = Standing(on_failure, config.strategy_limit_secs)
        self._masking = Masking(rules, profile, config, self._standing)
        self.scoring = Scoring(draft_scorer, verifier, profile, self._standing, config.build_aversion)
        self._shortlister = Shortlister(self.scoring, config)

    @property
    def guesses(self) -> frozenset[str]:
        """The names of the strategies whose drops are audited."""
        judges = (self.scoring.draft_scorer, self.scoring.verifier)
        return self._masking.heuristics | {judge.name for judge in judges if judge is not None}

    @property
    def heuristics(self) -> frozenset[str]:
        """The names of the rules that are guesses."""
        return self._masking.heuristics

    @property
    def selector_name(self) -> str:
        """The name of the selector."""
        return self._selector.name

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, in the order in which they are asked."""
        return self._masking.rules

    def rule(self, name: str) -> Rule | None:
        """The rule of that name, None if there is none."""
        return self._masking.rule(name)

    def example(self, rule_name: str, task_id: str) -> Candidate | None:
        """The first candidate of a task that a rule dropped: the reason of its verdicts is that of this one."""
        return self._masking.example(rule_name, task_id)

    def first_reason(self, rule_name: str, task_id: str) -> str | None:
        """Why a rule dropped the first candidate of a task that it dropped; None if it dropped none."""
        return self._masking.first_reason(rule_name, task_id)

    def table_reason(self, rule_name: str) -> str | None:
        """Why a rule cuts rows out of choice tables; None if there is no such rule."""
        return self._masking.table_reason(rule_name)

    def ask(self, strategy: Strategy, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function of a strategy, see `call_guard.call`."""
        return self._standing.ask(strategy, function, *args, **kwargs)

    def is_active(self, strategy: Strategy) -> bool:
        """Whether a strategy is still used: it never failed."""
        return self._standing.is_active(strategy)

    def set_aside(self, strategy: Strategy, error: BaseException) -> None:
        """Use a strategy no more in this run, and report why."""
        self._standing.set_aside(strategy, error)

    def switch_off(self, rule_name: str, task_id: str) -> None:
        """Let a rule judge no more candidates of a task. ``restrict`` gives back what it cut out of the tables."""
        self._standing.switch_off(rule_name, task_id)

    def restrict(
        self,
        space: DesignSpace,
        funnel: Funnel | None = None,
        only: RuleKind | None = None,
        left: dict[str, DesignSpace] | None = None,
    ) -> tuple[DesignSpace, tuple[Verdict, ...]]:
        """Stage 1: cut rows out of the choice tables; one verdict per rule that cut something.

        ``funnel`` is given a step for each rule that overrides ``restrict``; with ``only`` no rule of another kind
        is asked. ``left`` is given what each rule that cut something leaves of the space, in order.
        """
        return self._masking.restrict(space, funnel, only, left)

    def cutting(self, task_id: str) -> frozenset[str]:
        """The names of the guesses that cut rows out of a task's choice tables and still judge it."""
        return self._masking.cutting(task_id)

    def judge(
        self, batch: CandidateBatch, funnel: Funnel | None = None, drops: dict[str, BoolArray] | None = None
    ) -> tuple[BoolArray, BoolArray]:
        """Stage 2 without audits: what the LEGALITY rules keep, and what all rules keep, bool (n,) each.

        ``funnel`` is given a step for each rule that masks and had anything left to judge, ``drops`` what each rule
        that dropped something dropped, bool (n,).
        """
        return self._masking.judge(batch, funnel, drops)

    def why_dropped(
        self, stage: Stage, rule_name: str, batch: CandidateBatch, row: int
    ) -> tuple[str, dict[str, float]] | None:
        """The reason of a rule for a candidate that it dropped, and what it read; None if there is no such rule."""
        return self._masking.why_dropped(stage, rule_name, batch, row)

    def fitness(self, batch: CandidateBatch) -> Float64Array:
        """What an explorer may climb on, float64 (n,), >= 0: 0 where a rule drops the candidate.

        For the others the trained verifier's score, else the draft's, else 1.
        """
        fitness = np.zeros(len(batch))
        for start in range(0, len(batch), _CHUNK):
            chunk = batch if len(batch) <= _CHUNK else batch.take(np.arange(start, min(start + _CHUNK, len(batch))))
            keep = self._masking.kept(chunk)
            kept = chunk if keep.all() else chunk.take(keep)
            if len(kept):
                fitness[start : start + len(chunk)][keep] = self.scoring.fitness(kept)
        self.scoring.forget()
        return fitness

    def run(
        self,
        proposals: Sequence[CandidateBatch],
        probes: Sequence[CandidateBatch],
        k: int,
        seen: SeenRows,
        rng: np.random.Generator,
        refusal: Refusal | None = None,
        *,
        may_add_audits: bool = True,
        max_audits: int | None = None,
        may_overrule: bool = False,
    ) -> PruneResult:
        """Stages 2 to 5 on one round's proposals: choose at most ``k`` candidates that were not seen before.

        ``probes`` are chosen first, whatever guesses say of them.

        ``refusal`` is asked about those that are chosen and that only the compiler can judge; what it does not
        take is replaced. Without it nobody is asked. With ``may_add_audits`` a few candidates are added that have a
        row which a heuristic cut out of the tables. At most ``max_audits`` audits are chosen, None sets no limit.
        With ``may_overrule`` heuristics that leave no proposal at all are not followed as far as that.
        """
        started = time.perf_counter()
        funnel = Funnel()
        cut = self._table_audits(proposals, rng, may_add_audits and self._config.audit_tables)
        everything = (*probes, *proposals, *(batch for _, batch in cut))
        batches = _without_repeats(everything, seen)
        n_proposed = sum(map(len, everything))
        n_unseen = sum(map(len, batches))
        verdicts: list[Verdict] = []
        if n_unseen < n_proposed:
            reason = "measured before, or proposed twice"
            verdicts.append(Verdict(Stage.RULE, "engine", Outcome.SKIPPED, reason, n_proposed - n_unseen))
        masked, overruled = self._masking.mask(
            batches, [rule for rule, _ in cut], len(probes), rng, verdicts, funnel, may_overrule=may_overrule
        )
        listed = self._shortlister.shorten(masked, k, rng, verdicts, funnel)
        self.scoring.forget()
        chosen = self._selected(listed, k, rng, funnel, refusal, max_audits)
        n_listed, listed, selection = len(listed.pool), chosen.listed, chosen.selection
        verdicts += chosen.verdicts
        candidates = tuple(listed.pool.candidate(i) for i in selection.indices)
        verdicts += self._kept(listed, selection, candidates)
        if left := n_listed - len(candidates) - len(chosen.refused):
            reason = "not among the chosen"
            verdicts.append(Verdict(Stage.SELECT, self._selector.name, Outcome.SKIPPED, reason, left))
        return PruneResult(
            candidates=candidates,
            reasons=selection.reasons,
            verdicts=tuple(verdicts),
            n_proposed=n_proposed,
            n_unseen=n_unseen,
            seconds=time.perf_counter() - started,
            funnel=funnel.steps,
            auditees=tuple(listed.pool.auditee(int(i)) for i in selection.indices),
            is_hopeless=listed.is_hopeless,
            refused=tuple(candidate for candidate, _ in chosen.refused),
            overruled=overruled,
            draft_list=listed.draft_list,
        )

    def _table_audits(
        self, proposals: Sequence[CandidateBatch], rng: np.random.Generator, may_add: bool
    ) -> list[tuple[str, CandidateBatch]]:
        """A few candidates with a row that a heuristic cut out of a table, by the rule's name."""
        n = int(rng.binomial(min(self._config.draft_size, sum(map(len, proposals))), self._config.audit_fraction))
        return self._masking.table_audits(proposals, n if may_add else 0, rng)

    def _selected(
        self,
        listed: Shortlist,
        k: int,
        rng: np.random.Generator,
        funnel: Funnel,
        refusal: Refusal | None,
        max_audits: int | None,
    ) -> Vetted:
        """Stage 5."""
        started = time.perf_counter()

        def choose(pool: SelectionPool) -> Selection:
            if max_audits is None:
                return self._choice(pool, k, rng)
            return with_few_audits(pool, max_audits, lambda part: self._choice(part, k, rng))

        chosen = Vetted(listed, choose(listed.choice)) if refusal is None else vetted(listed, k, choose, refusal)
        seconds, n_out = time.perf_counter() - started, len(chosen.selection.indices)
        funnel.add(FunnelStep(Stage.SELECT, self._selector.name, len(listed.pool), n_out, seconds))
        return chosen

    def _choice(self, pool: SelectionPool, k: int, rng: np.random.Generator) -> Selection:
        if not len(pool) or not k:
            return Selection(np.empty(0, dtype=np.int64), ())
        if self.is_active(self._selector):
            try:
                chosen = self.ask(self._selector, self._selector.select, pool, k, rng)
                return contracts.check_selection(self._selector.name, chosen, len(pool), k)
            except STRATEGY_FAILURES as error:  # the plugin boundary: recorded, not swallowed
                self.set_aside(self._selector, error)
        best = np.argsort(-pool.scores, kind="stable")[:k].astype(np.int64)
        reasons = (SelectionReason.AUDIT if pool.is_audit[i] else SelectionReason.TOP for i in best)
        return Selection(best, tuple(reasons))

    def _kept(self, listed: Shortlist, selection: Selection, candidates: Sequence[Candidate]) -> list[Verdict]:
        """Verdicts on the chosen: what the draft thought of each, what dropped an audit, why it was selected."""
        pool, choice, scorer = listed.pool, listed.choice, self.scoring.draft_scorer
        verdicts: list[Verdict] = []
        for i, candidate, reason in zip(selection.indices, candidates, selection.reasons, strict=True):
            identity = candidate.candidate_id
            auditee = pool.auditee(int(i))
            if auditee:
                stage, strategy = auditee
                why, evidence = self._why_dropped(pool, int(i), stage, strategy)
                verdicts.append(Verdict(stage, strategy, Outcome.KEPT, why, 1, identity, evidence))
            drafted = listed.drafted(int(i))
            if scorer is not None and drafted and (auditee is None or auditee[0] is not Stage.DRAFT):
                verdicts.append(Verdict(Stage.DRAFT, scorer.name, Outcome.KEPT, _DRAFTED, 1, identity, drafted))
            evidence = {"score": float(choice.scores[i]), "degradation_prob": float(choice.degradation_prob[i])}
            verdicts.append(
                Verdict(
                    Stage.SELECT,
                    self._selector.name,
                    Outcome.KEPT,
                    reason.value,
                    1,
                    identity,
                    evidence if choice.is_trained else {},
                )
            )
        return verdicts

    def _why_dropped(self, pool: Pool, position: int, stage: Stage, strategy: str) -> tuple[str, dict[str, float]]:
        """What to say of an audit: the reason of the rule that dropped it, if it was a rule."""
        owner, row = int(pool.owners[position]), int(pool.rows[position])
        found = self._masking.why_dropped(stage, strategy, pool.batches[owner], row)
        if found is None:
            return AUDIT_PREFIX, {}
        reason, evidence = found
        return f"{AUDIT_PREFIX}: {reason}", evidence


def _without_repeats(batches: Sequence[CandidateBatch], seen: SeenRows) -> list[CandidateBatch]:
    """The batches without candidates that were seen, or that an earlier batch holds."""
    n_of_sketch = Counter(batch.sketch.index for batch in batches)
    earlier = SeenRows()
    fresh = []
    for batch in batches:
        rest = batch.take(seen.unseen(batch))
        if n_of_sketch[batch.sketch.index] > 1:
            rest = rest.take(earlier.unseen(rest))
            earlier.add(rest.sketch.index, rest.indices)
        fresh.append(rest)
    return fresh
