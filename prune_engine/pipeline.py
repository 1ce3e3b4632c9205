"""Stages 1 to 5 over batches: restrict, mask, draft, verify, select. Pure: no I/O, no plugin manager, no compiler.

A strategy that raises or breaks its contract is reported to ``on_failure`` and its stage does nothing: a
failing rule keeps everything (a LEGALITY rule fails open, the compiler still checks), a failing draft or
verifier scores nothing, a failing selector takes the first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_engine import contracts
from prune_engine.candidates import Candidate, CandidateBatch, SeenRows
from prune_engine.config import EngineConfig
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.space import DesignSpace
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

#: Told of a strategy that raised; may raise itself to stop the run.
OnFailure = Callable[[Strategy, Exception], None]


@dataclass(frozen=True, slots=True)
class PruneResult:
    """What survives a round, best first, with the reason each is measured, and a verdict on all that does not."""

    candidates: tuple[Candidate, ...]
    reasons: tuple[SelectionReason, ...]
    verdicts: tuple[Verdict, ...]
    n_proposed: int
    n_unseen: int
    seconds: float


@dataclass(frozen=True, slots=True)
class _Pool:
    """Candidates of several sketches side by side: position i is row ``rows[i]`` of batch ``owners[i]``."""

    batches: tuple[CandidateBatch, ...]
    owners: NDArray[np.int64]
    rows: NDArray[np.int64]
    is_audit: BoolArray
    is_seed: BoolArray

    def __len__(self) -> int:
        return len(self.owners)

    def take(self, positions: NDArray[np.int64]) -> _Pool:
        return _Pool(
            self.batches,
            self.owners[positions],
            self.rows[positions],
            self.is_audit[positions],
            self.is_seed[positions],
        )


class Pipeline:
    """The strategies in the engine's order. Holds no state between rounds."""

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
        self._draft_scorer, self._verifier, self._selector = draft_scorer, verifier, selector
        self._profile, self._config, self._on_failure = profile, config, on_failure
        self._set_aside: set[str] = set()

    def restrict(self, space: DesignSpace) -> tuple[DesignSpace, tuple[Verdict, ...]]:
        """Stage 1: cut rows out of the choice tables; one verdict per rule that cut something."""
        verdicts: list[Verdict] = []
        for rule in self._rules:
            if rule.name in self._set_aside:
                continue
            try:
                cut = rule.restrict(space, self._profile)
                if cut is None:
                    continue
                smaller = space.restrict(contracts.check_restriction(rule.name, cut, space))
            except Exception as error:  # noqa: BLE001 - the plugin boundary
                self._fail(rule, error)
                continue
            if smaller.size == 0:
                self._fail(rule, ValueError(f"cut all of {space.size} candidates"))
                continue
            if smaller.size < space.size:
                evidence = {"size_before": float(space.size), "size_after": float(smaller.size)}
                dropped = min(space.size - smaller.size, 2**62)
                verdicts.append(
                    Verdict(Stage.TASK_SPACE, rule.name, Outcome.DROPPED, rule.name, dropped, None, evidence)
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
        verdicts: list[Verdict] = []
        pool = self._masked(proposals, seeds, seen, rng, verdicts)
        n_unseen = len(pool)
        pool = self._drafted(pool, verdicts)
        scores, degradation_prob, is_trained = self._verified(pool)
        selection = self._selected(
            SelectionPool(scores, degradation_prob, pool.is_audit, pool.is_seed, is_trained), k, rng
        )
        candidates = tuple(pool.batches[pool.owners[i]].candidate(int(pool.rows[i])) for i in selection.indices)
        verdicts += [
            Verdict(
                Stage.SELECT,
                self._selector.name,
                Outcome.KEPT,
                reason.value,
                1,
                candidate.candidate_id,
                {"score": float(scores[i]), "degradation_prob": float(degradation_prob[i])} if is_trained else {},
            )
            for i, candidate, reason in zip(selection.indices, candidates, selection.reasons, strict=True)
        ]
        if len(pool) > len(candidates):
            left = len(pool) - len(candidates)
            verdicts.append(
                Verdict(Stage.SELECT, self._selector.name, Outcome.SKIPPED, "not among the chosen", left)
            )
        n_proposed = sum(len(b) for b in (*proposals, *seeds))
        return PruneResult(
            candidates, selection.reasons, tuple(verdicts), n_proposed, n_unseen, time.perf_counter() - started
        )

    def fitness(self, batch: CandidateBatch) -> Float64Array | None:
        """What an explorer may climb on: the trained verifier, else the draft, else None."""
        if self._verifier and self._verifier.name not in self._set_aside:
            try:
                verify = contracts.check_verify(self._verifier.name, self._verifier.score(batch), len(batch))
                if verify.is_trained:
                    return verify.scores
            except Exception as error:  # noqa: BLE001 - the plugin boundary
                self._fail(self._verifier, error)
        return self._draft_scores(batch)

    def _masked(
        self,
        proposals: Sequence[CandidateBatch],
        seeds: Sequence[CandidateBatch],
        seen: SeenRows,
        rng: np.random.Generator,
        verdicts: list[Verdict],
    ) -> _Pool:
        """Stage 2, with the seen ones left out first. Seeds pass heuristics, never a LEGALITY rule."""
        batches = (*seeds, *proposals)
        owners: list[NDArray[np.int64]] = []
        rows: list[NDArray[np.int64]] = []
        audits: list[BoolArray] = []
        for number, batch in enumerate(batches):
            alive = seen.unseen(batch)
            is_seed = number < len(seeds)
            audit = np.zeros(len(batch), dtype=np.bool_)
            for rule in self._rules:
                heuristic = rule.kind is RuleKind.HEURISTIC
                if rule.name in self._set_aside or not alive.any() or (is_seed and heuristic):
                    continue
                dropped = self._dropped_by(rule, batch, alive)
                if not dropped.any():
                    continue
                verdicts.append(Verdict(Stage.RULE, rule.name, Outcome.DROPPED, rule.name, int(dropped.sum())))
                if heuristic:  # a share of what a guess drops is measured all the same
                    audit |= dropped & (rng.random(len(batch)) < self._config.audit_fraction)
                alive &= ~dropped
            kept = np.flatnonzero(alive | audit)
            owners.append(np.full(len(kept), number, dtype=np.int64))
            rows.append(kept)
            audits.append(audit[kept])
        if not batches:
            empty = np.empty(0, dtype=np.int64)
            return _Pool((), empty, empty, empty.astype(np.bool_), empty.astype(np.bool_))
        owner = np.concatenate(owners)
        return _Pool(batches, owner, np.concatenate(rows), np.concatenate(audits), owner < len(seeds))

    def _dropped_by(self, rule: Rule, batch: CandidateBatch, alive: BoolArray) -> BoolArray:
        try:
            mask = contracts.check_mask(rule.name, rule.mask(batch, self._profile), len(batch))
        except Exception as error:  # noqa: BLE001 - the plugin boundary
            self._fail(rule, error)
            return np.zeros(len(batch), dtype=np.bool_)
        return alive & ~mask

    def _drafted(self, pool: _Pool, verdicts: list[Verdict]) -> _Pool:
        """Stage 3: the best ``draft_size`` by draft score; audits and seeds always stay."""
        scorer = self._draft_scorer
        if scorer is None or scorer.name in self._set_aside or len(pool) <= self._config.draft_size:
            return pool
        scores = self._over_batches(pool, self._draft_scores)
        if scores is None:
            return pool
        exempt = pool.is_audit | pool.is_seed
        ranked = np.argsort(np.where(exempt, np.inf, scores), kind="stable")[::-1]
        keep = np.sort(ranked[: max(self._config.draft_size, int(exempt.sum()))])
        verdicts.append(
            Verdict(Stage.DRAFT, scorer.name, Outcome.DROPPED, "below the draft list", len(pool) - len(keep))
        )
        return pool.take(keep)

    def _draft_scores(self, batch: CandidateBatch) -> Float64Array | None:
        scorer = self._draft_scorer
        if scorer is None or scorer.name in self._set_aside:
            return None
        try:
            return contracts.check_draft(scorer.name, scorer.score(batch, self._profile), len(batch)).scores
        except Exception as error:  # noqa: BLE001 - the plugin boundary
            self._fail(scorer, error)
            return None

    def _verified(self, pool: _Pool) -> tuple[Float64Array, Float64Array, bool]:
        """Stage 4: scores, degradation probabilities, and whether they mean anything."""
        n = len(pool)
        probs = np.zeros(n)
        trained: list[bool] = []
        verifier = self._verifier

        def score(batch: CandidateBatch) -> Float64Array | None:
            if verifier is None or verifier.name in self._set_aside:
                return None
            try:
                result = contracts.check_verify(verifier.name, verifier.score(batch), len(batch))
            except Exception as error:  # noqa: BLE001 - the plugin boundary
                self._fail(verifier, error)
                return None
            trained.append(result.is_trained)
            found.append(result.degradation_prob)
            return result.scores

        found: list[Float64Array] = []
        scores = self._over_batches(pool, score)
        if scores is not None and trained and all(trained):
            return scores, np.concatenate(found) if found else probs, True
        drafted = self._over_batches(pool, self._draft_scores)
        if drafted is not None and n:
            return drafted, probs, True
        return np.ones(n), probs, False

    def _over_batches(
        self, pool: _Pool, score: Callable[[CandidateBatch], Float64Array | None]
    ) -> Float64Array | None:
        """Score the pool batch by batch, in pool order; None as soon as one batch has no scores."""
        parts: list[Float64Array] = []
        for number in np.unique(pool.owners):
            part = score(pool.batches[number].take(pool.rows[pool.owners == number]))
            if part is None:
                return None
            parts.append(part)
        return np.concatenate(parts) if parts else np.empty(0)

    def _selected(self, pool: SelectionPool, k: int, rng: np.random.Generator) -> Selection:
        """Stage 5."""
        if not len(pool) or not k:
            return Selection(np.empty(0, dtype=np.int64), ())
        if self._selector.name not in self._set_aside:
            try:
                chosen = self._selector.select(pool, k, rng)
                return contracts.check_selection(self._selector.name, chosen, len(pool), k)
            except Exception as error:  # noqa: BLE001 - the plugin boundary
                self._fail(self._selector, error)
        first = np.argsort(-pool.scores, kind="stable")[:k].astype(np.int64)
        return Selection(first, (SelectionReason.TOP,) * len(first))

    def _fail(self, strategy: Strategy, error: Exception) -> None:
        """Set a strategy aside for the rest of the run."""
        self._set_aside.add(strategy.name)
        self._on_failure(strategy, error)
