"""Stages 3 and 4: the draft list, and what the verifier thinks worth measuring of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import Candidate
from prune_engine.config import EngineConfig
from prune_engine.funnel import Funnel, FunnelStep
from prune_engine.space import Int32Array
from prune_engine.stages.draft_list import DraftList
from prune_engine.stages.kinship import decision_kinship
from prune_engine.stages.pool import Pool
from prune_engine.stages.scoring import Scoring, comparable
from prune_engine.strategies import SelectionPool
from prune_engine.verdicts import DraftScores, Float64Array, Outcome, Stage, Verdict, VerifyScores

T = TypeVar("T")

#: The verifier helps to make the draft list of pools up to so many lists long; it is slower than the draft.
_MAX_VERIFIED_LISTS = 16
#: Share of a round that is measured of candidates none of which the verifier thinks worth it. These are the best by
#: its own scores, so they are no audits: what they are like says nothing of what else it skips.
_HOPELESS_SHARE = 0.25
#: Audits of all strategies together are at most such a share of what else reaches the selector, or twice the
#: audit fraction if that is more: each costs a trial, and a verifier may leave little else.
MAX_AUDIT_SHARE = 0.05
_SURPLUS = "an audit too many"


@dataclass(frozen=True, slots=True)
class Shortlist:
    """What is left for the selector: ``choice`` has a row for each position of ``pool``.

    ``drafts[b]`` is what the draft said of batch b, None without a draft. ``is_hopeless`` says that the verifier
    thinks nothing of what reached it worth measuring: what is left are its best guesses all the same.
    ``draft_list`` is the whole list, with what the verifier skipped of it.
    """

    pool: Pool
    choice: SelectionPool
    drafts: tuple[DraftScores, ...] | None
    is_hopeless: bool
    draft_list: DraftList

    def drafted(self, position: int) -> dict[str, float]:
        """The latency and the penalties that the draft gave a candidate, by name; nothing without a latency."""
        owner, row = int(self.pool.owners[position]), int(self.pool.rows[position])
        if self.drafts is None or (draft := self.drafts[owner]).latency_secs is None:
            return {}
        penalties = {name: float(column[row]) for name, column in draft.penalties.items()}
        return {"latency_secs": float(draft.latency_secs[row]), **penalties}


@dataclass(frozen=True, slots=True)
class _Scores:
    """By position; None where nobody can say. ``verified[b]`` is the trained verifier's view of batch b."""

    drafts: tuple[DraftScores, ...] | None
    draft: Float64Array | None
    verified: tuple[VerifyScores, ...] | None
    #: The best candidate that did not get onto the list, None if all did.
    best_dropped: Candidate | None = None

    def take(self, positions: NDArray[np.int64]) -> _Scores:
        """The scores at ``positions`` of the pool."""
        return replace(self, draft=None if self.draft is None else self.draft[positions])


