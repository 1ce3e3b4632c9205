"""The rule: which candidates are not worth a measurement."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from prune_engine.candidates import CandidateBatch
from prune_engine.hardware import HardwareProfile
from prune_engine.strategies import Rule
from prune_engine.verdicts import BoolArray, RuleKind

#: Longer bodies crowd the instruction cache and seldom run faster.
MAX_STEPS = 64


class UnrollLimit(Rule):
    """Leave out candidates that unroll more than 64 steps."""

    name = "hello.unroll-limit"
    # A guess: some of what it drops is measured all the same, so that its errors are known.
    # LEGALITY is for what cannot run at all.
    kind = RuleKind.HEURISTIC

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> BoolArray:
        """Which candidates to keep: one bool for each of up to 65,536 rows."""
        if batch.is_opaque:  # loops that could not be read have no symbols
            return np.ones(len(batch), dtype=np.bool_)  # what it cannot judge, it keeps
        # A symbol is a column with a number for each candidate. No loop over rows: numpy
        # compares all of them at once.
        return batch.symbol("unroll_steps") <= MAX_STEPS

    def reason(self, symbols: Mapping[str, float], profile: HardwareProfile) -> str:
        """Why a candidate was dropped; what is read of its symbols is kept as evidence."""
        return f"unrolls {symbols['unroll_steps']:.0f} steps, more than {MAX_STEPS}"
