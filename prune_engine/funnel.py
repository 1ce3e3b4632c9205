"""How many candidates go into and come out of each stage and strategy, and what each of them costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from prune_engine.verdicts import RuleKind, Stage


@dataclass(frozen=True, slots=True)
class FunnelStep:
    """One strategy's part: of ``n_in`` candidates it left ``n_out``, and kept ``n_audits`` more as audits.

    For stage 1 the counts are sizes of the space, exact however large. ``kind`` is None for what is no rule.
    A symbol that several strategies share is paid for, in ``seconds``, by the first that asks for it.
    ``failed`` is the error of a strategy that was left out from then on.
    """

    stage: Stage
    strategy: str
    n_in: int
    n_out: int
    seconds: float
    kind: RuleKind | None = None
    n_audits: int = 0
    failed: str | None = None

    @property
    def n_cut(self) -> int:
        """How many candidates stop here, audits not counted."""
        return self.n_in - self.n_out - self.n_audits


@dataclass(frozen=True, slots=True)
class StrategyFailure:
    """Why a strategy was left out, such as ``TypeError: ...``. ``kind`` is None for what is no rule."""

    error: str
    kind: RuleKind | None = None


class Funnel:
    """The steps of one task in the order in which they are first added; those of several batches add up."""

    def __init__(self) -> None:
        self._steps: dict[tuple[Stage, str], FunnelStep] = {}

    def add(self, step: FunnelStep) -> None:
        """Take in a step of one batch."""
        key = step.stage, step.strategy
        known = self._steps.get(key)
        if known is not None:
            step = replace(
                known,
                n_in=known.n_in + step.n_in,
                n_out=known.n_out + step.n_out,
                seconds=known.seconds + step.seconds,
                n_audits=known.n_audits + step.n_audits,
            )
        self._steps[key] = step

    @property
    def steps(self) -> tuple[FunnelStep, ...]:
        """All steps so far."""
        return tuple(self._steps.values())


def with_failures(
    steps: Sequence[FunnelStep], failures: Mapping[str, StrategyFailure], n_first: int
) -> tuple[FunnelStep, ...]:
    """One stage's steps with what failed in it, ``n_first`` candidates being what reached the first.

    Candidates that came after a strategy had failed passed it by; they count as left by it, so that each step
    is reached by what the one before it left.
    """
    found: list[FunnelStep] = []
    n_reaching = n_first
    for step in steps:
        if failure := failures.get(step.strategy):
            n_passed = n_reaching - step.n_in
            step = replace(step, n_in=n_reaching, n_out=step.n_out + n_passed, failed=failure.error)
        found.append(step)
        n_reaching = step.n_out
    return tuple(found)


def with_failures_of_restriction(
    steps: Sequence[FunnelStep], failures: Mapping[str, StrategyFailure], size: int
) -> tuple[FunnelStep, ...]:
    """Stage 1's steps, and one more for each rule that failed there and left none; ``size`` is what is left."""
    named = {step.strategy for step in steps}
    told = [
        replace(step, failed=failures[step.strategy].error) if step.strategy in failures else step for step in steps
    ]
    missing = [
        FunnelStep(Stage.TASK_SPACE, name, size, size, 0.0, failure.kind, failed=failure.error)
        for name, failure in failures.items()
        if name not in named
    ]
    return (*told, *missing)
