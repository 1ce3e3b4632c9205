"""Candidates as 64-bit numbers, so that sets of them are sorted arrays."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from prune_engine.space import BoolArray, Int32Array

Keys = NDArray[np.uint64]


def row_keys(indices: Int32Array) -> Keys:
    """A number for each row of choice indices, int32 (n, v) -> uint64 (n,).

    Equal rows have equal numbers. Different ones of a table of a million agree with a chance below 1e-7; the
    later one is then taken for known, which costs one candidate out of the space.
    """
    keys = np.zeros(len(indices), dtype=np.uint64)
    for column, factor in zip(indices.T, _factors(indices.shape[1]), strict=True):
        keys += column.astype(np.uint64) * factor
    return keys


class KeySet:
    """A growing set of numbers."""

    def __init__(self) -> None:
        self._sorted: Keys = np.empty(0, dtype=np.uint64)

    def __len__(self) -> int:
        return len(self._sorted)

    def holds(self, keys: Keys) -> BoolArray:
        """Which of these are in the set, bool (n,)."""
        if not len(self._sorted):
            return np.zeros(len(keys), dtype=np.bool_)
        at = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
        found: BoolArray = self._sorted[at] == keys
        return found

    def add(self, keys: Keys) -> NDArray[np.int64]:
        """Put numbers in; returns the positions of those that were not in it, ascending, the first of equals."""
        distinct, first = np.unique(keys, return_index=True)
        is_new = ~self.holds(distinct)
        self._sorted = np.concatenate([self._sorted, distinct[is_new]])
        self._sorted.sort(kind="stable")  # two sorted runs: a merge
        return np.sort(first[is_new])


@lru_cache(maxsize=128)
def _factors(n_variables: int) -> Keys:
    """Odd numbers, always the same: sums of indices times these hardly ever agree (arithmetic modulo 2^64)."""
    drawn = np.random.default_rng(0x5EED).integers(2**63, size=max(n_variables, 1), dtype=np.uint64)
    odd: Keys = drawn * np.uint64(2) + np.uint64(1)
    return odd[:n_variables]
