"""MetaSchedule traces as sketches: the sampling instructions of a trace become choice tables, and back.

A design space is a handful of traces. What is open in a trace are its sampling instructions; everything
else is structure. ``sketch_of`` reads a trace into a Sketch, ``trace_with`` puts decisions into it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from prune_engine.candidates import Decision
from prune_engine.errors import SpaceError
from prune_engine.space import Int32Array, Sketch, Variable, VariableKind, perfect_tile_table

_TILE, _CATEGORICAL, _LOCATION = "SamplePerfectTile", "SampleCategorical", "SampleComputeLocation"

#: Compute locations no loop position stands for (TVM's own numbers).
INLINE, ROOT = -2, -1

#: Settings tried at least where a compute location follows other compute locations.
_MIN_LOCATION_PROBES = 4

#: Instructions that leave the loops alone inside which a compute location is sought.
_WITHOUT_LOOPS = ("Annotate", "Unannotate", "GetConsumers", "ReverseComputeAt")

#: What determines the loops a compute location is sought in -> the positions it can take.
LocationTables = dict[str, list[int]]

#: Finds the positions of all location variables, by number, given the variables before the first.
Locate = Callable[[Sequence[Variable]], Mapping[int, list[int]]]

#: Random variable -> (position of the instruction that defines it, number among its outputs).
Makers = dict[int, tuple[int, int]]


def sketch_of(
    index: int,
    trace: Any,
    mod: Any,
    known: LocationTables | None = None,
    locate: Locate | None = None,
) -> Sketch:
    """Read a trace of ``mod``'s design space. Raises SpaceError for a sampling instruction we do not know.

    ``locate`` finds the positions of each location variable, where the interpreter can tell. Without, the
    compiler is asked. ``known`` carries the answers from one sketch of a task to the next.
    """
    known = {} if known is None else known
    located: Mapping[int, list[int]] | None = None
    variables: list[Variable] = []
    makers = _makers(trace)
    for position, inst in enumerate(trace.insts):
        kind = str(inst.kind.name)
        if not kind.startswith("Sample"):
            continue
        name = f"{len(variables)}.{_subject(trace, inst, makers)}"
        if kind == _TILE:
            variables.append(Variable.of(name, VariableKind.TILE, _tile_table(trace, inst)))
        elif kind == _CATEGORICAL:
            values = [[int(v)] for v in inst.attrs[0]]
            probs = [float(p) for p in inst.attrs[1]]
            variables.append(Variable.of(name, VariableKind.CATEGORICAL, np.array(values), probs))
        elif kind == _LOCATION:
            structure = _loop_structure(trace, position, makers)
            if structure not in known and locate is not None:
                located = locate(variables) if located is None else located
                known[structure] = located.get(len(variables), [])
            positions = known[structure] = known.get(structure) or _locations(mod, trace, position, makers)
            variables.append(Variable.of(name, VariableKind.LOCATION, np.array(positions)[:, None]))
        else:
            raise SpaceError(
                "unknown sampling instruction",
                who=f"sketch {index}",
                got=kind,
                expected=f"{_TILE}, {_CATEGORICAL} or {_LOCATION}",
            )
    return Sketch(index, structure_id(trace), tuple(variables), payload=trace)


def structure_id(trace: Any) -> str:
    """Hash of a trace's instructions without its decisions, stable across processes."""
    insts = json.dumps(plain(trace.as_json())[0], separators=(",", ":"))
    return hashlib.blake2b(insts.encode(), digest_size=8).hexdigest()


def trace_with(sketch: Sketch, decisions: Sequence[Decision]) -> Any:
    """The sketch's trace with other decisions, one per variable in order."""
    trace: Any = sketch.payload
    chosen: dict[Any, Any] = {}
    open_insts = (inst for inst in trace.insts if str(inst.kind.name).startswith("Sample"))
    for inst, variable, decision in zip(open_insts, sketch.variables, decisions, strict=True):
        if variable.kind is VariableKind.TILE:
            chosen[inst] = [int(factor) for factor in decision]
        elif variable.kind is VariableKind.CATEGORICAL:
            row = variable.index_of(decision)
            if row is None:
                raise SpaceError("a value the instruction does not offer", who=variable.name, got=decision)
            chosen[inst] = row
        else:
            chosen[inst] = int(decision[0])
    return type(trace)(trace.insts, chosen)


