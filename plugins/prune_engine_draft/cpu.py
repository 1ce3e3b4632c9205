"""The draft for CPUs: seconds per cause of each statement, from what its innermost body does and what it moves."""

from __future__ import annotations

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.symbols.loop_nest import Role
from prune_engine.symbols.structure import group_columns
from prune_engine_draft.cpu_body import Body, body_of
from prune_engine_draft.cpu_caches import boxes_of, filled_bytes
from prune_engine_draft.cpu_columns import LoopColumns
from prune_engine_draft.cpu_machine import CpuMachine, machine_of
from prune_engine_draft.cpu_plan import Float32Array, StatementPlan, plan_of
from prune_engine_draft.cpu_together import Positions, Together, together
from prune_engine_draft.cpu_unrolling import VectorUnit
from prune_engine_draft.terms import DraftTerms, Float64Array

#: Cycles until the result of a fused multiply-add can be used; stores a core can do at once.
_LATENCY_CYCLES, _STORES_PER_CYCLE = 4.0, 1.0
#: Serial copies of a body that LLVM unrolls by itself: about 300 of its instructions, 6 for each copy.
_FULL_UNROLL = 48
_TRIP_CYCLES, _CALL_CYCLES, _TASK_CYCLES = 1.0, 9.0, 100.0
#: How fast steps that use the stack become all of them with the registers that are wanting, and the cycles of one.
_SPILL_STEEPNESS, _SPILL_CYCLES = 3.0, 1.0
#: Instructions that wait for their operands at once: bodies that do not depend on each other overlap within it.
_WINDOW = 64.0
#: A copy is a fused multiply-add with its load: two instructions of about 8 bytes.
_CODE_BYTES_PER_COPY = 16.0
#: Rows at a time: few enough for most columns to stay in a cache, enough for calls of numpy to be the lesser part.
_CHUNK_ROWS = 8192

_INSIDE, _FILLS = ("core", "results", "spills", "loops", "code", "calls"), ("l1d", "l2", "l3")
TERMS = ("core", "results", "spills", "loops", "code", "calls", "l1d", "l2", "l3", "fork", "tasks")


def cpu_terms(batch: CandidateBatch, profile: HardwareProfile) -> DraftTerms:
    """Draft candidates of a CPU kernel. Raises SpaceError for a batch whose sketch could not be read."""
    machine = machine_of(profile, batch.space.task)
    n = len(batch)
    terms = {name: np.zeros(n) for name in TERMS}
    stages = {name: np.zeros(n) for name in _STAGES}
    for groups in together(group_columns(batch, lambda nest: plan_of(nest).exprs, _CHUNK_ROWS), _CHUNK_ROWS):
        found = _judge(groups, machine, profile.combine)
        for name, secs in found.items():
            (stages if name in stages else terms)[name][groups.rows] = secs
    _overlap(terms)
    latency = sum(terms.values(), np.zeros(n))
    return DraftTerms(np.maximum(latency, 1e-9), terms, _penalties(stages, latency))


def _overlap(terms: dict[str, Float64Array]) -> None:
    """Leave of what fills the caches, in place, only what is not hidden behind what the core does meanwhile.

    Fills run ahead of their use, by prefetching and out-of-order execution, but not all of them. Between the sum
    and the larger of the two lies the root of the squares, of the core's work and the fills of each cache.
    """
    inside = sum((terms[name] for name in _INSIDE), np.zeros(len(terms["core"])))
    fills = [terms[name] for name in _FILLS]
    exposed = np.sqrt(inside**2 + sum((fill**2 for fill in fills), np.zeros(len(inside)))) - inside
    told = sum(fills, np.zeros(len(inside)))
    share = np.divide(exposed, told, out=np.zeros_like(told), where=told > 0)
    for name, fill in zip(_FILLS, fills, strict=True):
        terms[name] = fill * share


#: What the time would be if only the causes up to this one existed, in this order.
_STAGES = ("peak", "lanes", "chains", "ports", "all_cores")


def _penalties(stages: dict[str, Float64Array], latency: Float64Array) -> dict[str, Float64Array]:
    """What each cause leaves of the peak: time without it over time with it."""
    names = ("lanes", "chains", "ports", "cores")
    times = [stages[name] for name in _STAGES]
    found = {name: _ratio(before, after) for name, before, after in zip(names, times, times[1:], strict=False)}
    found["memory_and_loops"] = _ratio(times[-1], latency)
    return found


def _ratio(before: Float64Array, after: Float64Array) -> Float64Array:
    ratio = np.divide(before, after, out=np.ones_like(before), where=after > 0)
    return np.clip(ratio, 1e-9, 1.0)


