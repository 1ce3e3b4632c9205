"""Stages 1 to 5 over batches: restrict, mask, draft, verify, select. Pure: no I/O, no plugin manager, no compiler.

A strategy that raises or breaks its contract is reported to ``on_failure`` and its stage does nothing: a
failing rule keeps everything (a LEGALITY rule fails open, the compiler still checks), a failing draft or
verifier scores nothing, a failing selector takes the best by score.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_engine import contracts
from prune_engine.candidates import Candidate, CandidateBatch, SeenRows
from prune_engine.config import EngineConfig
from prune_engine.contracts import STRATEGY_FAILURES
from prune_engine.funnel import Funnel, FunnelStep
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.pool import NOT_AUDITED, Auditee, Pool, joined
from prune_engine.reasons import CandidateSymbols, reason_of
from prune_engine.scoring import Scoring
from prune_engine.space import DesignSpace
from prune_engine.strategies import DraftScorer, Rule, SelectionPool, Selector, Strategy, Verifier
from prune_engine.survivors import Survivors
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

#: Told of a strategy that raised; may raise itself to stop the run.
OnFailure = Callable[[Strategy, BaseException], None]


@dataclass(frozen=True, slots=True)
class PruneResult:
    """What survives a round, best first, with the reason each is measured, and a verdict on all that does not.

    Every candidate proposed is counted exactly once: by a verdict that is DROPPED or SKIPPED, or by one of
    SELECT that is KEPT. An audit that is measured has a KEPT verdict of what dropped it besides. ``funnel``
    has a step for every strategy that was asked, also for one that dropped nothing.
    """

    candidates: tuple[Candidate, ...]
    reasons: tuple[SelectionReason, ...]
    verdicts: tuple[Verdict, ...]
    n_proposed: int
    n_unseen: int
    seconds: float
    funnel: tuple[FunnelStep, ...] = ()


class Pipeline:
    """The strategies in the engine's order.

    Between rounds it remembers only which of them failed, and the reason each rule gave for its first drop
    of each task: verdicts of one reason add up in a store, so a count has one reason for the whole run.
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
        active = [rule for rule in rules if rule.name not in config.disabled_rules]
        self._rules = sorted(active, key=lambda r: (r.kind is RuleKind.HEURISTIC, r.order, r.name))
        self._verifier, self._selector = verifier, selector
        self._profile, self._config, self._on_failure = profile, config, on_failure
        self._aside: set[str] = set()
        self.scoring = Scoring(draft_scorer, verifier, profile, self.is_active, self.set_aside)
        #: (rule, task) -> reason and evidence of the first candidate it dropped.
        self._first_reasons: dict[tuple[str, str], tuple[str, dict[str, float]]] = {}

    def is_active(self, strategy: Strategy) -> bool:
        """Whether a strategy is still used: it never failed."""
        return strategy.name not in self._aside

    def set_aside(self, strategy: Strategy, error: BaseException) -> None:
        """Use a strategy no more in this run, and report why."""
        self._aside.add(strategy.name)
        self._on_failure(strategy, error)

    def restrict(self, space: DesignSpace, funnel: Funnel | None = None) -> tuple[DesignSpace, tuple[Verdict, ...]]:
        """Stage 1: cut rows out of the choice tables; one verdict per rule that cut something.

        ``funnel`` is given a step for each rule that overrides ``restrict``.
        """
        verdicts: list[Verdict] = []
        for rule in filter(self.is_active, self._rules):
            if type(rule).restrict is Rule.restrict:
                continue
            started = time.perf_counter()
            try:
                cut = rule.restrict(space, self._profile)
                smaller = space
                if cut is not None:
                    smaller = space.restrict(contracts.check_restriction(rule.name, cut, space))
            except STRATEGY_FAILURES as error:  # the plugin boundary: recorded, not swallowed
                self.set_aside(rule, error)
                continue
            seconds = time.perf_counter() - started
            if funnel is not None:
                step = FunnelStep(Stage.TASK_SPACE, rule.name, space.size, smaller.size, seconds, rule.kind)
                funnel.add(step)
            if smaller.size < space.size:
                evidence = {"size_before": float(space.size), "size_after": float(smaller.size)}
                dropped = min(space.size - smaller.size, 2**62)
                reason, _ = self._reason(rule, {})
                verdicts.append(
                    Verdict(Stage.TASK_SPACE, rule.name, Outcome.DROPPED, reason, dropped, None, evidence)
                )
            space = smaller
        return space, tuple(verdicts)

    def run(
        self,
        proposals: Sequence[CandidateBatch],
        seeds: Sequence[CandidateBatch],
        k: int,
        seen: SeenRows,
        rng: np.random.Generator,
    ) -> PruneResult:
        """Stages 2 to 5 on one round's proposals: choose at most ``k`` candidates that were not seen before."""
        started = time.perf_counter()
        funnel = Funnel()
        batches = _without_repeats((*seeds, *proposals), seen)
        n_proposed = sum(len(b) for b in (*proposals, *seeds))
        n_unseen = sum(map(len, batches))
        verdicts: list[Verdict] = []
        if n_unseen < n_proposed:
            reason = "measured before, or proposed twice"
            verdicts.append(Verdict(Stage.RULE, "engine", Outcome.SKIPPED, reason, n_proposed - n_unseen))
        pool = self._masked(batches, len(seeds), rng, verdicts, funnel)
        pool = self._drafted(pool, rng, verdicts, funnel)
        choice = _read_only(self._verified(pool, funnel))
        self.scoring.forget()
        selection = self._selected(choice, k, rng, funnel)
        candidates = tuple(pool.candidate(i) for i in selection.indices)
        verdicts += self._kept(pool, choice, selection, candidates)
        if left := len(pool) - len(candidates):
            reason = "not among the chosen"
            verdicts.append(Verdict(Stage.SELECT, self._selector.name, Outcome.SKIPPED, reason, left))
        took = time.perf_counter() - started
        return PruneResult(candidates, selection.reasons, tuple(verdicts), n_proposed, n_unseen, took, funnel.steps)

    def fitness(self, batch: CandidateBatch) -> Float64Array | None:
        """What an explorer may climb on: the trained verifier, else the draft, else None."""
        verify = self.scoring.verify(batch)
        scores = verify.scores if verify is not None and verify.is_trained else self._draft_scores(batch)
        self.scoring.forget()
        return scores

    def judge(self, batch: CandidateBatch, funnel: Funnel) -> tuple[BoolArray, BoolArray]:
        """Stage 2 without audits: what the LEGALITY rules keep, and what all rules keep, bool (n,) each.

        ``funnel`` is given a step for each rule that masks and had anything left to judge.
        """
        alive, survivors = np.ones(len(batch), dtype=np.bool_), Survivors(batch)
        legal = alive
        for rule in filter(self.is_active, self._rules):
            n_in = int(alive.sum())
            if type(rule).mask is Rule.mask or not n_in:
                continue
            started = time.perf_counter()
            alive = alive & ~self._dropped_by(rule, survivors, alive)
            took = time.perf_counter() - started
            funnel.add(FunnelStep(Stage.RULE, rule.name, n_in, int(alive.sum()), took, rule.kind))
            legal = alive if rule.kind is RuleKind.LEGALITY else legal
        return legal, alive

    def _masked(
        self,
        batches: Sequence[CandidateBatch],
        n_seeds: int,
        rng: np.random.Generator,
        verdicts: list[Verdict],
        funnel: Funnel,
    ) -> Pool:
        """Stage 2. Seeds pass heuristics, never a LEGALITY rule."""
        kept: list[NDArray[np.int64]] = []
        audits: list[NDArray[np.int64]] = []
        n_dropped: Counter[str] = Counter()
        auditees: list[Auditee] = [(Stage.RULE, rule.name) for rule in self._rules]
        for number, batch in enumerate(batches):
            alive, survivors = np.ones(len(batch), dtype=np.bool_), Survivors(batch)
            audit = np.full(len(batch), NOT_AUDITED)
            for position, rule in enumerate(self._rules):
                is_guess = rule.kind is RuleKind.HEURISTIC
                n_in = int(alive.sum())
                is_spared = number < n_seeds and is_guess
                if not self.is_active(rule) or not n_in or is_spared or type(rule).mask is Rule.mask:
                    continue
                started = time.perf_counter()
                dropped = self._dropped_by(rule, survivors, alive)
                seconds = time.perf_counter() - started
                alive &= ~dropped
                n_out, n_audits = int(alive.sum()), 0
                if n_out < n_in:
                    self._remember_reason(rule, batch, int(dropped.argmax()))
                if is_guess and n_out < n_in:  # a share of what a guess drops is measured all the same
                    spared = dropped & self._audit_draw(len(batch), rng)
                    audit[spared] = position
                    dropped &= ~spared
                    n_audits = int(spared.sum())
                n_dropped[rule.name] += int(dropped.sum())
                funnel.add(FunnelStep(Stage.RULE, rule.name, n_in, n_out, seconds, rule.kind, n_audits))
            rows = np.flatnonzero(alive | (audit != NOT_AUDITED))
            kept.append(rows)
            audits.append(audit[rows])
        for name, n in n_dropped.items():
            if n:
                reason, evidence = self._first_reasons[name, batches[0].space.task.task_id]
                verdicts.append(Verdict(Stage.RULE, name, Outcome.DROPPED, reason, n, None, evidence))
        return joined(batches, kept, audits, n_seeds, auditees)

    def _remember_reason(self, rule: Rule, batch: CandidateBatch, row: int) -> None:
        """Note why a rule dropped a candidate, if it is the first of the task that it drops."""
        key = rule.name, batch.space.task.task_id
        if key not in self._first_reasons:
            self._first_reasons[key] = self._reason(rule, CandidateSymbols(batch, row))

    def _reason(self, rule: Rule, symbols: Mapping[str, float]) -> tuple[str, dict[str, float]]:
        """A rule's reason and what it read, or just its name if it cannot say: its mask holds all the same."""
        try:
            return reason_of(rule, symbols, self._profile)
        except STRATEGY_FAILURES as error:  # the plugin boundary: recorded, not swallowed
            self._on_failure(rule, error)
            return rule.name, {}

    def _dropped_by(self, rule: Rule, survivors: Survivors, alive: BoolArray) -> BoolArray:
        part = survivors.narrow(alive)
        try:
            mask = contracts.check_mask(rule.name, rule.mask(part, self._profile), len(part))
        except STRATEGY_FAILURES as error:  # the plugin boundary: recorded, not swallowed
            self.set_aside(rule, error)
            return np.zeros(len(alive), dtype=np.bool_)
        return alive & ~survivors.spread(mask)

    def _audit_draw(self, n: int, rng: np.random.Generator) -> BoolArray:
        return rng.random(n) < self._config.audit_fraction

    def _drafted(self, pool: Pool, rng: np.random.Generator, verdicts: list[Verdict], funnel: Funnel) -> Pool:
        """Stage 3: the best ``draft_size`` by draft score; audits and seeds always stay."""
        scorer = self.scoring.draft_scorer
        if scorer is None or len(pool) <= self._config.draft_size:
            return pool
        started = time.perf_counter()
        scores = pool.score(self._draft_scores)
        if scores is None:
            return pool
        exempt = pool.is_audit | pool.is_seed
        ranked = np.argsort(-np.where(exempt, np.inf, scores), kind="stable")
        size = max(self._config.draft_size, int(exempt.sum()))
        dropped = ranked[size:]
        spared = dropped[self._audit_draw(len(dropped), rng)]
        if len(dropped) > len(spared):
            reason, n = "below the draft list", len(dropped) - len(spared)
            verdicts.append(Verdict(Stage.DRAFT, scorer.name, Outcome.DROPPED, reason, n))
        kept = np.sort(np.concatenate([ranked[:size], spared]))
        seconds = time.perf_counter() - started
        n_out = len(kept) - len(spared)
        funnel.add(FunnelStep(Stage.DRAFT, scorer.name, len(pool), n_out, seconds, n_audits=len(spared)))
        return pool.audited(spared, (Stage.DRAFT, scorer.name)).take(kept)

    def _draft_scores(self, batch: CandidateBatch) -> Float64Array | None:
        draft = self.scoring.draft(batch)
        return None if draft is None else draft.scores

    def _verified(self, pool: Pool, funnel: Funnel) -> SelectionPool:
        """Stage 4: scores and degradation probabilities; the draft's scores until there is a trained model."""
        started = time.perf_counter()
        degradations: list[Float64Array] = []

        def score(batch: CandidateBatch) -> Float64Array | None:
            result = self.scoring.verify(batch)
            if result is None:
                return None
            degradations.append(result.degradation_prob)
            return result.scores if result.is_trained else None

        scores, probs = pool.score(score), None
        if scores is not None:
            probs = pool.score(lambda _: degradations.pop(0))
        else:
            scores = pool.score(self._draft_scores)
        is_trained = scores is not None and len(pool) > 0
        if self._verifier is not None:
            seconds = time.perf_counter() - started
            funnel.add(FunnelStep(Stage.VERIFY, self._verifier.name, len(pool), len(pool), seconds))
        return SelectionPool(
            scores=np.ones(len(pool)) if scores is None else scores,
            degradation_prob=np.zeros(len(pool)) if probs is None else probs,
            is_audit=pool.is_audit,
            is_seed=pool.is_seed,
            is_trained=is_trained,
        )

    def _selected(self, pool: SelectionPool, k: int, rng: np.random.Generator, funnel: Funnel) -> Selection:
        """Stage 5."""
        started = time.perf_counter()
        selection = self._choice(pool, k, rng)
        seconds = time.perf_counter() - started
        funnel.add(FunnelStep(Stage.SELECT, self._selector.name, len(pool), len(selection.indices), seconds))
        return selection

    def _choice(self, pool: SelectionPool, k: int, rng: np.random.Generator) -> Selection:
        if not len(pool) or not k:
            return Selection(np.empty(0, dtype=np.int64), ())
        if self.is_active(self._selector):
            try:
                chosen = self._selector.select(pool, k, rng)
                return contracts.check_selection(self._selector.name, chosen, len(pool), k)
            except STRATEGY_FAILURES as error:  # the plugin boundary: recorded, not swallowed
                self.set_aside(self._selector, error)
        best = np.argsort(-pool.scores, kind="stable")[:k].astype(np.int64)
        reasons = (SelectionReason.AUDIT if pool.is_audit[i] else SelectionReason.TOP for i in best)
        return Selection(best, tuple(reasons))

    def _kept(
        self, pool: Pool, choice: SelectionPool, selection: Selection, candidates: Sequence[Candidate]
    ) -> list[Verdict]:
        """A verdict on each candidate that is chosen; on an audit also that of the strategy it audits."""
        verdicts: list[Verdict] = []
        for i, candidate, reason in zip(selection.indices, candidates, selection.reasons, strict=True):
            identity = candidate.candidate_id
            if auditee := pool.auditee(int(i)):
                stage, strategy = auditee
                why, evidence = self._why_dropped(pool, int(i), strategy)
                verdicts.append(Verdict(stage, strategy, Outcome.KEPT, why, 1, identity, evidence))
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

    def _why_dropped(self, pool: Pool, position: int, strategy: str) -> tuple[str, dict[str, float]]:
        """What to say of an audit: the reason of the rule that dropped it, if it was a rule."""
        rule = next((r for r in self._rules if r.name == strategy), None)
        if rule is None:
            return "dropped, measured as an audit", {}
        symbols = CandidateSymbols(pool.batches[int(pool.owners[position])], int(pool.rows[position]))
        reason, evidence = self._reason(rule, symbols)
        return f"dropped, measured as an audit: {reason}", evidence


def _without_repeats(batches: Sequence[CandidateBatch], seen: SeenRows) -> list[CandidateBatch]:
    """The batches without candidates that were seen, or that an earlier batch holds."""
    earlier = SeenRows()
    fresh = []
    for batch in batches:
        rest = batch.take(seen.unseen(batch))
        rest = rest.take(earlier.unseen(rest))
        earlier.add(rest.sketch.index, rest.indices)
        fresh.append(rest)
    return fresh


def _read_only(pool: SelectionPool) -> SelectionPool:
    """The same pool, out of reach of a selector that would write into it."""
    for array in (pool.scores, pool.degradation_prob, pool.is_audit, pool.is_seed):
        array.flags.writeable = False
    return pool
