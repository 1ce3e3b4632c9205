"""Which combinations of compute locations a search has opened.

Under each of them the loops are others, and reading them costs some milliseconds once, more than judging a
thousand candidates of a structure that was read. A search so opens a few at a time, beside the best first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from prune_engine.enumeration import drawn
from prune_engine.space import BoolArray, Int32Array, Sketch, VariableKind
from prune_engine_explore.keys import KeySet, row_keys
from prune_engine_explore.neighbours import Neighbours

#: Draws in which to look for structures that were not opened.
_N_LOOKED_AT = 256
#: Whether a structure can run at all is not free to tell either: so many are asked about for each to be opened.
_LOOKED_AT_PER_OPENED = 12

#: Structures next to which others are looked for.
_N_LEADERS = 8

#: Candidates of a sketch, int32 (n, v), of which only those that can run are returned.
Filter = Callable[[Int32Array], Int32Array]


class Structures:
    """The opened combinations of one sketch. A sketch without compute locations has one, which is open."""

    def __init__(self, sketch: Sketch) -> None:
        kinds = [variable.kind for variable in sketch.variables]
        is_read = sketch.nests is not None  # else structures cost nothing, as nothing reads them
        self._at = np.array(
            [v for v, kind in enumerate(kinds) if is_read and kind is VariableKind.LOCATION], dtype=np.int64
        )
        sizes = [variable.size for v, variable in enumerate(sketch.variables) if v not in self._at]
        #: Candidates of one structure.
        self.n_choices = math.prod(sizes)
        self._opened: Int32Array = np.empty((0, len(self._at)), dtype=np.int32)
        self._keys = KeySet()

    @property
    def is_single(self) -> bool:
        """Whether there is nothing to open."""
        return not len(self._at)

    def __len__(self) -> int:
        return 1 if self.is_single else len(self._opened)

    def open(self, n: int, sketch: Sketch, near: Int32Array, keep: Filter, rng: np.random.Generator) -> None:
        """Open ``n`` more: those of ``near``, int32 (m, v), in order, then what random draws show."""
        if self.is_single or n < 1:
            return
        n_before = len(self)
        self._add(keep(self._one_each(near, n)), n)
        if len(self) < n_before + n:
            looked_at = drawn(sketch, _N_LOOKED_AT, rng)
            self._add(keep(self._one_each(looked_at, n)), n_before + n - len(self))
            if not len(self):  # nothing that runs was among them: better any than none
                self._add(looked_at, n)

    def steps(self, best: Int32Array, tables: Sequence[Neighbours], rng: np.random.Generator) -> Int32Array:
        """Candidates one location from the best, int32 (m, v), whose structures are not open.

        ``best``, int32 (n, v), are in order. First come those close by, of the better ones: places that follow
        each other are loops inside each other, so they are much alike.
        """
        _, first = np.unique(row_keys(best[:, self._at]), return_index=True)
        best = best[np.sort(first)][:_N_LEADERS]
        parts, costs = [best[:0]], [np.empty(0)]
        for v in self._at:
            owners, rows = tables[v].all_of(best[:, v])
            moved = best[owners]
            moved[:, v] = rows
            parts.append(moved)
            costs.append(owners + np.abs(rows - best[owners, v]) + rng.random(len(owners)))
        steps = np.concatenate(parts)[np.argsort(np.concatenate(costs), kind="stable")]
        closed: Int32Array = steps[~self.admits(steps)]
        return closed

    def some(self, indices: Int32Array) -> Structures:
        """Only those that some candidates, int32 (n, v), have."""
        few = Structures.__new__(Structures)
        few._at, few._keys, few.n_choices = self._at, KeySet(), self.n_choices
        few._opened = self._opened[:0]
        few._add(indices, len(indices))
        return few

    def admits(self, indices: Int32Array) -> BoolArray:
        """Which candidates, int32 (n, v), have an opened structure, bool (n,)."""
        if self.is_single:
            return np.ones(len(indices), dtype=np.bool_)
        return self._keys.holds(row_keys(indices[:, self._at]))

    def impose(self, indices: Int32Array, rng: np.random.Generator, n_most: int) -> None:
        """Give each candidate an opened structure, in place: all of them some of ``n_most`` drawn at random.

        Nothing is changed where none was opened, as in a space that is scored whole.
        """
        if not self.is_single and len(self._opened):
            few = self._opened[rng.permutation(len(self._opened))[:n_most]]
            indices[:, self._at] = few[rng.integers(len(few), size=len(indices))]

    def clamp(self, indices: Int32Array, donors: Int32Array) -> None:
        """Give those whose structure is not open that of their donor, row by row, in place."""
        closed = np.flatnonzero(~self.admits(indices))
        indices[np.ix_(closed, self._at)] = donors[np.ix_(closed, self._at)]

    def _one_each(self, indices: Int32Array, n: int) -> Int32Array:
        """The first candidate of each structure that is not open, as many as one must look at to find ``n``."""
        return indices[self._fresh(indices[:, self._at])[: _LOOKED_AT_PER_OPENED * n]]

    def _add(self, indices: Int32Array, n: int) -> None:
        combinations = indices[:, self._at]
        fresh = self._fresh(combinations)[:n]
        self._opened = np.concatenate([self._opened, combinations[fresh]])
        self._keys.add(row_keys(combinations[fresh]))

    def _fresh(self, combinations: Int32Array) -> NDArray[np.int64]:
        """Positions of the first of each that is not open, in the order in which they come."""
        keys = row_keys(combinations)
        _, first = np.unique(keys, return_index=True)
        return np.sort(first[~self._keys.holds(keys[first])])