class Shortlister:
    """Asks the draft and the verifier about a pool, and drops what they think little of."""

    def __init__(self, scoring: Scoring, config: EngineConfig) -> None:
        self._scoring, self._config = scoring, config

    def shorten(
        self, pool: Pool, k: int, rng: np.random.Generator, verdicts: list[Verdict], funnel: Funnel
    ) -> Shortlist:
        """Stages 3 and 4 on a compact pool of which ``k`` are to be chosen.

        Probes always stay, and audits as far as there are not too many of them beside what is left in the end.
        """
        n_ranked = len(pool)
        pool, scores = self._drafted(pool, rng, verdicts, funnel)
        listed = DraftList.of(pool, scores.drafts, scores.verified, n_ranked, scores.best_dropped)
        pool, scores, is_hopeless = self._verified(pool, scores, k, rng, verdicts, funnel)
        listed = listed.verified_to(pool)
        kept = self._without_surplus(pool, is_hopeless, rng)
        if surplus := len(pool) - len(kept):
            verdicts.append(Verdict(Stage.SELECT, "engine", Outcome.SKIPPED, _SURPLUS, surplus))
            pool, scores = pool.take(kept), scores.take(kept)
        return Shortlist(pool, _choice(pool, scores), scores.drafts, is_hopeless, listed.thinned_to(pool))

    def _without_surplus(self, pool: Pool, is_hopeless: bool, rng: np.random.Generator) -> NDArray[np.int64]:
        """The positions to keep, so that a selector which gives audits their share does not measure them for long.

        Where the verifier expects nothing, its best guesses are all that is measured.
        """
        positions = np.arange(len(pool), dtype=np.int64)
        is_audit = pool.is_audit
        if is_hopeless:
            return positions[~is_audit]
        n_audits, n_ordinary = int(is_audit.sum()), int((~is_audit).sum())
        share = max(MAX_AUDIT_SHARE, 2 * self._config.audit_fraction)
        limit = int(share * n_ordinary + rng.random())  # rounded at random, so that a few get theirs at times
        if n_audits <= limit or not n_ordinary:
            return positions
        drawn = rng.choice(positions[is_audit], size=limit, replace=False)
        return np.sort(np.concatenate([positions[~is_audit], drawn]))

    def _drafted(
        self, pool: Pool, rng: np.random.Generator, verdicts: list[Verdict], funnel: Funnel
    ) -> tuple[Pool, _Scores]:
        """Stage 3: the best ``draft_size`` by draft score, or by what a trained verifier says if that is better.

        An explorer climbs on the trained verifier, so a list by the draft alone would lose what it found.
        """
        started = time.perf_counter()
        size, n = self._config.draft_size, len(pool)
        helps = n <= _MAX_VERIFIED_LISTS * size
        scores = self._scores(pool, verify=helps)
        scorer = self._scoring.draft_scorer
        if scorer is None or scores.draft is None or n <= size:
            return pool, scores if helps else self._scores(pool)
        exempt = pool.is_audit | pool.is_probe
        rank = _ranks(np.where(exempt, np.inf, scores.draft))
        if scores.verified is not None:
            rank = np.minimum(rank, _ranks(np.where(exempt, np.inf, _score(pool, scores.verified))))
        ranked = np.argsort(rank, kind="stable")
        size = max(size, int(exempt.sum()))
        dropped = ranked[size:]
        spared = dropped[self._is_spared(len(dropped), size, rng)]
        if len(dropped) > len(spared):
            reason, n_cut = "below the draft list", len(dropped) - len(spared)
            verdicts.append(Verdict(Stage.DRAFT, scorer.name, Outcome.DROPPED, reason, n_cut))
        kept = np.sort(np.concatenate([ranked[:size], spared]))
        seconds = time.perf_counter() - started
        n_out = len(kept) - len(spared)
        funnel.add(FunnelStep(Stage.DRAFT, scorer.name, n, n_out, seconds, n_audits=len(spared)))
        listed = pool.audited(spared, (Stage.DRAFT, scorer.name)).take(kept)
        best_dropped = pool.candidate(int(dropped[0])) if len(dropped) else None
        if helps:
            return listed, replace(scores.take(kept), best_dropped=best_dropped)
        listed = listed.compact()
        return listed, replace(self._scores(listed), best_dropped=best_dropped)

    def _is_spared(
        self, n: int, n_kept: int, rng: np.random.Generator, n_dropped: int | None = None
    ) -> NDArray[np.bool_]:
        """Which of n candidates to audit if they are dropped, bool (n,).

        A selector gives audits the share that they have among all, so where few are kept, fewer are audited: each
        costs a trial that one of the few could have.
        """
        n_dropped = n if n_dropped is None else n_dropped
        return rng.random(n) < self._config.audit_fraction * min(1.0, n_kept / max(n_dropped, 1))

    def _scores(self, pool: Pool, *, verify: bool = True) -> _Scores:
        """What both say of the batches of a compact pool."""
        drafts = _all([self._scoring.draft(batch) for batch in pool.batches])
        draft = None if drafts is None else comparable(drafts, pool.batches)
        if not verify or self._scoring.verifier is None:
            return _Scores(drafts, draft, None)
        verified = _all([self._scoring.verify(batch) for batch in pool.batches])
        if verified is not None and not all(v.is_trained for v in verified):
            verified = None
        return _Scores(drafts, draft, verified)

    def _verified(
        self, pool: Pool, scores: _Scores, k: int, rng: np.random.Generator, verdicts: list[Verdict], funnel: Funnel
    ) -> tuple[Pool, _Scores, bool]:
        """Stage 4: drop what is probably no gain; the draft's scores stand in until there is a trained model."""
        started = time.perf_counter()
        verifier, n = self._scoring.verifier, len(pool)
        if scores.verified is None or verifier is None or not n:
            if verifier is not None:
                seconds = time.perf_counter() - started
                funnel.add(FunnelStep(Stage.VERIFY, verifier.name, n, n, seconds))
            return pool, scores, False
        probs = pool.column([v.degradation_prob for v in scores.verified])
        skip_above = pool.column([np.full(len(v.scores), v.skip_above) for v in scores.verified])
        exempt = pool.is_audit | pool.is_probe
        skipped = (probs > skip_above) & ~exempt
        spared = skipped & self._is_spared(n, n - int(skipped.sum()), rng, n_dropped=int(skipped.sum()))
        is_hopeless = bool(skipped.any()) and not (~exempt & ~skipped).any()
        if is_hopeless:
            # If the verifier is right this costs a part of a round; if it is wrong its best guesses show it.
            ranked = np.argsort(np.where(skipped, -_score(pool, scores.verified), np.inf), kind="stable")
            best = ranked[: min(int(skipped.sum()), max(1, round(_HOPELESS_SHARE * k)))]
            skipped[best] = spared[best] = False
        cut = skipped & ~spared
        if cut.any():
            basis = next((v.skip_basis for v in scores.verified if v.skip_basis), "")
            reason = "probably slower than the best" + (f"; the threshold: {basis}" if basis else "")
            evidence = {"skip_above": float(skip_above[cut].max()), "lowest_prob": float(probs[cut].min())}
            verdicts.append(
                Verdict(Stage.VERIFY, verifier.name, Outcome.DROPPED, reason, int(cut.sum()), None, evidence)
            )
        seconds = time.perf_counter() - started
        n_out, n_audits = n - int(skipped.sum()), int(spared.sum())
        funnel.add(FunnelStep(Stage.VERIFY, verifier.name, n, n_out, seconds, n_audits=n_audits))
        kept = np.flatnonzero(~cut)
        left = pool.audited(np.flatnonzero(spared), (Stage.VERIFY, verifier.name)).take(kept)
        return left, scores.take(kept), is_hopeless


