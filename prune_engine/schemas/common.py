"""Parts that several verbs print, and the events and errors of all verbs."""

from __future__ import annotations

from typing import Literal

from pydantic import JsonValue
from typing_extensions import TypedDict

#: The names, options and values of a target, as TVM writes them.
Target = dict[str, JsonValue]
RuleKindName = Literal["legality", "heuristic"]


class Share(TypedDict):
    """A share, 0 to 1, with its 95 % interval; the three are equal where it is exact."""

    value: float
    low: float
    high: float


class Audit(TypedDict):
    """What became of measured candidates that a strategy had dropped. ``at_most`` bounds the share of winners."""

    stage: str
    strategy: str
    n_dropped: int
    n_measured: int
    n_winners: int
    false_prune: Share | None
    at_most: float | None
    switched_off: str | None


class TransferPolicy(TypedDict):
    """A source of transferred schedules and what became of them. ``misses`` counts by reason."""

    policy: str
    n_seeds: int
    n_known: int
    n_refused: int
    n_failed: int
    n_ran: int
    invalid_share: float | None
    misses: dict[str, int]


class Status(TypedDict):
    """A line on stderr: a phase, or a warning."""

    event: Literal["status"]
    message: str


class Progress(TypedDict):
    """A line on stderr: the totals so far. Kernel seconds are sums over all calls of the model."""

    event: Literal["progress"]
    elapsed_secs: float
    left_secs: float | None
    n_trials: int
    n_trials_left: int | None
    n_valid: int
    kernel_secs_before: float
    kernel_secs_after: float


class Error(TypedDict):
    """The last line on stderr of a verb that was given --json and failed; ``exit_code`` is that of the process.

    ``message`` is all of it in words; ``who``, ``got``, ``expected`` and ``remedy`` are its parts, where known.
    """

    event: Literal["error"]
    error: str
    message: str
    problem: str
    who: str | None
    got: str | None
    expected: str | None
    remedy: str | None
    exit_code: int


Event = Status | Progress | Error
