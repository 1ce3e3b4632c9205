"""Whether tuned kernels still hold after something changed: what was found, judged and told."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from prune_engine.provenance.policy import PolicyChange

#: A kernel whose untuned form is faster than itself by more than this gains nothing any more.
_LOST_GAIN = 0.99


class CheckStatus(Enum):
    """How a check ended, from best to worst. What could not be looked at was skipped, and is no regression."""

    PASSED = "passed"
    SKIPPED = "skipped"
    WARNING = "warning"
    FAILED = "failed"


_ORDER = list(CheckStatus)


@dataclass(frozen=True, slots=True)
class Check:
    """One question about a kernel or an artefact: ``legal``, ``rules``, ``correct``, ``time``, ``library``."""

    name: str
    status: CheckStatus
    message: str

    def as_json(self) -> dict[str, str]:
        """JSON values."""
        return {"name": self.name, "status": self.status.value, "message": self.message}


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds per call of a kernel and of its untuned form, timed in turns; None where nobody timed it."""

    best_secs: float | None
    default_secs: float | None

    @property
    def speedup(self) -> float | None:
        """Untuned time over tuned time."""
        return self.default_secs / self.best_secs if self.default_secs and self.best_secs else None

    def as_json(self) -> dict[str, float | None]:
        """JSON values."""
        return {"best_secs": self.best_secs, "default_secs": self.default_secs, "speedup": self.speedup}


@dataclass(frozen=True, slots=True)
class KernelVerification:
    """A kept winner: what was recorded (``old``), what was found (``new``, None without measuring), and checks.

    ``slowdown`` is what the kernel lost by whichever of the two measures is kinder: its own time, or its gain over
    the untuned kernel.
    """

    name: str
    task_id: str
    weight: int
    candidate_id: str | None
    old: Times
    new: Times | None
    slowdown: float | None
    checks: tuple[Check, ...]

    @property
    def status(self) -> CheckStatus:
        """The worst of the checks."""
        return worst(self.checks)

    def as_json(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "name": self.name,
            "task_id": self.task_id,
            "weight": self.weight,
            "candidate_id": self.candidate_id,
            "status": self.status.value,
            "old": self.old.as_json(),
            "new": self.new.as_json() if self.new else None,
            "slowdown": self.slowdown,
            "checks": [check.as_json() for check in self.checks],
        }


@dataclass(frozen=True, slots=True)
class Verification:
    """An artefact held against this machine and the current policy.

    ``versions`` maps what is installed in another version to (old, new). ``policies`` are the hashes, old and new;
    the old one is None for an artefact that did not record it.
    """

    artifact: str
    checks: tuple[Check, ...]
    kernels: tuple[KernelVerification, ...]
    policies: tuple[str | None, str]
    changes: tuple[PolicyChange, ...]
    devices: tuple[str | None, str]
    profiles: tuple[str | None, str]
    versions: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def status(self) -> CheckStatus:
        """The worst of everything."""
        return worst([*self.checks, *(check for kernel in self.kernels for check in kernel.checks)])

    def is_regression(self, *, strict: bool = False) -> bool:
        """Whether anything failed; with ``strict`` also whether there is a warning."""
        bad = (CheckStatus.FAILED, CheckStatus.WARNING) if strict else (CheckStatus.FAILED,)
        return self.status in bad

    def as_json(self) -> dict[str, Any]:
        """JSON values: old and new of everything that was compared."""
        return {
            "artifact": self.artifact,
            "status": self.status.value,
            "checks": [check.as_json() for check in self.checks],
            "policy": {
                "old": self.policies[0],
                "new": self.policies[1],
                "changes": [asdict(change) for change in self.changes],
            },
            "device": {"old": self.devices[0], "new": self.devices[1]},
            "profile": {"old": self.profiles[0], "new": self.profiles[1]},
            "versions": {name: {"old": old, "new": new} for name, (old, new) in self.versions.items()},
            "kernels": [kernel.as_json() for kernel in self.kernels],
            "remarks": list(self.remarks),
        }


def worst(checks: Iterable[Check]) -> CheckStatus:
    """The worst status of some checks; PASSED without any."""
    return max((check.status for check in checks), key=_ORDER.index, default=CheckStatus.PASSED)


def slowdown_of(old: Times, new: Times) -> float | None:
    """What a kernel lost, as a factor; 1 is nothing, None where nothing was recorded.

    A slower machine slows the untuned kernel down too, and a better compiler speeds it up without slowing the
    tuned one down: a regression shows in the time *and* in the gain, so the smaller of the two factors counts.
    """
    if old.best_secs is None or new.best_secs is None:
        return None
    by_time = new.best_secs / old.best_secs
    if old.speedup is None or new.speedup is None:
        return by_time
    return min(by_time, old.speedup / new.speedup)


def paired_times(best_secs: Sequence[float], default_secs: Sequence[float]) -> Times:
    """Medians of repeats taken in turns."""
    return Times(statistics.median(best_secs), statistics.median(default_secs))


def judge_times(old: Times, new: Times, max_slowdown: float) -> Check:
    """Hold a kernel's times against those recorded, and say both the time and the gain."""
    slowdown = slowdown_of(old, new)
    told = f"{_ms(old.best_secs)} -> {_ms(new.best_secs)}, gain over untuned {_gain(old)} -> {_gain(new)}"
    if slowdown is None:
        return Check("time", CheckStatus.SKIPPED, f"no time was recorded; now {_ms(new.best_secs)}")
    if slowdown > max_slowdown:
        return Check("time", CheckStatus.FAILED, f"{slowdown:.2f}x slower: {told}")
    if new.speedup is not None and new.speedup < _LOST_GAIN:
        return Check("time", CheckStatus.WARNING, f"the untuned kernel is faster now: {told}")
    return Check("time", CheckStatus.PASSED, told)


def _ms(secs: float | None) -> str:
    return "?" if secs is None else f"{secs * 1e3:.4g} ms"


def _gain(times: Times) -> str:
    return "?" if times.speedup is None else f"{times.speedup:.2f}x"
