"""Hardware profiles: what a device can do, as data."""

from __future__ import annotations

from prune_engine.hardware.host import host_profile, usable_cpus
from prune_engine.hardware.loader import load_profile
from prune_engine.hardware.registry import ProfileEntry, ProfileRegistry
from prune_engine.hardware.schema import (
    Calibration,
    ComputeUnit,
    Count,
    DeviceKind,
    HardwareProfile,
    Limits,
    MemoryLevel,
    Rate,
    Scope,
)

__all__ = [
    "Calibration",
    "ComputeUnit",
    "Count",
    "DeviceKind",
    "HardwareProfile",
    "Limits",
    "MemoryLevel",
    "ProfileEntry",
    "ProfileRegistry",
    "Rate",
    "Scope",
    "host_profile",
    "load_profile",
    "usable_cpus",
]