def decisions_of(trace: Any) -> tuple[Decision, ...]:
    """The decisions a trace holds, in the form of a sketch's tables. Post-processing instructions are ignored."""
    found: list[Decision] = []
    for inst in trace.insts:
        kind = str(inst.kind.name)
        if kind == "EnterPostproc":
            break
        if not kind.startswith("Sample"):
            continue
        decision = trace.decisions[inst]
        if kind == _TILE:
            found.append(tuple(int(factor) for factor in decision))
        elif kind == _CATEGORICAL:
            found.append((int(inst.attrs[0][int(decision)]),))
        else:
            found.append((int(decision),))
    return tuple(found)


def trace_to_json(trace: Any) -> str:
    """TVM's own JSON form of a trace, as text: what a MetaSchedule database holds."""
    return json.dumps(trace.as_json(), separators=(",", ":"), default=plain)


def plain(value: Any) -> Any:
    """TVM's JSON-like containers as lists, dicts, strings and numbers."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "items"):
        return {str(k): plain(v) for k, v in value.items()}
    if hasattr(value, "__iter__"):
        return [plain(v) for v in value]
    number = getattr(value, "value", None)  # IntImm, FloatImm
    if isinstance(number, (int, float)):
        return number
    raise SpaceError("a trace holds something that is not JSON", got=f"{type(value).__name__} {value}")


def _subject(trace: Any, inst: Any, makers: Makers) -> str:
    """What a sampling instruction decides on, for people: the block's name and the loop's number."""
    if str(inst.kind.name) == _CATEGORICAL:
        for user in trace.insts:
            if str(user.kind.name) == "Annotate" and _key(inst.outputs[0]) in [_key(x) for x in user.inputs]:
                return str(user.attrs[0]).removeprefix("meta_schedule.")
        return "categorical"
    maker, number = makers[_key(inst.inputs[0])]
    kind = str(trace.insts[maker].kind.name)
    if kind == "GetLoops":
        block, _ = makers[_key(trace.insts[maker].inputs[0])]
        return f"{_block_name(trace.insts[block])}.{number}"
    return _block_name(trace.insts[maker])


def _block_name(inst: Any) -> str:
    kind = str(inst.kind.name)
    return str(inst.attrs[0]) if kind == "GetSBlock" else kind


def _key(variable: Any) -> int:
    """The address of a TVM object: ``==`` on its expressions builds an expression."""
    return int(variable.__chandle__()) if hasattr(variable, "__chandle__") else -1


def _makers(trace: Any) -> Makers:
    """Which instruction, and which of its outputs, defines each random variable."""
    return {
        _key(output): (position, number)
        for position, inst in enumerate(trace.insts)
        for number, output in enumerate(inst.outputs)
    }


def _tile_table(trace: Any, inst: Any) -> Int32Array:
    """All factorisations of the loop that a SamplePerfectTile splits; its extent is the decision's product."""
    extent = math.prod(int(factor) for factor in trace.decisions[inst])
    return perfect_tile_table(extent, int(inst.attrs[0]), int(inst.attrs[1]))


def _locations(mod: Any, trace: Any, position: int, makers: Makers) -> list[int]:
    """Every position the compute location at ``trace.insts[position]`` can take, ascending.

    Which loops qualify depends on earlier decisions (loops of extent 1 do not), so several settings of
    those are tried: each part of the tiles is more than 1 in one of them. A candidate whose decision does
    not exist under its tiles is repaired by TVM on replay; its identity is then that of the repaired one.
    Raises what TVM raises if the trace itself cannot be replayed.
    """
    rng = np.random.default_rng(0)
    found: set[int] = set()
    for probe in range(_n_probes(trace, position)):
        decisions = _probe_decisions(trace, position, probe, rng)
        try:
            found |= _locations_after(mod, trace, position, makers, decisions, found)
        except RuntimeError:  # a setting of our own may be one that the compiler refuses; the trace's is not
            if not probe:
                raise
    return sorted(found)


