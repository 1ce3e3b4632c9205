"""Register pressure: values that do not fit into registers go to memory and back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.schema import DeviceKind, HardwareProfile
from prune_engine.strategies import Rule
from prune_engine.verdicts import BoolArray, RuleKind
from prune_engine_rules.limits import keep_all
from prune_engine_rules.tables import item_bytes

#: A compiler splits a tile before it spills all of it. Of recorded random schedules of six kernels (AVX-512), tiles
#: of up to twice the registers were among those within 10 % of the best; larger ones never.
_SPILL_FACTOR = 2
_REGISTERS = "cpu_s1_vector_registers"


class RegisterPressure(Rule):
    """A GPU thread needs more registers than it can have, or its block more than there are."""

    name, kind, order = "rules.register-pressure", RuleKind.HEURISTIC, 60
    hardware_basis = ("limits.registers_per_thread", "limits.registers_per_block")

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> BoolArray:
        """Keep what fits; bool (n,)."""
        keep = keep_all(batch)
        if profile.kind is not DeviceKind.GPU or not batch.knows("registers_per_thread"):
            return keep
        per_thread, per_block = (profile.value(path) for path in self.hardware_basis)
        if per_thread is not None:
            keep &= batch.symbol("registers_per_thread") <= per_thread
        if per_block is not None and batch.knows("threads_per_block"):
            keep &= batch.symbol("registers_per_thread") * batch.symbol("threads_per_block") <= per_block
        return keep

    def reason(self, symbols: Mapping[str, float], profile: HardwareProfile) -> str:
        """Say how many registers a thread and a block need, and what there is."""
        most, most_per_block = (profile.value(path) or "unknown" for path in self.hardware_basis)
        has = (
            f"{profile.name} has {most} a thread (limits.registers_per_thread)"
            f" and {most_per_block} a block (limits.registers_per_block)"
        )
        if "registers_per_thread" not in symbols or "threads_per_block" not in symbols:
            return f"registers: {has}"
        registers, threads = symbols["registers_per_thread"], symbols["threads_per_block"]
        per_block = registers * threads
        return f"{registers:.15g} registers a thread, {per_block:.15g} a block of {threads:.15g} threads; {has}"


class VectorRegisters(Rule):
    """The innermost tile of a CPU kernel needs several times the vector registers that there are."""

    name, kind, order = "rules.vector-registers", RuleKind.HEURISTIC, 61
    hardware_basis = ("limits.vector_registers", "limits.vector_bytes")

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> BoolArray:
        """Keep what fits into a few times the registers; bool (n,)."""
        count, size = (profile.value(path) for path in self.hardware_basis)
        dtypes = batch.space.task.arg_dtypes
        is_known = profile.kind is DeviceKind.CPU and batch.knows(_REGISTERS, "vector_lanes")
        if not is_known or count is None or size is None or not dtypes:
            return keep_all(batch)
        # The symbol counts registers as wide as the vectorised loop, be that one lane or four vectors.
        n_bytes = batch.symbol(_REGISTERS) * batch.symbol("vector_lanes") * item_bytes(dtypes[-1])
        return np.asarray(n_bytes <= _SPILL_FACTOR * count * size)

    def reason(self, symbols: Mapping[str, float], profile: HardwareProfile) -> str:
        """Say how many values wait in registers, and how many registers there are."""
        count, size = (profile.value(path) or "an unknown number of" for path in self.hardware_basis)
        has = (
            f"{_SPILL_FACTOR} x {count} registers of {size} bytes"
            f" ({profile.name}, limits.vector_registers and limits.vector_bytes)"
        )
        if _REGISTERS not in symbols or "vector_lanes" not in symbols:
            return f"an innermost tile of more than {has}"
        registers, lanes = symbols[_REGISTERS], symbols["vector_lanes"]
        return f"an innermost tile of {registers:.15g} x {lanes:.15g} values, more than {has}"
