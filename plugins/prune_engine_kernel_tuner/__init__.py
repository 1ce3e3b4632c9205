"""Kernel Tuner: prune a kernel's tunable parameters by a hardware profile, and tune in the engine's order.

`kernel_space` is the way in. What a name needs is imported when it is first asked for, Kernel Tuner itself when it
is first used.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from prune_engine.hookspecs import hookimpl

if TYPE_CHECKING:
    from prune_engine.hardware.schema import HardwareProfile
    from prune_engine_kernel_tuner.results import Results as Results
    from prune_engine_kernel_tuner.results import read_results as read_results
    from prune_engine_kernel_tuner.space import KernelSpace as KernelSpace
    from prune_engine_kernel_tuner.space import kernel_space as kernel_space
    from prune_engine_kernel_tuner.strategy import PruneEngineStrategy as PruneEngineStrategy

_HOMES = {
    "KernelSpace": "space",
    "PruneEngineStrategy": "strategy",
    "Results": "results",
    "kernel_space": "space",
    "read_results": "results",
}

__all__ = ["KernelSpace", "PruneEngineStrategy", "Results", "kernel_space", "read_results"]


@hookimpl
def resolve_hardware_profile(target: str, profiles: Mapping[str, HardwareProfile]) -> HardwareProfile | None:
    """Know devices by the names that their runtimes report, as in files of results."""
    from prune_engine_kernel_tuner.devices import profile_of_device

    return profile_of_device(target, profiles)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
