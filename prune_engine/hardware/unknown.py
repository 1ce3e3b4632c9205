"""A profile that knows nothing: for a device that nobody has described."""

from __future__ import annotations

import re

from prune_engine.hardware.levels import DeviceKind
from prune_engine.hardware.schema import HardwareProfile, Limits


def unknown_gpu(name: str) -> HardwareProfile:
    """A GPU of that name of which not one number is known: rules and models keep what they cannot judge."""
    plain = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._")
    return HardwareProfile(
        schema_version=1,
        name=plain or "unknown",
        kind=DeviceKind.GPU,
        description=f"{name}, not described by any profile",
        core_count=None,
        clock_hz=None,
        memory=(),
        compute=(),
        limits=Limits(
            vector_bytes=None,
            threads_per_warp=None,
            threads_per_block=None,
            threads_per_core=None,
            registers_per_block=None,
            shared_memory_per_block_bytes=None,
        ),
        transaction_bytes=None,
        launch_secs=None,
        combine="max",
        sources={},
    )
