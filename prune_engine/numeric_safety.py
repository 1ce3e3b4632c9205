"""What a check of a schedule's numbers says, and how far a user lets them differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from prune_engine.errors import ConfigError
from prune_engine.task import TuningTask

#: The strategy that verdicts and decisions on schedules about to ship name.
STRATEGY = "numeric-safety"


@dataclass(frozen=True, slots=True)
class FpPolicy:
    """How far a schedule's floating-point results may be from the untuned kernel's.

    ``tolerance`` is the largest accepted difference relative to the sum of the magnitudes that are added up, in
    place of the bound that follows from the dtype and the reduction's length; None keeps that bound. With
    ``is_strict`` every result is summed in the untuned kernel's order. Raises ConfigError for a tolerance that is
    negative or not below 1.
    """

    tolerance: float | None = None
    is_strict: bool = False

    def __post_init__(self) -> None:
        if self.tolerance is not None and not 0 <= self.tolerance < 1:
            raise ConfigError(
                "a relative error is a part of one",
                who="fp_tolerance",
                got=self.tolerance,
                expected="a number from 0 to below 1",
            )


@dataclass(frozen=True, slots=True)
class SafetyCase:
    """A schedule on one kind of input.

    ``max_error`` is the largest difference from the untuned kernel, ``bound`` the one accepted where that
    difference is, in the output's own unit; None where nothing was compared. ``problem`` says in one clause what
    is wrong, empty if ``is_ok``.
    """

    name: str
    is_ok: bool
    max_error: float | None = None
    bound: float | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class SafetyReport:
    """A schedule on all kinds of input. It is safe if every case is ok."""

    is_safe: bool
    cases: tuple[SafetyCase, ...]

    @property
    def problem(self) -> str:
        """The first thing that is wrong, in one clause; empty if the schedule is safe."""
        return next((f"{case.name}: {case.problem}" for case in self.cases if not case.is_ok), "")

    @staticmethod
    def of(cases: Sequence[SafetyCase]) -> SafetyReport:
        """The report on these cases."""
        return SafetyReport(all(case.is_ok for case in cases), tuple(cases))

    @staticmethod
    def failure(name: str, problem: str) -> SafetyReport:
        """The report on a schedule that could not be checked at all."""
        return SafetyReport(False, (SafetyCase(name, is_ok=False, problem=problem),))


@runtime_checkable
class ChecksNumbers(Protocol):
    """What a workbench can offer besides: to try schedules on inputs that are hard on numbers."""

    def check_numbers(self, task: TuningTask, traces: Sequence[str], policy: FpPolicy) -> list[SafetyReport]:
        """A report on each schedule, the compiler's text with post-processing, in order.

        A schedule that crashes, hangs or does not compile is one that is not safe.
        """
