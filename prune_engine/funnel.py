"""How many candidates go into and come out of each stage and strategy, and what each of them costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from prune_engine.verdicts import RuleKind, Stage


@dataclass(frozen=True, slots=True)
class FunnelStep:
    """One strategy's part: of ``n_in`` candidates it left ``n_out``, and kept ``n_audits`` more as audits.

    For stage 1 the counts are sizes of the space, exact however large. ``kind`` is None for what is no rule.
    A symbol that several strategies share is paid for, in ``seconds``, by the first that asks for it.
    """

    stage: Stage
    strategy: str
    n_in: int
    n_out: int
    seconds: float
    kind: RuleKind | None = None
    n_audits: int = 0

    @property
    def n_cut(self) -> int:
        """How many candidates stop here, audits not counted."""
        return self.n_in - self.n_out - self.n_audits


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
