"""Rules: what a hardware profile, or the compiler, says of a candidate before anything is built."""

from __future__ import annotations

from collections.abc import Iterable

from prune_engine.config import EngineConfig
from prune_engine.hookspecs import hookimpl
from prune_engine.strategies import Rule
from prune_engine_rules.code_size import InstructionCache
from prune_engine_rules.compiler import Duplicate, Refused
from prune_engine_rules.launch import SharedMemory, ThreadsPerBlock, VectorBytes
from prune_engine_rules.matrix import MatrixAlignment
from prune_engine_rules.occupancy import DeviceFill
from prune_engine_rules.reductions import UnitReduction
from prune_engine_rules.registers import RegisterPressure, VectorRegisters
from prune_engine_rules.residency import L1Residency, L2Residency
from prune_engine_rules.scratchpads import Scratchpads, SharedScratchpads
from prune_engine_rules.stages import ReductionLocation
from prune_engine_rules.summation import SummationOrder
from prune_engine_rules.threads import ThreadReduction
from prune_engine_rules.vectors import InnermostTile, VectorLength


@hookimpl
def register_rules() -> Iterable[Rule]:
    """Offer every rule; each does nothing where the profile does not give what it needs."""
    return [
        Refused(),
        Duplicate(),
        ThreadsPerBlock(),
        SharedMemory(),
        VectorBytes(),
        Scratchpads(),
        UnitReduction(),
        MatrixAlignment(),
        VectorLength(),
        InnermostTile(),
        ThreadReduction(),
        ReductionLocation(),
        RegisterPressure(),
        VectorRegisters(),
        L1Residency(),
        L2Residency(),
        SharedScratchpads(),
        DeviceFill(),
        InstructionCache(),
    ]


@hookimpl(specname="register_rules")
def register_demanded_rules(config: EngineConfig) -> Iterable[Rule]:
    """Offer what a user demands: with ``strict_fp``, sums in the untuned kernel's order."""
    return [SummationOrder()] if config.strict_fp else []
