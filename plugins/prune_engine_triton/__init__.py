"""Triton: `prune_configs_by` for `triton.autotune`, made of a hardware profile.

What a name needs is imported when it is first asked for. Triton itself is never imported: its configurations come
in by its own call.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

from prune_engine.hookspecs import hookimpl

if TYPE_CHECKING:
    from prune_engine.hardware.schema import HardwareProfile
    from prune_engine_triton.autotune import prune_configs_by as prune_configs_by
    from prune_engine_triton.footprints import Footprint as Footprint
    from prune_engine_triton.footprints import elementwise as elementwise
    from prune_engine_triton.footprints import matmul as matmul

_HOMES = {
    "Footprint": "footprints",
    "elementwise": "footprints",
    "matmul": "footprints",
    "prune_configs_by": "autotune",
}

__all__ = ["Footprint", "elementwise", "matmul", "prune_configs_by"]

#: Compute capability -> the device that stands for it. Limits are those of all its devices, rates are its own.
_REPRESENTATIVES: Final = {
    "cuda:37": "nvidia-tesla-k80",
    "cuda:70": "nvidia-titan-v",
    "cuda:75": "nvidia-t4",
    "cuda:80": "nvidia-a100-sxm-80gb",
    "cuda:86": "nvidia-rtx-3090",
    "cuda:87": "nvidia-jetson-agx-orin",
    "cuda:90": "nvidia-h100-sxm",
    "hip:gfx90a": "amd-mi250x-gcd",
}


@hookimpl
def resolve_hardware_profile(target: str, profiles: Mapping[str, HardwareProfile]) -> HardwareProfile | None:
    """Know Triton's targets, backend and architecture, such as ``cuda:80``."""
    return profiles.get(_REPRESENTATIVES.get(target, ""))


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
