"""Rules that know from the loop nest alone what the compiler will do, whatever the device."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.strategies import Rule
from prune_engine.verdicts import BoolArray, RuleKind
from prune_engine_rules.limits import keep_all


class Refused(Rule):
    """The compiler rejects the candidate, by the limits of its *target*.

    These are threads per block and their extents, shared memory and vector bytes as the target gives them,
    software pipelines it cannot build, and loops of which it finds no constant extent; the other rules hold a
    candidate against the *profile*.
    """

    name, kind, order = "rules.refused", RuleKind.LEGALITY, 10

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> BoolArray:  # noqa: ARG002 - any device
        """Keep what the compiler accepts; bool (n,)."""
        return keep_all(batch) if batch.is_opaque else np.asarray(batch.symbol("is_refused") == 0)

    def reason(self, symbols: Mapping[str, float], profile: HardwareProfile) -> str:  # noqa: ARG002
        """Say that the target's limits are meant."""
        symbols.get("is_refused")  # evidence
        return (
            "the compiler refuses it: threads, shared memory, vectors or a pipeline that its target does not "
            "allow, or a loop without a constant extent"
        )


class Duplicate(Rule):
    """The compiler repairs the decisions into those of another candidate: the same program under another name."""

    name, kind, order = "rules.duplicate", RuleKind.LEGALITY, 5

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> BoolArray:  # noqa: ARG002 - any device
        """Keep candidates whose decisions are those that run; bool (n,)."""
        return keep_all(batch) if batch.is_opaque else np.asarray(batch.symbol("is_canonical") != 0)

    def reason(self, symbols: Mapping[str, float], profile: HardwareProfile) -> str:  # noqa: ARG002
        """Say that its twin remains."""
        symbols.get("is_canonical")  # evidence
        return "its compute location does not exist under its tiles: it runs as another candidate, which remains"
