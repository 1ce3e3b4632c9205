"""Which combinations of compute locations a search has opened.

Under each of them the loops are others, and reading them costs some milliseconds once, more than judging a
thousand candidates of a structure that was read. A search so opens a few at a time, beside the best first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from prune_engine.space import BoolArray, Int32Array, Sketch, VariableKind
from prune_engine_explore.keys import KeySet, row_keys

#: Draws in which to look for structures that were not opened.
_N_LOOKED_AT = 256
#: Whether a structure can run at all is not free to tell either: so many are asked about for each to be opened.
_LOOKED_AT_PER_OPENED = 12

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

    @property
    def variables(self) -> Sequence[int]:
        """The numbers of the variables that make up a structure."""
        return tuple(map(int, self._at))

    def __len__(self) -> int:
        return 1 if self.is_single else len(self._opened)

    def open(self, n: int, sketch: Sketch, near: Int32Array, keep: Filter, rng: np.random.Generator) -> None:
        """Open ``n`` more: half of them those of ``near``, int32 (m, v), in order, then what random draws show."""
        if self.is_single or not n:
            return
        drawn = np.empty((_N_LOOKED_AT, len(sketch.variables)), dtype=np.int32)
        for v, variable in enumerate(sketch.variables):
            drawn[:, v] = variable.rows[rng.integers(variable.size, size=len(drawn))]
        self._add(keep(self._one_each(near, n)), -(-n // 2))
        self._add(keep(self._one_each(drawn, n)), n - -(-n // 2))
        if not len(self._opened):  # nothing that runs was among them: better any than none
            self._add(drawn, n)

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
        """Give each candidate an opened structure, in place: all of them some of ``n_most`` drawn at random."""
        if not self.is_single:
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
