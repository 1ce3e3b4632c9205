"""The roofline's parts: how much a kernel computes per byte, and what the device's profile allows.

Source of the model: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model", CACM 52(4).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from prune_engine.hardware.schema import HardwareProfile, MemoryLevel, Scope
from prune_engine.report.records import Ceiling
from prune_engine.task import TuningTask


def argument_bytes(task: TuningTask) -> int:
    """Bytes of a kernel's arguments and results, each once: its compulsory traffic. 0 for unknown types."""
    sizes = zip(task.arg_shapes, task.arg_dtypes, strict=True)
    return math.ceil(sum(math.prod(shape) * _bits(dtype) for shape, dtype in sizes) / 8)


def ceilings_of(profile: HardwareProfile, tasks: Sequence[TuningTask]) -> tuple[Ceiling, ...]:
    """The peaks of the types that the kernels compute in, and every memory level with a known bandwidth."""
    dtypes = sorted({task.arg_dtypes[0] for task in tasks if task.arg_dtypes})
    return (*_peaks(profile, dtypes), *_levels(profile))


def _peaks(profile: HardwareProfile, dtypes: Sequence[str]) -> Iterator[Ceiling]:
    for unit in profile.compute:
        for dtype in dtypes:
            if rate := unit.peak_flop_per_sec.get(dtype):
                yield Ceiling(f"{unit.name} {dtype} peak", profile.sources[rate.source], flop_per_sec=rate.value)


def _levels(profile: HardwareProfile) -> Iterator[Ceiling]:
    for level in profile.memory:
        rate = level.bandwidth_bytes_per_sec
        if rate is not None:
            n = _instances(level, profile)
            yield Ceiling(
                level.name if n == 1 else f"{level.name} ({n} of them)",
                profile.sources[rate.source],
                bytes_per_sec=rate.value * n,
            )


def _instances(level: MemoryLevel, profile: HardwareProfile) -> int:
    """Bandwidths are those of one instance; all of them serve a kernel that runs on all cores."""
    if level.instances is not None:
        return level.instances.value
    return profile.core_count.value if level.scope is Scope.CORE and profile.core_count else 1


def _bits(dtype: str) -> int:
    if dtype == "bool":
        return 8
    found = re.match(r"[a-z]+(\d+)", dtype)
    return int(found[1]) if found else 0
