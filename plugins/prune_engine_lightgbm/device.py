"""What a profile says of a device, as numbers a model can compare devices by."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from prune_engine.hardware.schema import DeviceKind, HardwareProfile

#: Names of a role's memory level or compute unit, the first that a profile has counts.
_FIRST_LEVEL = ("l1d", "l1", "shared", "l0c", "nram")
_FMA_UNITS = ("fma", "simt", "vector", "cube", "matrix")


@dataclass(frozen=True, slots=True)
class Device:
    """Limits of one device; NaN where nobody knows a number, so that columns divided by it are missing.

    ``kind`` is cpu, gpu or npu. Bytes are of one instance of a level; rates are of the whole device.
    """

    name: str
    kind: str
    vendor: str
    cores: float
    simd_lanes: float
    vector_registers: float
    l1_bytes: float
    l2_bytes: float
    l3_bytes: float
    line_bytes: float
    warp_threads: float
    block_threads: float
    registers_per_thread: float
    flop_per_sec: float
    dram_bytes_per_sec: float
    clock_hz: float

    def is_same(self, other: Device) -> bool:
        """Whether every number agrees, unknown ones included."""
        return repr(self) == repr(other)

    def columns(self) -> Mapping[str, float]:
        """log2 of each number, by name."""
        fields = (f for f in self.__dataclass_fields__ if f not in ("name", "kind", "vendor"))
        return {f"device.{f}": math.log2(getattr(self, f)) for f in fields}


def device_of(profile: HardwareProfile) -> Device:
    """Read a profile. The vendor is the first word of its name."""

    def number(*paths: str) -> float:
        found = (profile.value(path) for path in paths)
        return float(next((value for value in found if value is not None), math.nan))

    kind = profile.kind
    l1 = number(*(f"memory.{level}.capacity_bytes" for level in _FIRST_LEVEL))
    if kind is DeviceKind.GPU:
        l1 = number("limits.shared_memory_per_block_bytes", "limits.shared_memory_per_core_bytes")
    peaks = (f"compute.{unit}.peak_flop_per_sec.float32" for unit in _FMA_UNITS)
    return Device(
        name=profile.name,
        kind=kind.value,
        vendor=profile.name.partition("-")[0],
        cores=number("core_count"),
        simd_lanes=number("limits.vector_bytes") / 4,
        vector_registers=number("limits.vector_registers"),
        l1_bytes=l1,
        l2_bytes=number("memory.l2.capacity_bytes"),
        l3_bytes=number("memory.l3.capacity_bytes", "memory.l2.capacity_bytes"),
        line_bytes=number(
            "memory.l1d.line_bytes", "memory.l2.line_bytes", "transaction_bytes", "limits.vector_bytes"
        ),
        warp_threads=number("limits.threads_per_warp"),
        block_threads=number("limits.threads_per_block"),
        registers_per_thread=number("limits.registers_per_thread"),
        flop_per_sec=number(*peaks),
        dram_bytes_per_sec=number("memory.dram.bandwidth_bytes_per_sec"),
        clock_hz=number("clock_hz"),
    )
