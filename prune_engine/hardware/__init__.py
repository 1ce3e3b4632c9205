"""Hardware profiles: what a device can do, as data."""

from __future__ import annotations

from prune_engine.hardware.entries import ProfileEntry
from prune_engine.hardware.host import host_profile, usable_cpus
from prune_engine.hardware.levels import level_names
from prune_engine.hardware.loader import load_profile
from prune_engine.hardware.registry import BrokenProfileWarning, Choice, ProfileRegistry
from prune_engine.hardware.schema import (
    Calibration,
    ComputeUnit,
    Count,
    DeviceKind,
    HardwareProfile,
    Limits,
    MemoryLevel,
    Probe,
    Rate,
    Scope,
    Tile,
)

__all__ = [
    "BrokenProfileWarning",
    "Calibration",
    "Choice",
    "ComputeUnit",
    "Count",
    "DeviceKind",
    "HardwareProfile",
    "Limits",
    "MemoryLevel",
    "Probe",
    "ProfileEntry",
    "ProfileRegistry",
    "Rate",
    "Scope",
    "Tile",
    "host_profile",
    "level_names",
    "load_profile",
    "usable_cpus",
]
