"""The draft for CPUs: seconds per cause of each statement, from what its innermost body does and what it moves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.symbols.bands import kernels
from prune_engine.symbols.expr import Expr
from prune_engine.symbols.loop_nest import LoopKind, LoopNest, Role, Statement
from prune_engine.symbols.statement import extent_of
from prune_engine.symbols.structure import GroupColumns, group_columns
from prune_engine_draft.cpu_body import VectorUnit, body_of
from prune_engine_draft.cpu_caches import traffic_bytes
from prune_engine_draft.cpu_machine import CpuMachine, machine_of
from prune_engine_draft.terms import DraftTerms, Float64Array

#: Cycles until the result of a fused multiply-add can be used; stores a core can do at once.
_LATENCY_CYCLES, _STORES_PER_CYCLE = 4.0, 1.0
#: Serial copies of a body that LLVM unrolls by itself: about 300 of its instructions, 6 for each copy.
_FULL_UNROLL = 48
_TRIP_CYCLES, _CALL_CYCLES, _TASK_CYCLES = 1.0, 9.0, 100.0
_BYTES_PER_COPY = 16.0
_WINDOW = 64.0

TERMS = ("core", "results", "spills", "loops", "calls", "l1d", "l2", "l3", "fork", "tasks")
_BODY = (
    "arithmetic",
    "loads",
    "results",
    "stores",
    "reloads",
    "accumulators",
    "registers",
    "copies",
    "chain",
    "steps",
    "trips",
    "calls",
)


def cpu_terms(batch: CandidateBatch, profile: HardwareProfile) -> DraftTerms:
    """Draft candidates of a CPU kernel. Raises SpaceError for a batch whose sketch could not be read."""
    machine = machine_of(profile, batch.space.task)
    n = len(batch)
    terms = {name: np.zeros(n) for name in TERMS}
    stages = {name: np.zeros(n) for name in _STAGES}

    def formulas(nest: LoopNest) -> Sequence[Expr]:
        return _formulas(nest, machine)

    for group in group_columns(batch, formulas):
        rows = slice(None) if group.rows is None else group.rows
        found, costs = _judge(group, machine, profile.combine)
        for name, secs in found.items():
            terms[name][rows] = secs
        for name, secs in costs.items():
            stages[name][rows] = secs
    latency = sum(terms.values(), np.zeros(n))
    return DraftTerms(np.maximum(latency, 1e-9), terms, _penalties(stages, latency))


#: What the time would be if only the causes up to this one existed, in this order.
_STAGES = ("peak", "lanes", "chains", "ports", "registers", "all_cores")


def _penalties(stages: dict[str, Float64Array], latency: Float64Array) -> dict[str, Float64Array]:
    """What each cause leaves of the peak: time without it over time with it."""
    names = ("lanes", "chains", "ports", "registers", "cores")
    times = [stages[name] for name in _STAGES]
    found = {name: _ratio(before, after) for name, before, after in zip(names, times, times[1:], strict=False)}
    found["memory_and_loops"] = _ratio(times[-1], latency)
    return found


def _ratio(before: Float64Array, after: Float64Array) -> Float64Array:
    ratio = np.divide(before, after, out=np.ones_like(before), where=after > 0)
    return np.clip(ratio, 1e-9, 1.0)


def _formulas(nest: LoopNest, machine: CpuMachine) -> Sequence[Expr]:
    """Columns of all statements, in the order that `_judge` reads them in."""
    key = f"draft.cpu: columns for {machine.register_bytes} {machine.unit_bytes} {machine.caches}"
    known = nest.formulas.get(key + " 0")
    if known is not None:
        count = nest.formulas[key].constant or 0
        return [nest.formulas[f"{key} {i}"] for i in range(count)]
    found: list[Expr] = []
    for number, statement in enumerate(nest.statements):
        body = body_of(nest, statement, _unit(nest, statement, machine))
        found += [getattr(body, name) for name in _BODY]
        found.append(extent_of(statement, (LoopKind.PARALLEL,)))
        found += traffic_bytes(nest, number, machine.caches)
    from prune_engine.symbols.expr import as_expr

    nest.formulas[key] = as_expr(len(found))
    nest.formulas.update((f"{key} {i}", expr) for i, expr in enumerate(found))
    return found


def _unit(nest: LoopNest, statement: Statement, machine: CpuMachine) -> VectorUnit:
    item = max(nest.buffers[access.buffer].item_bytes for access in statement.accesses)
    return VectorUnit(max(1, machine.register_bytes // item), max(1, machine.unit_bytes // item), _FULL_UNROLL)


def _judge(
    group: GroupColumns, machine: CpuMachine, combine: str
) -> tuple[dict[str, Float64Array], dict[str, Float64Array]]:
    """Seconds per term, and per stage, of one group's candidates."""
    n = len(group.columns[0]) if group.columns else 0
    terms = {name: np.zeros(n) for name in TERMS}
    stages = {name: np.zeros(n) for name in _STAGES}
    width = len(_BODY) + 1 + len(machine.caches)
    cycle = 1.0 / machine.clock_hz
    first_of = {kernel.start for kernel in kernels(group.nest)}
    for number, statement in enumerate(group.nest.statements):
        columns = group.columns[number * width : (number + 1) * width]
        found = dict(zip(_BODY, columns, strict=False))
        turns = columns[len(_BODY)].astype(np.float64)
        share = np.ceil(turns / machine.cores) / turns  # of the whole work, on the busiest core
        slowdown = _slowdown(group.nest, statement, machine)
        arithmetic = found["arithmetic"] * (slowdown / machine.pipes)
        parallel = np.maximum(found["accumulators"], _WINDOW / np.maximum(found["chain"], 1)) * (found["chain"] > 0)
        parallel = np.maximum(parallel, found["accumulators"])
        chains = np.maximum(arithmetic, found["steps"] * found["accumulators"] * _LATENCY_CYCLES / parallel)
        loads, stores = found["loads"] / machine.pipes, found["stores"] / _STORES_PER_CYCLE
        results = found["results"] / machine.pipes
        spilled = np.where(found["registers"] > machine.registers, found["reloads"], 0)
        ports = core = _combined(chains, loads, stores, combine)
        scale = share * cycle
        terms["core"] += core * scale
        terms["results"] += (results + (stores if statement.role is Role.UPDATE else 0)) * scale
        terms["spills"] += spilled * (1 / machine.pipes + 1 / _STORES_PER_CYCLE) * scale
        terms["loops"] += found["trips"] * (_TRIP_CYCLES * scale)
        terms["calls"] += found["calls"] * (_CALL_CYCLES * scale)
        for position, (cache, rate) in enumerate(zip(machine.caches, machine.fill_bytes_per_cycle, strict=True)):
            terms[cache.name] += columns[len(_BODY) + 1 + position] / rate * scale
        for name, cycles in (("lanes", arithmetic), ("chains", chains), ("ports", ports), ("registers", core)):
            stages[name] += cycles * (cycle / machine.cores)
        stages["all_cores"] += core * scale
        if number in first_of:
            terms["fork"] += np.where(turns > 1, machine.fork_secs if machine.cores > 1 else 0.0, 0.0)
            terms["tasks"] += np.ceil(turns / machine.cores) * (_TASK_CYCLES * cycle)
    stages["peak"] = stages["lanes"]
    return terms, stages


def _combined(compute: Float64Array, loads: Float64Array, stores: Float64Array, combine: str) -> Float64Array:
    if combine == "sum":
        return compute + loads + stores
    return np.maximum(np.maximum(compute, loads), stores)


def _slowdown(nest: LoopNest, statement: Statement, machine: CpuMachine) -> float:
    """Of the dtype that the statement computes with."""
    dtypes = {nest.buffers[access.buffer].dtype for access in statement.accesses if not access.is_write}
    return max((machine.dtype_slowdown.get(dtype, 1.0) for dtype in dtypes), default=1.0)
