"""What the draft reads of a GPU's profile, and what it takes where the profile does not know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from prune_engine.hardware.schema import HardwareProfile

#: Bytes that a multiprocessor gets out of the second-level cache per cycle, where the profile gives no rate: one
#: sector. Measured on whole devices: 26 (V100), 32 (T4), 47 (A100), 27 (H200).
_L2_BYTES_PER_CYCLE: Final = 32
#: Bytes of a bank of shared memory; there is one for each lane of a warp (CUDA C++ programming guide).
BANK_BYTES: Final = 4
#: Seconds between two kernels of a stream, where the profile gives none (0.5 to 1.2 us measured on an H200).
_LAUNCH_SECS: Final = 1e-6
#: What a bare profile is taken for, so that it still ranks.
_WARP, _LANES, _CLOCK_HZ, _LINE_BYTES, _SECTOR_BYTES = 32, 128, 1.5e9, 128, 32


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """One GPU in the units of the draft; a core is a multiprocessor. Limits that are unknown are infinite.

    ``fma_per_cycle`` counts the multiply-adds of one core for the type in question, ``matrix_fma_per_cycle`` those
    of its matrix units (None: it has none for that type).
    """

    cores: float
    clock_hz: float
    warp: int
    fma_per_cycle: float
    matrix_fma_per_cycle: float | None
    line_bytes: float
    sector_bytes: float
    vector_bytes: float
    l2_bytes_per_sec: float
    l2_capacity_bytes: float
    dram_bytes_per_sec: float
    threads_per_core: float
    blocks_per_core: float
    registers_per_thread: float
    registers_per_core: float
    register_unit: float
    shared_bytes_per_core: float
    shared_unit_bytes: float
    launch_secs: float

    @staticmethod
    def of(profile: HardwareProfile, dtype: str) -> GpuDevice:
        """Read a profile, for kernels that compute in ``dtype``."""

        def known(path: str, otherwise: float = float("inf")) -> float:
            value = profile.value(path)
            return otherwise if value is None else float(value)

        cores, clock = known("core_count", 1.0), known("clock_hz", _CLOCK_HZ)
        flop_per_sec = profile.value(f"compute.simt.peak_flop_per_sec.{dtype}")
        matrix = profile.value(f"compute.tensor.peak_flop_per_sec.{dtype}")
        warp = int(known("limits.threads_per_warp", _WARP))
        return GpuDevice(
            cores=cores,
            clock_hz=clock,
            warp=warp,
            fma_per_cycle=_per_cycle(flop_per_sec, cores, clock) or known("compute.simt.lanes", _LANES),
            matrix_fma_per_cycle=_per_cycle(matrix, cores, clock),
            line_bytes=known("memory.l2.line_bytes", _LINE_BYTES),
            sector_bytes=known("transaction_bytes", _SECTOR_BYTES),
            vector_bytes=known("limits.vector_bytes", 4 * BANK_BYTES),
            l2_bytes_per_sec=known("memory.l2.bandwidth_bytes_per_sec", cores * clock * _L2_BYTES_PER_CYCLE),
            l2_capacity_bytes=known("memory.l2.capacity_bytes", 0.0),
            dram_bytes_per_sec=known("memory.dram.bandwidth_bytes_per_sec"),
            threads_per_core=known("limits.threads_per_core"),
            blocks_per_core=known("limits.blocks_per_core"),
            registers_per_thread=known("limits.registers_per_thread"),
            registers_per_core=known("limits.registers_per_core"),
            register_unit=known("limits.register_allocation_unit", 8 * warp) / warp,
            shared_bytes_per_core=known("limits.shared_memory_per_core_bytes"),
            shared_unit_bytes=known("limits.shared_memory_allocation_unit_bytes", 1.0),
            launch_secs=known("launch_secs", _LAUNCH_SECS),
        )


def _per_cycle(flop_per_sec: float | None, cores: float, clock_hz: float) -> float | None:
    return flop_per_sec / (2 * cores * clock_hz) if flop_per_sec else None
