"""A profile of this machine, from what the operating system says. What it does not say stays unknown."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

from prune_engine.hardware.levels import is_level_name, level_names
from prune_engine.hardware.schema import (
    SCHEMA_VERSION,
    ComputeUnit,
    Count,
    DeviceKind,
    HardwareProfile,
    Limits,
    MemoryLevel,
    Origin,
    Rate,
    Scope,
)

#: The name of a profile of what the operating system says.
HOST = "host"
_SOURCES = {
    "cpuinfo": "/proc/cpuinfo of this machine",
    "sysfs": "/sys/devices/system/cpu of this machine",
    "sysconf": "memory pages of this machine, from sysconf",
    "caller": "the number of threads asked for",
    "isa": "follows from the instruction sets that the processor reports",
}
#: Instruction set flag -> vector bytes and architectural vector registers; the widest that is there counts.
_VECTORS = (("avx512f", 64, 32), ("avx2", 32, 16), ("avx", 32, 16), ("sse2", 16, 16), ("asimd", 16, 32))
_SIZE_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def usable_cpus() -> frozenset[int]:
    """Numbers of the processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def cpu_model(root: Path = Path("/")) -> str:
    """The processor's model name, as /proc/cpuinfo has it; the architecture where it has none."""
    return _cpuinfo(root).get("model name") or platform.processor() or platform.machine() or "unknown"


def host_profile(n_threads: int, *, root: Path = Path("/"), cpus: frozenset[int] | None = None) -> HardwareProfile:
    """Describe this machine for kernels of ``n_threads`` threads.

    Peaks, bandwidths and clock are unknown: nothing reports them. ``root`` and ``cpus`` replace the file
    system and the usable processors, for machines other than this one.
    """
    flags = set((_cpuinfo(root).get("flags") or _cpuinfo(root).get("Features") or "").split())
    vector = next((v for v in _VECTORS if v[0] in flags), None)
    vector_bytes = _count(vector[1], "isa", "derived") if vector else None
    lanes = _count(vector[1] // 4, "isa", "derived") if vector else None
    return HardwareProfile(
        schema_version=SCHEMA_VERSION,
        name=HOST,
        kind=DeviceKind.CPU,
        description=cpu_model(root),
        core_count=_count(n_threads, "caller"),
        clock_hz=_base_clock(root),
        memory=(*_caches(root, usable_cpus() if cpus is None else cpus), _main_memory()),
        compute=(ComputeUnit(name="vector", count=None, lanes=lanes, peak_flop_per_sec={}),),
        limits=Limits(
            vector_bytes=vector_bytes,
            vector_registers=_count(vector[2], "isa", "derived") if vector else None,
        ),
        transaction_bytes=None,
        launch_secs=None,
        combine="max",
        sources=_SOURCES,
    )


def _count(value: int, source: str, origin: Origin = "declared") -> Count:
    return Count(value=value, source=source, origin=origin)


def _cpuinfo(root: Path) -> dict[str, str]:
    """The first processor's entries."""
    text = _read(root / "proc/cpuinfo") or ""
    lines = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in lines}


def _base_clock(root: Path) -> Rate | None:
    # Only the base frequency: the momentary one would give every run another digest.
    khz = _read(root / "sys/devices/system/cpu/cpu0/cpufreq/base_frequency")
    return Rate(value=float(khz) * 1e3, source="sysfs") if khz and khz.isdigit() else None


def _caches(root: Path, cpus: frozenset[int]) -> list[MemoryLevel]:
    """Caches of the first usable processor, innermost first."""
    by_name: dict[str, MemoryLevel] = {}
    if not cpus:
        return []
    for index in sorted((root / f"sys/devices/system/cpu/cpu{min(cpus)}/cache").glob("index*")):
        name, size = _level_name(_read(index / "level"), _read(index / "type")), _bytes(_read(index / "size"))
        if not is_level_name(DeviceKind.CPU, name):
            continue
        sharing = {
            shared
            for cpu in cpus
            if (
                shared := _cpu_list(
                    _read(root / f"sys/devices/system/cpu/cpu{cpu}/cache/{index.name}/shared_cpu_list")
                )
            )
        }
        by_name[name] = MemoryLevel(
            name=name,
            scope=_scope(root, sharing, cpus),
            instances=_count(len(sharing), "sysfs", "derived") if sharing else None,
            capacity_bytes=_count(size, "sysfs") if size else None,
            bandwidth_bytes_per_sec=None,
            line_bytes=_number(index / "coherency_line_size"),
            is_hard_limit=False,
            ways=_number(index / "ways_of_associativity"),
        )
    return [by_name[name] for name in level_names(DeviceKind.CPU) if name in by_name]


def _level_name(level: str | None, kind: str | None) -> str:
    if level == "1":
        return "l1i" if kind == "Instruction" else "l1d"
    return f"l{level}"


def _number(path: Path) -> Count | None:
    text = _read(path)
    return _count(int(text), "sysfs") if text and text.isdecimal() and int(text) else None


def _scope(root: Path, sharing: set[frozenset[int]], cpus: frozenset[int]) -> Scope:
    first = next((s for s in sharing if min(cpus) in s), frozenset({min(cpus)}))
    siblings = _cpu_list(
        _read(root / f"sys/devices/system/cpu/cpu{min(cpus)}/topology/thread_siblings_list")
    ) or frozenset({min(cpus)})
    if first <= siblings:
        return Scope.CORE
    return Scope.CHIP if first >= cpus else Scope.CLUSTER


def _main_memory() -> MemoryLevel:
    try:
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        size = 0
    return MemoryLevel(
        name="dram",
        scope=Scope.CHIP,
        instances=None,
        capacity_bytes=_count(size, "sysconf") if size > 0 else None,
        bandwidth_bytes_per_sec=None,
        line_bytes=None,
        is_hard_limit=True,
    )


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _bytes(text: str | None) -> int | None:
    match = re.fullmatch(r"(\d+)([KMG]?)", text or "")
    return int(match.group(1)) * _SIZE_UNITS.get(match.group(2), 1) if match else None


def _cpu_list(text: str | None) -> frozenset[int]:
    """Processor numbers of a kernel list such as ``0-3,8``."""
    ranges = re.findall(r"(\d+)(?:-(\d+))?", text or "")
    return frozenset(cpu for low, high in ranges for cpu in range(int(low), int(high or low) + 1))
