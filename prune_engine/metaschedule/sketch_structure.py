"""What the structure of a sketch is, in words: what its trace does besides the choices that are left open."""

from __future__ import annotations

from collections import Counter
from typing import Any

from prune_engine.space import Sketch, Subject

#: Instructions that put a statement into a loop, and the input that is the loop.
_MOVES = ("ComputeAt", "ReverseComputeAt")


def structure_of(sketch: Sketch) -> list[str]:
    """Phrases such as ``tiled SSRSRS`` and ``cache write to global at S1``, in the order of the trace.

    A place is a level of the tile that the loop is a part of; it is not told of other loops. Empty for a sketch
    that carries no trace.
    """
    trace: Any = sketch.payload
    phrases: list[str] = []
    places = _Places(sketch)
    pending: dict[Any, str] = {}
    for inst in getattr(trace, "insts", ()):
        kind = str(inst.kind.name)
        places.follow(inst, kind)
        if kind == "Annotate":
            if phrase := _annotated(str(inst.attrs[0]), inst.inputs[1]):
                phrases.append(phrase)
        elif kind in ("CacheWrite", "CacheRead"):
            what = "write to" if kind == "CacheWrite" else "read into"
            pending[inst.outputs[0]] = f"cache {what} {inst.attrs[1]}"
        elif kind in _MOVES and inst.inputs[0] in pending:
            place = places.of(inst.inputs[1])
            phrases.append(pending.pop(inst.inputs[0]) + (f" at {place}" if place else ""))
        elif kind == "RFactor":
            phrases.append(f"rfactor of {places.in_full(inst.inputs[0])}".removesuffix(" of "))
        elif kind == "DecomposePadding":
            phrases.append("padding decomposed")
    times = Counter([*phrases, *pending.values()])
    return [phrase if n == 1 else f"{n} x {phrase}" for phrase, n in times.items()]


class _Places:
    """Which part of which tile a loop of a trace is."""

    def __init__(self, sketch: Sketch) -> None:
        self._variables = sketch.variables
        self._factors: dict[Any, tuple[int, int]] = {}
        self._names: dict[Any, str] = {}
        self._subjects: dict[Any, Subject] = {}
        self._n_sampled = 0

    def follow(self, inst: Any, kind: str) -> None:
        """Take in an instruction."""
        if kind.startswith("Sample"):
            if kind == "SamplePerfectTile":
                self._factors.update({out: (self._n_sampled, part) for part, out in enumerate(inst.outputs)})
            self._n_sampled += 1
        elif kind == "Split":
            for loop, factor in zip(inst.outputs, list(inst.inputs)[1:], strict=False):
                if factor in self._factors:
                    number, part = self._factors[factor]
                    self._names[loop] = self._named(number, part)
                    if (subject := self._variables[number].subject) is not None:
                        self._subjects[loop] = subject
        elif kind == "Fuse":
            self._names[inst.outputs[0]] = self.of(list(inst.inputs)[-1])

    def of(self, loop: Any) -> str:
        """The name of a loop's place, empty for one that is no part of a tile."""
        return self._names.get(loop, "")

    def in_full(self, loop: Any) -> str:
        """The same with the iterator whose loop it is, such as ``matmul.v_k (R1)``."""
        subject = self._subjects.get(loop)
        return self.of(loop) if subject is None else f"{subject.statement}.{subject.iterator} ({self.of(loop)})"

    def _named(self, number: int, part: int) -> str:
        variable = self._variables[number]
        if variable.subject is not None and part < len(variable.subject.levels):
            return variable.subject.levels[part]
        return f"part {part} of {variable.name}"


def _annotated(key: str, value: Any) -> str | None:
    if key == "meta_schedule.tiling_structure":
        return f"tiled {value}"
    if key == "meta_schedule.auto_tensorize":
        return f"tensor intrinsic {value}" if str(value) else None
    return "software pipeline" if key == "software_pipeline_stage" else None
