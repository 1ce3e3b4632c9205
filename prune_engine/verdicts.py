"""What the stages return: masks, scores, selections, and the verdict on each candidate that stops somewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from prune_engine.read_only import ReadOnlyDict

Float64Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class RuleKind(Enum):
    """LEGALITY rules are sound: they drop only what cannot run. HEURISTIC rules are guesses and are audited."""

    LEGALITY = "legality"
    HEURISTIC = "heuristic"


class Stage(Enum):
    """Where in the pipeline a verdict was reached."""

    TRANSFER = "transfer"
    TASK_SPACE = "task_space"
    RULE = "rule"
    DRAFT = "draft"
    VERIFY = "verify"
    SELECT = "select"
    MEASURE = "measure"


class Outcome(Enum):
    """What happened to the candidate at that stage."""

    KEPT = "kept"
    DROPPED = "dropped"
    SKIPPED = "skipped"
    FAILED = "failed"


class SelectionReason(Enum):
    """Why a candidate is measured."""

    TOP = "top"
    EXPLORE = "explore"
    AUDIT = "audit"
    #: Drawn out of the whole space for what it teaches.
    PROBE = "probe"
    #: Transferred from another kernel.
    SEED = "seed"
    #: Listed as proven correct and fast: no guess is asked.
    WHITELIST = "whitelist"


@dataclass(frozen=True, slots=True)
class DraftScores:
    """Result of a draft: ``scores`` float64 (n,), >= 0, finite, higher is better, ratio scale.

    ``latency_secs`` float64 (n,), ``symbols`` and ``penalties`` (name -> (n,)) explain it, where known.
    """

    scores: Float64Array
    latency_secs: Float64Array | None = None
    symbols: Mapping[str, Float64Array] = field(default_factory=dict)
    penalties: Mapping[str, Float64Array] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VerifyScores:
    """Result of a verifier: ``scores`` float64 (n,) as in DraftScores.

    ``degradation_prob`` float64 (n,) in [0, 1]: probability of being worse than the incumbent by a margin.
    Candidates above ``skip_above`` are not worth measuring; 1 skips none. ``skip_basis`` says in one clause how
    that threshold was found. ``kinship`` int32 (n, t): classes of each candidate, see `SelectionPool`.
    """

    scores: Float64Array
    degradation_prob: Float64Array
    model_version: str
    is_trained: bool
    skip_above: float = 1.0
    skip_basis: str = ""
    kinship: NDArray[np.int32] | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """Candidates to measure: ``indices`` int64 (k,), distinct, and why each of them."""

    indices: NDArray[np.int64]
    reasons: tuple[SelectionReason, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why one candidate (or ``count`` of them) stopped, or lived on, at one stage."""

    stage: Stage
    strategy: str
    outcome: Outcome
    reason: str
    count: int = 1
    candidate_id: str | None = None
    evidence: Mapping[str, float] = field(default_factory=ReadOnlyDict)

    def __post_init__(self) -> None:
        # Plugins are told of verdicts before the store is.
        object.__setattr__(self, "evidence", ReadOnlyDict(self.evidence))
