"""Candidates of several loop structures judged together, as far as their statements are alike.

Structures of one kernel differ in where a few of its statements are computed. Each of them has few candidates in a
round, so what a statement costs is the number of operations on columns, whatever their length.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from prune_engine.symbols.structure import GroupColumns
from prune_engine_draft.cpu_caches import Boxes
from prune_engine_draft.cpu_columns import LoopColumns, loops_of
from prune_engine_draft.cpu_plan import Float32Array, StatementPlan, plan_of

#: Which candidates: their positions, int64 (n,), or a stretch of them.
Positions = NDArray[np.int64] | slice


@dataclass(slots=True)
class Alike:
    """The statements at one place in the programs of some structures that are drafted alike.

    Their candidates stand one structure after the other; ``at`` says where each is among those that are judged
    together. ``members`` are the structures' numbers, with the stretch of their candidates here.
    """

    loops: LoopColumns
    at: Positions
    members: Sequence[tuple[int, slice]]
    number: int
    boxes: list[Boxes] = field(default_factory=list)

    @property
    def plan(self) -> StatementPlan:
        """That of the first: what it says of loops and buffers holds for all."""
        return self.loops.plan


class Together:
    """Some structures' candidates, one structure after the other."""

    def __init__(self, groups: Sequence[GroupColumns]) -> None:
        self._plans = [plan_of(group.nest) for group in groups]
        self._columns = [group.columns for group in groups]
        ends = np.cumsum([len(columns[0]) for columns in self._columns]).tolist()
        self._stretches = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
        self.n = ends[-1]
        #: Where the candidates are in their batch.
        self.rows: Positions = slice(None) if groups[0].rows is None else _all_rows(groups)
        #: (structure, number of the statement) -> those like it, and its stretch among them.
        self._places: dict[tuple[int, int], tuple[Alike, slice]] = {}
        #: All statements, those first that run first.
        self.alike = [
            self._alike(number, owners)
            for number in range(max(len(plan.statements) for plan in self._plans))
            for owners in self._owners(number)
        ]

    def room(self, alike: Alike) -> Float32Array:
        """Lines of all that runs in one turn of each depth of some statements, float32 (loops + 1, n)."""
        room = sum((box.lines for box in alike.boxes[1:]), alike.boxes[0].lines.copy())
        own = {box.plan.name for box in alike.boxes}
        for structure, mine in alike.members:
            known = set(own)
            for number, shared in self._plans[structure].statements[alike.number].others:
                other, theirs = self._places[structure, number]
                for box in other.boxes:
                    if box.plan.name not in known:
                        known.add(box.plan.name)
                        room[: shared + 1, mine] += box.lines[: shared + 1, theirs]
        return room

    def _owners(self, number: int) -> list[list[int]]:
        """The structures whose statements of a number are alike."""
        found: dict[object, list[int]] = {}
        for structure, plan in enumerate(self._plans):
            if number < len(plan.statements):
                found.setdefault(plan.statements[number].likeness, []).append(structure)
        return list(found.values())

    def _alike(self, number: int, owners: Sequence[int]) -> Alike:
        loops = loops_of([(self._plans[owner].statements[number], self._columns[owner]) for owner in owners])
        outer = [self._stretches[owner] for owner in owners]
        sizes = [stretch.stop - stretch.start for stretch in outer]
        ends = np.cumsum(sizes).tolist()
        inner = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
        at: Positions = slice(outer[0].start, outer[-1].stop)
        if any(a.stop != b.start for a, b in itertools.pairwise(outer)):
            at = np.concatenate([np.arange(stretch.start, stretch.stop) for stretch in outer])
        alike = Alike(loops, at, list(zip(owners, inner, strict=True)), number)
        self._places.update({(owner, number): (alike, part) for owner, part in alike.members})
        return alike


def together(groups: Iterable[GroupColumns], max_rows: int) -> Iterator[Together]:
    """Structures that follow each other, as many as have at most ``max_rows`` candidates, or one that has more."""
    waiting: list[GroupColumns] = []
    n_waiting = 0
    for group in groups:
        n = len(group.columns[0])
        if waiting and n_waiting + n > max_rows:
            yield Together(waiting)
            waiting, n_waiting = [], 0
        waiting.append(group)
        n_waiting += n
    if waiting:
        yield Together(waiting)


def _all_rows(groups: Sequence[GroupColumns]) -> NDArray[np.int64]:
    return np.concatenate([group.rows for group in groups if group.rows is not None])
