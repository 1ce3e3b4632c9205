"""Tables of kernels as arguments: which files they are, and the profile of a device that one names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from prune_engine.display.streams import say

if TYPE_CHECKING:
    from prune_engine.hardware.schema import HardwareProfile


def is_table(path: Path) -> bool:
    """Whether a table of kernels is meant, by the name alone."""
    return path.name.endswith((".tsv", ".tsv.gz"))


def profile_of_device(device: str, wanted: str | None) -> HardwareProfile:
    """The profile asked for, else that of the device, else one that knows nothing."""
    from prune_engine.errors import ProfileError
    from prune_engine.hardware.registry import ProfileRegistry
    from prune_engine.hardware.unknown import unknown_gpu
    from prune_engine.recorded.kernel_tables import plain_device_name

    registry = ProfileRegistry()
    if wanted is not None:
        return registry.resolve(wanted)
    try:
        return registry.resolve(plain_device_name(device))
    except ProfileError:
        say(f"warning: no profile describes {device}: its numbers count as unknown")
        return unknown_gpu(device)