def _judge(groups: Together, machine: CpuMachine, combine: str) -> dict[str, Float32Array]:
    """Seconds per term, and per stage, of some structures' candidates, float32 (n,) each.

    Statements that are alike are judged together, each candidate's in the order of its program.
    """
    found = {name: np.zeros(groups.n, dtype=np.float32) for name in (*TERMS, *_STAGES)}
    for alike in groups.alike:
        # What an INIT sets is in a cache when it is added to, and whatever it touches the reduction touches too.
        if machine.caches and alike.plan.statement.role is not Role.INIT:
            alike.boxes = boxes_of(alike.loops, machine.caches[0].line_bytes)
    for alike in groups.alike:
        one = alike.loops
        item = one.plan.item_bytes
        unit = VectorUnit(
            max(1, machine.register_bytes // item),
            max(1, machine.unit_bytes // item),
            machine.registers,
            _FULL_UNROLL,
        )
        _add_core(found, alike.at, one, body_of(one, unit), machine, combine)
        if alike.boxes:
            filled = filled_bytes(one, alike.boxes, groups.room(alike), machine.caches)
            scale = _share(one, machine) / machine.clock_hz
            for cache, rate, moved in zip(machine.caches, machine.fill_bytes_per_cycle, filled, strict=True):
                found[cache.name][alike.at] += moved / rate * scale
    return found


def _add_core(
    found: dict[str, Float32Array],
    at: Positions,
    loops: LoopColumns,
    body: Body,
    machine: CpuMachine,
    combine: str,
) -> None:
    """Add what statements that are alike take within a core, to the candidates that they are of."""
    arithmetic = body.arithmetic * (_slowdown(loops.plan, machine) / machine.pipes)
    overlapping = np.where(body.chain > 0, _WINDOW / np.maximum(body.chain, 1), 0)
    n_chains = np.maximum(body.accumulators, overlapping)
    chains = np.maximum(arithmetic, body.steps * body.accumulators * _LATENCY_CYCLES / n_chains)
    loads, stores = body.loads / machine.pipes, body.stores / _STORES_PER_CYCLE
    core: Float32Array = _combined(chains, loads, stores, combine)
    scale = _share(loops, machine) / machine.clock_hz
    found["core"][at] += core * scale
    if loops.plan.statement.role is Role.UPDATE:
        found["results"][at] += (body.results / machine.pipes + stores) * scale
        found["spills"][at] += _spills(body, machine) * scale
    found["loops"][at] += body.trips * (_TRIP_CYCLES * scale)
    if machine.fill_bytes_per_cycle:
        beyond = np.maximum(body.copies * np.float32(_CODE_BYTES_PER_COPY) - machine.code_bytes, 0)
        found["code"][at] += body.trips * beyond * (scale / machine.fill_bytes_per_cycle[0])
    found["calls"][at] += body.calls * (_CALL_CYCLES * scale)
    ideal = body.ideal * (_slowdown(loops.plan, machine) / machine.pipes)
    for name, cycles in (("peak", ideal), ("lanes", arithmetic), ("chains", chains), ("ports", core)):
        found[name][at] += cycles / (machine.clock_hz * machine.cores)
    found["all_cores"][at] += core * scale
    if loops.plan.is_first_of_kernel:
        turns = loops.parallel_turns
        if machine.cores > 1:
            found["fork"][at] += (turns > 1) * np.float32(machine.fork_secs)
        found["tasks"][at] += np.ceil(turns / machine.cores) * (_TASK_CYCLES / machine.clock_hz)


def _spills(body: Body, machine: CpuMachine) -> Float32Array:
    """Cycles of what does not fit into registers: what each body reads again, and allocation that fails.

    LLVM does not keep as many accumulators as fit. With a tenth more than there are registers, a third of the steps
    of straight code has a load or a store of the stack; with a third more, each has one (counted in its assembly
    for AVX-512, 32 to 64 accumulators).
    """
    without = np.maximum(1 - machine.registers / np.maximum(body.registers, 1), 0)
    again = without * body.reloads * np.float32(1 / machine.pipes + 1 / _STORES_PER_CYCLE)
    failing = np.clip(_SPILL_STEEPNESS * (body.registers / np.float32(machine.registers) - 1), 0, 1)
    cycles: Float32Array = np.maximum(again, failing * body.arithmetic * np.float32(_SPILL_CYCLES))
    return cycles


def _share(loops: LoopColumns, machine: CpuMachine) -> Float32Array:
    """Of the whole work, what the busiest core does."""
    turns = loops.parallel_turns
    share: Float32Array = np.ceil(turns / np.float32(machine.cores)) / turns
    return share


def _combined(compute: Float32Array, loads: Float32Array, stores: Float32Array, combine: str) -> Float32Array:
    if combine == "sum":
        return compute + loads + stores
    longest: Float32Array = np.maximum(np.maximum(compute, loads), stores)
    return longest


def _slowdown(plan: StatementPlan, machine: CpuMachine) -> float:
    """Of the dtypes that the statement reads."""
    return max((machine.dtype_slowdown.get(dtype, 1.0) for dtype in plan.dtypes), default=1.0)
