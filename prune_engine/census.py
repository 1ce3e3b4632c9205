"""How much of a space the rules leave: counted candidate by candidate where that is possible, else estimated."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from prune_engine.enumeration import all_batches, drawn_batches
from prune_engine.funnel import Funnel, FunnelStep, StrategyFailure, with_failures, with_failures_of_restriction
from prune_engine.pipeline import Pipeline
from prune_engine.space import DesignSpace
from prune_engine.verdicts import RuleKind, Stage

#: Spaces up to this size are counted completely.
MAX_COUNTED = 4_000_000
#: The normal distribution's quantile of a two-sided 95 % interval.
_Z95 = 1.959964


@dataclass(frozen=True, slots=True)
class Share:
    """A share of a space; ``low`` and ``high`` bound it with 95 % confidence and are equal where it is exact."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Census:
    """What became of a space.

    ``full_size`` is its size, ``size`` that after the task-space rules. Of the latter ``n_judged`` candidates
    were judged, each once if ``is_complete``, else as random draws. ``n_opaque`` more are of sketches that could
    not be read, so nothing is known of them. ``steps`` is the funnel, ``seconds`` what judging took.
    """

    full_size: int
    size: int
    is_complete: bool
    n_judged: int
    n_opaque: int
    n_legal: int
    n_kept: int
    steps: tuple[FunnelStep, ...]
    seconds: float

    @property
    def is_legality_judged(self) -> bool:
        """Whether any LEGALITY rule said something, so that ``n_legal`` means anything."""
        return any(step.kind is RuleKind.LEGALITY and not step.failed for step in self.steps)

    @property
    def legal(self) -> Share | None:
        """The share of legal candidates in what could be judged; None if that is nothing, or nobody judged it."""
        if not self.is_legality_judged:
            return None
        return share_of(self.n_legal, self.n_judged, is_exact=self.is_complete)

    @property
    def kept(self) -> Share | None:
        """The share that all rules keep, likewise."""
        return share_of(self.n_kept, self.n_judged, is_exact=self.is_complete)

    @property
    def kept_of_space(self) -> float | None:
        """The share of the whole space that all rules keep; None if some of it could not be judged."""
        if self.kept is None or self.n_opaque or not self.full_size:
            return None
        return self.kept.value * self.size / self.full_size

    @property
    def rule_steps(self) -> tuple[FunnelStep, ...]:
        """The steps of the trial-space rules, in their order."""
        return tuple(step for step in self.steps if step.stage is Stage.RULE)

    @property
    def space_steps(self) -> tuple[FunnelStep, ...]:
        """The steps of the task-space rules, in their order."""
        return tuple(step for step in self.steps if step.stage is Stage.TASK_SPACE)

    @property
    def per_sec(self) -> float | None:
        """Candidates judged per second."""
        return self.n_judged / self.seconds if self.n_judged and self.seconds > 0 else None


def take_census(
    pipeline: Pipeline,
    space: DesignSpace,
    *,
    sample_size: int,
    rng: np.random.Generator,
    max_counted: int = MAX_COUNTED,
    failures: Mapping[str, StrategyFailure] | None = None,
    on_progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> Census:
    """Restrict a space, then judge all of it, or ``sample_size`` draws if more than ``max_counted`` are left.

    ``failures`` is what the pipeline's ``on_failure`` fills, by strategy: the funnel then says which rules failed.
    ``on_progress`` is told after each batch how many candidates are judged, and of how many.
    """
    funnel, failures = Funnel(), {} if failures is None else failures
    restricted, _ = pipeline.restrict(space, funnel)
    failed_before = dict(failures)
    space_steps = with_failures_of_restriction(funnel.steps, failed_before, restricted.size)
    is_complete = restricted.size <= max_counted
    n = restricted.size if is_complete else sample_size
    batches = all_batches(restricted) if is_complete else drawn_batches(restricted, n, rng)
    n_judged = n_opaque = n_legal = n_kept = 0
    started = time.perf_counter()
    for batch in batches:
        if batch.is_opaque:
            n_opaque += len(batch)
        else:
            legal, kept = pipeline.judge(batch, funnel)
            n_judged += len(batch)
            n_legal += int(legal.sum())
            n_kept += int(kept.sum())
        on_progress(n_judged + n_opaque, n)
    rule_steps = [step for step in funnel.steps if step.stage is Stage.RULE]
    failed_later = {name: failure for name, failure in failures.items() if name not in failed_before}
    return Census(
        full_size=space.size,
        size=restricted.size,
        is_complete=is_complete,
        n_judged=n_judged,
        n_opaque=n_opaque,
        n_legal=n_legal,
        n_kept=n_kept,
        steps=(*space_steps, *with_failures(rule_steps, failed_later, n_judged)),
        seconds=time.perf_counter() - started,
    )


def share_of(k: int, n: int, *, is_exact: bool) -> Share | None:
    """``k`` of ``n`` with Wilson's interval, which holds for shares near 0 and 1, too. None for n = 0."""
    if not n:
        return None
    p = k / n
    if is_exact:
        return Share(p, p, p)
    z2 = _Z95**2
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z95 / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return Share(p, max(0.0, middle - half) if k else 0.0, min(1.0, middle + half) if k < n else 1.0)
