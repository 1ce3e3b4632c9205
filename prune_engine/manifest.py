"""What is recorded of a run besides its results."""

from __future__ import annotations

from collections.abc import Mapping

from prune_engine import __version__
from prune_engine.config import EngineConfig
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.measurement import Workbench


def manifest_of(
    config: EngineConfig, workbench: Workbench, profile: HardwareProfile, added: Mapping[str, object]
) -> dict[str, object]:
    """Version, device, threads, profile and options of a run as JSON values, and what the caller adds."""
    return {
        "prune_engine": __version__,
        "device": workbench.device_name(),
        "n_threads": workbench.n_threads(),
        "profile": profile.name,
        "config": config.model_dump(mode="json"),
        **added,
    }