def _choice(pool: Pool, scores: _Scores) -> SelectionPool:
    """What the selector is given, read-only: the verifier's scores, else the draft's, else none that tell."""
    n, verified = len(pool), scores.verified
    values, probs, kinship = scores.draft, None, None
    if verified is not None and n:
        values, probs = _score(pool, verified), pool.column([v.degradation_prob for v in verified])
        kinship = _kinship(pool, verified)
    else:
        kinship = decision_kinship(pool)
    is_trained = values is not None and n > 0
    choice = SelectionPool(
        scores=np.ones(n) if values is None else values,
        degradation_prob=np.zeros(n) if probs is None else probs,
        is_audit=pool.is_audit,
        is_probe=pool.is_probe.copy(),
        is_trained=is_trained,
        kinship=kinship,
    )
    for array in (choice.scores, choice.degradation_prob, choice.is_audit, choice.is_probe, choice.kinship):
        if array is not None:
            array.flags.writeable = False
    return choice


def _score(pool: Pool, verified: Sequence[VerifyScores]) -> Float64Array:
    return pool.column([v.scores for v in verified])


def _kinship(pool: Pool, verified: Sequence[VerifyScores]) -> Int32Array | None:
    """The classes of all candidates, if every batch has them and of the same trees; no trees tell nothing."""
    parts = [v.kinship for v in verified if v.kinship is not None and v.kinship.shape[1]]
    if len(parts) < len(verified) or len({part.shape[1] for part in parts}) != 1:
        return None
    return pool.column(parts)


def _ranks(scores: Float64Array) -> NDArray[np.int64]:
    """The place of each score, 0 for the best, int64 (n,)."""
    ranks = np.empty(len(scores), dtype=np.int64)
    ranks[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
    return ranks


def _all(parts: Sequence[T | None]) -> tuple[T, ...] | None:
    """The parts if all of them are there, else None."""
    there = tuple(part for part in parts if part is not None)
    return there if len(there) == len(parts) else None
