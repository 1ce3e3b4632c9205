"""One figure of reliability: what was tried how often, and how often what must not happen did."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
#: Where full runs leave their figures, one file each; `figures.py` makes the page of them.
RECORDS = ROOT / "build" / "reliability"


@dataclass(frozen=True, slots=True)
class Figure:
    """What one test of survival found.

    ``n`` counts what was tried. ``zeros`` says how often what must never happen did happen, ``limits`` maps
    what was measured to (value, allowed), ``details`` is what else was seen.
    """

    name: str
    n: int
    zeros: Mapping[str, int]
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    details: Mapping[str, object] = field(default_factory=dict)

    @property
    def problems(self) -> list[str]:
        """What was not reached; empty if the figure is."""
        happened = [f"{what}: {n}" for what, n in self.zeros.items() if n]
        exceeded = [f"{what}: {value:g} > {most:g}" for what, (value, most) in self.limits.items() if value > most]
        return happened + exceeded

    def record(self) -> dict[str, object]:
        """The figure with its circumstances, as JSON values."""
        from benchmarks.machine import describe

        return {
            "figure": self.name,
            "n": self.n,
            "result": "failed" if self.problems else "passed",
            "details": {
                "must_not_happen": dict(self.zeros),
                "limits": {what: {"measured": v, "allowed": most} for what, (v, most) in self.limits.items()},
                **self.details,
            },
            "machine": describe(),
            "recorded_at": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        }

    def keep(self) -> None:
        """Write the record for the page."""
        RECORDS.mkdir(parents=True, exist_ok=True)
        staged = RECORDS / f".{self.name}.{os.getpid()}.tmp"
        staged.write_text(json.dumps(self.record(), indent=2) + "\n", encoding="utf-8")
        staged.replace(RECORDS / f"{self.name}.json")
