"""A trace of TVM's as plain values, read once: an attribute of a TVM object costs microseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from prune_engine.errors import SpaceError
from prune_engine.metaschedule.interpreter.layouts import read_index_map
from prune_engine.metaschedule.traces import plain as plain_value


@dataclass(frozen=True, slots=True)
class Variable:
    """A random variable of the trace, by address."""

    key: int


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction of a trace as plain values; ``inputs`` holds Variables, numbers, None, and lists of these."""

    kind: str
    inputs: tuple[Any, ...]
    attrs: tuple[Any, ...]
    outputs: tuple[int, ...]


def read_trace(trace: Any) -> list[Instruction]:
    """A trace's instructions up to the post-processors'."""
    found: list[Instruction] = []
    known: dict[int, Variable] = {}
    for inst in trace.insts:
        kind = str(inst.kind.name)
        if kind == "EnterPostproc":
            break
        inputs = tuple(_input(x, known) for x in inst.inputs)
        outputs = tuple(_key(x) for x in inst.outputs)
        attrs = tuple(_attribute(a, known) for a in inst.attrs)
        known.update((key, Variable(key)) for key in outputs)
        found.append(Instruction(kind, inputs, attrs, outputs))
    return found


def _input(item: Any, known: dict[int, Variable]) -> Any:
    if item is None or isinstance(item, (int, float)):
        return item
    if isinstance(item, str):
        return str(item)
    if _key(item) in known:
        return known[_key(item)]
    if _is_index_map(item):
        return read_index_map(item, known)
    if hasattr(item, "__iter__"):
        return [_input(x, known) for x in item]
    return plain_value(item)


def _attribute(item: Any, known: dict[int, Variable]) -> Any:
    if _is_index_map(item):
        return read_index_map(item, known)
    try:
        return plain_value(item)
    except SpaceError:  # who needs it reads it itself
        return item


def _is_index_map(item: Any) -> bool:
    return type(item).__name__ == "IndexMap"


def _key(variable: Any) -> int:
    """The address of a TVM object: ``==`` on its expressions builds an expression."""
    return int(variable.__chandle__()) if hasattr(variable, "__chandle__") else -1
