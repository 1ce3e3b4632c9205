"""A hardware profile to test with."""

from __future__ import annotations

from prune_engine.hardware.schema import (
    ComputeUnit,
    Count,
    DeviceKind,
    HardwareProfile,
    Limits,
    MemoryLevel,
    Rate,
    Scope,
)

_CPU_LIMITS = {"vector_bytes": 64, "vector_registers": 32}
_GPU_LIMITS = {
    "vector_bytes": 16,
    "threads_per_warp": 32,
    "threads_per_block": 1024,
    "threads_per_core": 2048,
    "blocks_per_core": 32,
    "registers_per_thread": 255,
    "registers_per_block": 65536,
    "registers_per_core": 65536,
    "shared_memory_per_block_bytes": 49152,
    "shared_memory_per_core_bytes": 167936,
}


def make_profile(
    kind: DeviceKind = DeviceKind.CPU, *, name: str = "testing", cores: int = 2, **limits: int | None
) -> HardwareProfile:
    """Make a complete profile of an invented device; ``limits`` replaces single limits, None is unknown."""
    is_gpu = kind is DeviceKind.GPU
    numbers: dict[str, int | None] = {**(_GPU_LIMITS if is_gpu else _CPU_LIMITS), **limits}
    scratch = "shared" if is_gpu else "l1"
    return HardwareProfile(
        schema_version=1,
        name=name,
        kind=kind,
        core_count=_count(cores),
        clock_hz=_rate(2e9),
        memory=(
            _level(scratch, Scope.CORE, cores, 48 << 10, 2e11, is_hard_limit=is_gpu),
            _level("l2", Scope.CHIP if is_gpu else Scope.CORE, 1 if is_gpu else cores, 2 << 20, 1e11),
            _level("dram", Scope.CHIP, 1, 8 << 30, 2e10, is_hard_limit=True),
        ),
        compute=(
            ComputeUnit(
                name="fma",
                count=_count(2 * cores),
                lanes=_count(16),
                peak_flop_per_sec={"float32": _rate(2.0 * 2 * cores * 16 * 2e9)},
            ),
        ),
        limits=Limits(**{field: None if n is None else _count(n) for field, n in numbers.items()}),
        transaction_bytes=_count(32) if is_gpu else None,
        launch_secs=_rate(5e-6) if is_gpu else None,
        combine="max",
        sources={"invented": "an invented device"},
    )


def _count(value: int) -> Count:
    return Count(value=value, source="invented")


def _rate(value: float) -> Rate:
    return Rate(value=value, source="invented")


def _level(
    name: str, scope: Scope, instances: int, size_bytes: int, rate: float, *, is_hard_limit: bool = False
) -> MemoryLevel:
    return MemoryLevel(
        name=name,
        scope=scope,
        instances=_count(instances),
        capacity_bytes=_count(size_bytes),
        bandwidth_bytes_per_sec=_rate(rate),
        line_bytes=_count(64),
        is_hard_limit=is_hard_limit,
    )
