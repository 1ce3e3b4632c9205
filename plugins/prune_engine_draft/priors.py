"""Weights of the terms that ship with the plugin, per family of devices.

The file is made by tests/benchmarks/draft_calibrate.py from recorded spaces.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from prune_engine.hardware.schema import HardwareProfile
from prune_engine_draft.terms import Float64Array

PRIORS_FILE = Path(__file__).with_name("priors.json")


def family_of(profile: HardwareProfile) -> str:
    """Which devices share weights: a kind of device, on CPUs with vectors of one width."""
    vector_bytes = profile.value("limits.vector_bytes")
    return f"cpu-{vector_bytes * 8:.0f}" if profile.kind.value == "cpu" and vector_bytes else profile.kind.value


def prior_weights(profile: HardwareProfile, names: Sequence[str]) -> Float64Array:
    """Weights of the named terms, float64 (t,), > 0; 1 where nobody fitted any."""
    known = _shipped().get(family_of(profile), {})
    return np.array([known.get(name, 1.0) for name in names])


@lru_cache(maxsize=1)
def _shipped() -> dict[str, dict[str, float]]:
    return {family: dict(entry["weights"]) for family, entry in json.loads(PRIORS_FILE.read_text()).items()}
