"""Schedules that no sketch of a generated space holds: each is the only candidate of a sketch of its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from prune_engine.candidates import Decision
from prune_engine.errors import SpaceError
from prune_engine.metaschedule import traces
from prune_engine.space import Sketch, Variable, VariableKind

#: Why its candidate is scored as one that cannot be read.
OPAQUE_REASON = "a schedule from elsewhere: no space holds it"
_ENTER_POSTPROC = "EnterPostproc"
_KINDS = {
    "SamplePerfectTile": VariableKind.TILE,
    "SampleCategorical": VariableKind.CATEGORICAL,
    "SampleComputeLocation": VariableKind.LOCATION,
}


def without_postprocessing(trace_json: str) -> list[Any]:
    """A trace's text as ``[instructions, decisions]`` up to where post-processing begins.

    Raises ValueError, TypeError or LookupError for what is no trace.
    """
    instructions, decisions = json.loads(trace_json)
    kinds = [inst[0] for inst in instructions]
    n = kinds.index(_ENTER_POSTPROC) if _ENTER_POSTPROC in kinds else len(kinds)
    return [instructions[:n], [[at, decision] for at, decision in decisions if at < n]]


def sketch_of_fixed(index: int, trace: Any) -> Sketch:
    """A sketch that offers the decisions of ``trace`` and nothing else. The trace must have been replayed.

    Its identity is that of the instructions and the decisions together. Raises SpaceError for a sampling
    instruction we do not know.
    """
    chosen = traces.decisions_of(trace)
    insts = [inst for inst in trace.insts if str(inst.kind.name).startswith("Sample")]
    variables = tuple(
        _only(f"{number}.{kind}", kind, inst, decision)
        for number, (inst, decision) in enumerate(zip(insts, chosen, strict=True))
        for kind in [_kind_of(inst)]
    )
    return Sketch(index, _identity(trace, chosen), variables, payload=trace, opaque_reason=OPAQUE_REASON)


def _kind_of(inst: Any) -> str:
    kind = str(inst.kind.name)
    if kind not in _KINDS:
        raise SpaceError("unknown sampling instruction", got=kind, expected=" or ".join(_KINDS))
    return kind


def _only(name: str, kind: str, inst: Any, decision: Decision) -> Variable:
    """A variable with one choice. A categorical keeps its whole table: its decision is a number in the list."""
    if _KINDS[kind] is not VariableKind.CATEGORICAL:
        return Variable.of(name, _KINDS[kind], np.array([decision]))
    values = np.array([[int(value)] for value in inst.attrs[0]])
    variable = Variable.of(name, VariableKind.CATEGORICAL, values)
    return variable.restrict(np.arange(len(values)) == variable.index_of(decision))


def _identity(trace: Any, chosen: Sequence[Decision]) -> str:
    text = json.dumps([traces.structure_id(trace), [list(decision) for decision in chosen]])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