def _loop_structure(trace: Any, position: int, makers: Makers) -> str:
    """What the positions at ``trace.insts[position]`` depend on: the instructions before it that matter.

    Sketches of a task often differ only in where the epilogue goes, after the loops were made.
    """
    insts = list(trace.insts)
    numbers: dict[int, int] = {}
    parts: list[object] = []
    for place, inst in enumerate(insts[: position + 1]):
        kind = str(inst.kind.name)
        if kind in _WITHOUT_LOOPS:
            continue
        numbers[place] = len(numbers)
        inputs = [_reference(variable, makers, numbers) for variable in inst.inputs]
        extent = math.prod(int(f) for f in trace.decisions[inst]) if kind == _TILE else None
        parts.append((kind, [str(attr) for attr in inst.attrs], extent, inputs))
    return repr(parts)


def _reference(variable: Any, makers: Makers, numbers: dict[int, int]) -> object:
    """What an input refers to: number and output of the instruction that made it, or the literal itself."""
    if _key(variable) not in makers:
        return str(variable)
    maker, output = makers[_key(variable)]
    return numbers.get(maker), output


def _n_probes(trace: Any, position: int) -> int:
    """How many settings of the decisions before ``position`` are worth trying."""
    follows_location = any(str(inst.kind.name) == _LOCATION for inst in list(trace.insts)[:position])
    return max(1 + _max_parts(trace, position), _MIN_LOCATION_PROBES if follows_location else 1)


def _max_parts(trace: Any, position: int) -> int:
    """Parts of the most divided tile before ``position``."""
    tiles = (inst for inst in list(trace.insts)[:position] if str(inst.kind.name) == _TILE)
    return max((int(inst.attrs[0]) for inst in tiles), default=0)


def _probe_decisions(trace: Any, position: int, probe: int, rng: np.random.Generator) -> dict[Any, Any]:
    """Decisions of the instructions before ``position``: the trace's own, else those of one probe."""
    chosen: dict[Any, Any] = {}
    for inst in list(trace.insts)[:position]:
        kind = str(inst.kind.name)
        if not kind.startswith("Sample"):
            continue
        if probe == 0 or kind == _CATEGORICAL:
            chosen[inst] = trace.decisions[inst]
        elif kind == _TILE:
            row = _probe_tile(_tile_table(trace, inst), probe - 1, _max_parts(trace, position))
            chosen[inst] = [int(factor) for factor in row]
        else:
            chosen[inst] = int(rng.integers(INLINE, position))  # TVM takes the nearest one below
    return chosen


def _probe_tile(table: Int32Array, level: int, max_parts: int) -> Int32Array:
    """A row that has something at ``level``: a tile of ``max_parts`` as much divided as it can be.

    Tiles of fewer parts are reductions: positions inside one exist only if the loops around it do nothing,
    so theirs is all at one place.
    """
    n_parts = table.shape[1]
    if n_parts < max_parts:
        best = table[:, level * n_parts // max_parts % n_parts].argmax()
    else:
        is_divided = table > 1
        best = (is_divided.sum(axis=1) + n_parts * is_divided[:, level % n_parts]).argmax()
    row: Int32Array = table[int(best)]
    return row


def _locations_after(
    mod: Any, trace: Any, position: int, makers: Makers, decisions: dict[Any, Any], known: set[int]
) -> set[int]:
    """The positions not in ``known`` that exist under these decisions.

    TVM collects the positions when it meets the instruction, which changes nothing but the trace: so the
    trace is replayed up to there and the instruction asked, from the innermost loop outwards. The answer
    is the number asked for or the nearest below that exists. Asking costs 5 ms, so the known are skipped.
    """
    from tvm import s_tir  # the caller has imported tvm already

    prefix = list(trace.insts)[:position]
    schedule = s_tir.Schedule(mod, seed=1, debug_mask="none")
    type(trace)(prefix, decisions).apply_to_schedule(schedule, remove_postproc=False)
    maker, number = makers[_key(trace.insts[position].inputs[0])]
    block = schedule.trace.insts[maker].outputs[number]
    found: set[int] = set()
    asked = sum(len(inst.outputs) for inst in prefix if str(inst.kind.name) in ("Split", "GetLoops", "Fuse"))
    while asked >= INLINE:
        if asked in known:
            asked -= 1
            continue
        schedule.sample_compute_location(block, decision=asked)
        answer = int(schedule.trace.decisions[schedule.trace.insts[-1]])
        if answer > asked:  # nothing exists at or below: TVM answers "root"
            break
        found.add(answer)
        asked = answer - 1
    return found
