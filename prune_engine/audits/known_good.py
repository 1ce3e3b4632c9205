"""Which rules would drop one schedule that is known to be good, each asked by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prune_engine import contracts
from prune_engine.candidates import CandidateBatch
from prune_engine.contracts import STRATEGY_FAILURES
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.stages.reasons import CandidateSymbols, reason_of
from prune_engine.strategies import Rule
from prune_engine.verdicts import RuleKind


@dataclass(frozen=True, slots=True)
class RuleDrop:
    """A rule that drops the schedule, and why in one clause. With ``is_failure`` it raised instead."""

    rule: str
    kind: RuleKind
    reason: str
    is_failure: bool = False


def dropping_rules(rules: Sequence[Rule], batch: CandidateBatch, profile: HardwareProfile) -> tuple[RuleDrop, ...]:
    """Ask every rule about a batch of one candidate, by cutting tables and by masking.

    Unlike the pipeline no rule stops another, so all that object are named. A rule that raises or breaks its
    contract is in the result as a failure.
    """
    drops = (_drop_by(rule, batch, profile) for rule in rules)
    return tuple(drop for drop in drops if drop is not None)


def _drop_by(rule: Rule, batch: CandidateBatch, profile: HardwareProfile) -> RuleDrop | None:
    try:
        if _cuts(rule, batch, profile):
            return RuleDrop(rule.name, rule.kind, reason_of(rule, {}, profile)[0])
        if not contracts.check_mask(rule.name, rule.mask(batch, profile), 1)[0]:
            return RuleDrop(rule.name, rule.kind, reason_of(rule, CandidateSymbols(batch, 0), profile)[0])
    except STRATEGY_FAILURES as error:  # the plugin boundary: recorded, not swallowed
        return RuleDrop(rule.name, rule.kind, f"{type(error).__name__}: {error}", is_failure=True)
    return None


def _cuts(rule: Rule, batch: CandidateBatch, profile: HardwareProfile) -> bool:
    cut = rule.restrict(batch.space, profile)
    if cut is None:
        return False
    smaller = batch.space.restrict(contracts.check_restriction(rule.name, cut, batch.space))
    here = CandidateBatch(smaller, smaller.sketches[batch.sketch.index], batch.indices)
    return not bool(np.all(here.is_allowed()))
