"""A CPU as the draft sees it: one core's vector unit and caches, in cycles, and how many cores run.

Where a profile is silent a number common among today's cores stands in: the order of candidates depends on ratios
of these, and a task's first measurements correct them.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Final

from prune_engine.hardware.schema import ComputeUnit, HardwareProfile
from prune_engine.task import TuningTask
from prune_engine_draft.cpu_caches import Cache

#: Assumed where nobody says: two 256-bit pipes, 32 KiB and 1 MiB of cache, 64-byte lines, 3 GHz.
_VECTOR_BYTES: Final = 32
_REGISTERS: Final = 16
_PIPES: Final = 2
_CLOCK_HZ: Final = 3.0e9
_LINE_BYTES: Final = 64
_CAPACITY_BYTES: Final = {"l1d": 32 << 10, "l2": 1 << 20, "l3": 16 << 20}
_WAYS: Final = {"l1d": 8, "l2": 8}
#: Bytes a cycle into a core from the level outside, by the cache that is filled. The first is filled as fast as the
#: vector unit is wide: 64 bytes on Intel's cores of 512 bits, 32 on Zen 2 to 4 (their optimisation guides).
_FILL_BYTES_PER_CYCLE: Final = {"l2": 12.0, "l3": 6.0}
_SOURCE_OF: Final = {"l1d": "l2", "l2": "l3", "l3": "dram"}
_FORK_SECS: Final = 5.0e-6


@dataclass(frozen=True, slots=True)
class CpuMachine:
    """``unit_bytes`` is what one pipe does at once, ``register_bytes`` a vector register.

    ``caches`` are those a core fills, innermost first, and ``fill_bytes_per_cycle`` how fast, one core alone; an
    outer cache counts with a core's share of it. ``dtype_slowdown`` is by how much a peak falls short of the
    lanes' worth, by dtype.
    """

    cores: int
    clock_hz: float
    register_bytes: int
    unit_bytes: int
    pipes: float
    registers: int
    code_bytes: int
    caches: tuple[Cache, ...]
    fill_bytes_per_cycle: tuple[float, ...]
    fork_secs: float
    dtype_slowdown: dict[str, float]


def machine_of(profile: HardwareProfile, task: TuningTask) -> CpuMachine:
    """The cores that this task's kernels run on: the profile's, but no more than its target names."""
    owned = profile.core_count.value if profile.core_count else 1
    cores = min(owned, _target_cores(task.target) or owned)
    register_bytes = _number(profile, "limits.vector_bytes", _VECTOR_BYTES)
    unit = next((u for u in profile.compute if u.lanes is not None), None)
    unit_bytes = min(register_bytes, 4 * unit.lanes.value) if unit and unit.lanes else register_bytes
    pipes = unit.count.value / owned if unit and unit.count else _PIPES
    clock_hz = profile.clock_hz.value if profile.clock_hz else _CLOCK_HZ
    caches, fills = [], []
    for name, source in _SOURCE_OF.items():
        cache = _cache(profile, name, cores, owned)
        if cache is None:
            continue
        caches.append(cache)
        fills.append(_fill(profile, source, cores, clock_hz) or _FILL_BYTES_PER_CYCLE.get(name, float(unit_bytes)))
    return CpuMachine(
        cores=cores,
        clock_hz=clock_hz,
        register_bytes=int(register_bytes),
        unit_bytes=int(unit_bytes),
        pipes=pipes,
        registers=int(_number(profile, "limits.vector_registers", _REGISTERS)),
        code_bytes=int(_number(profile, "memory.l1i.capacity_bytes", 32 << 10)),
        caches=tuple(caches),
        fill_bytes_per_cycle=tuple(fills),
        fork_secs=profile.launch_secs.value if profile.launch_secs else _FORK_SECS,
        dtype_slowdown=_slowdowns(unit),
    )


def _target_cores(target: str) -> int | None:
    """What a canonical target says of its cores."""
    try:
        described = json.loads(target)
    except ValueError:
        return None
    cores = described.get("num-cores") if isinstance(described, dict) else None
    return cores if isinstance(cores, int) and cores > 0 else None


def _number(profile: HardwareProfile, path: str, otherwise: float) -> float:
    value = profile.value(path)
    return otherwise if value is None else value


def _cache(profile: HardwareProfile, name: str, cores: int, owned: int) -> Cache | None:
    """A core's share of a level; None for a level that the device does not have."""
    level = profile.level(name)
    if level is None and (name == "l3" or any(m.name != "dram" for m in profile.memory)):
        return None
    capacity = level.capacity_bytes.value if level and level.capacity_bytes else _CAPACITY_BYTES[name]
    instances = level.instances.value if level and level.instances else owned
    sharers = max(1, math.ceil(cores / max(1, instances)))
    line = level.line_bytes.value if level and level.line_bytes else _LINE_BYTES
    ways = level.ways.value if level and level.ways else _WAYS.get(name)
    return Cache(name, capacity // sharers, line, ways if name in _WAYS else None)


def _fill(profile: HardwareProfile, source: str, cores: int, clock_hz: float) -> float | None:
    """Bytes a cycle that one core gets out of a level."""
    level = profile.level(source)
    if level is None or level.bandwidth_bytes_per_sec is None:
        return None
    instances = level.instances.value if level.instances else 1
    sharers = max(1, math.ceil(cores / instances))
    return level.bandwidth_bytes_per_sec.value / sharers / clock_hz


def _slowdowns(unit: ComputeUnit | None) -> dict[str, float]:
    """Peak by lanes over peak as told: 2 for float16 on a unit that has no half-width arithmetic."""
    if unit is None:
        return {}
    known = {name: rate.value for name, rate in unit.peak_flop_per_sec.items() if rate is not None}
    base = known.get("float32")
    if not base:
        return {}
    widths = {"float64": 8, "float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1, "int32": 4}
    return {name: base * 4 / widths[name] / rate for name, rate in known.items() if name in widths}
