"""What was worked out of candidates before, so that nobody works it out again.

From one round to the next most candidates that are looked at are the same: the good ones that were not measured,
and what is one step from the fastest. What costs milliseconds per loop structure, or microseconds per candidate, is
so paid once.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch, Divisible
from prune_engine.space import Int32Array, Sketch

Keys = NDArray[np.uint64]
#: Numbers of a batch's candidates are rows of an array of one type, (n, c).
T = TypeVar("T", bound=np.generic)
#: What the numbers of a batch's candidates are shared by.
_SHARED = "row memory: numbers of candidates"


class RowMemory(Generic[T]):
    """Numbers per candidate, by sketch. The sketches asked about longest ago are forgotten first.

    What is remembered must follow from a sketch's loop nests and a candidate's decisions. Of a sketch that could
    not be read nothing is remembered.
    """

    def __init__(self, max_rows: int) -> None:
        """Remember at most about ``max_rows`` candidates, of all sketches together."""
        self._max_rows = max_rows
        #: By the address of the sketch's loop nests, which are kept alive beside, so that no other can get it.
        self._known: OrderedDict[int, _Known[T]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._known.values()))

    def of(self, batch: CandidateBatch, compute: Callable[[CandidateBatch], NDArray[T]]) -> NDArray[T]:
        """The numbers of a batch, (n, c); ``compute`` is asked about those candidates that are not remembered.

        It gets the batch itself if none is, and must always give the same c numbers of one type.
        """
        if not len(batch) or batch.sketch.nests is None:
            return compute(batch)
        key = id(batch.sketch.nests)
        known = self._known.get(key)
        if known is None:
            known = _Known(batch.sketch)
        keys = _keys_of(batch, known)
        at, is_known = known.find(keys)
        if not is_known.any():
            found = compute(batch)
            self._add(key, known, keys, found)
            return found
        missing = np.flatnonzero(~is_known)
        remembered = known.rows[at]
        if len(missing):
            fresh = compute(batch.take(missing))
            remembered[missing] = fresh
            self._add(key, known, keys[missing], fresh)
        else:
            self._known.move_to_end(key)
        return remembered

    def _add(self, key: int, known: _Known[T], keys: Keys, rows: NDArray[T]) -> None:
        self._known[key] = known
        self._known.move_to_end(key)
        while len(self) + len(rows) > self._max_rows and len(self._known) > 1:
            self._known.popitem(last=False)
        if len(known) + len(rows) > self._max_rows:
            known.clear()
        if len(rows) <= self._max_rows:
            known.add(keys, rows)


@dataclass(frozen=True, slots=True)
class _SharedKeys(Divisible):
    """The numbers of a batch's candidates: several memories ask for them, of the batch and of parts of it."""

    keys: Keys

    def part(self, indices: Int32Array, rows: NDArray[np.integer] | NDArray[np.bool_]) -> _SharedKeys:  # noqa: ARG002
        return _SharedKeys(self.keys[rows])


def _keys_of(batch: CandidateBatch, known: _Known[T]) -> Keys:
    shared = batch.shared.get(_SHARED)
    if not isinstance(shared, _SharedKeys):
        shared = batch.shared[_SHARED] = _SharedKeys(known.keys_of(batch.indices))
    return shared.keys


class _Known(Generic[T]):
    """The remembered candidates of one sketch, and where each is among ``rows``."""

    def __init__(self, sketch: Sketch) -> None:
        self._owner = sketch.nests
        self._factors = _factors(sketch)
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        #: The newest apart from all others: what comes is so merged with few numbers most of the time.
        self._old, self._new = _Run.empty(), _Run.empty()
        self._rows: NDArray[T] | None = None
        self._n = 0

    def __len__(self) -> int:
        return self._n

    @property
    def rows(self) -> NDArray[T]:
        """All numbers, in the order in which they came."""
        assert self._rows is not None, "only asked where something is known"
        return self._rows[: self._n]

    def keys_of(self, indices: Int32Array) -> Keys:
        """A number for each candidate."""
        keys = np.zeros(len(indices), dtype=np.uint64)
        for column, factor in zip(indices.T, self._factors, strict=True):
            keys += column.astype(np.uint64) * factor
        return keys

    def find(self, keys: Keys) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Where candidates are among ``rows``, and whether they are."""
        at, is_known = self._old.find(keys)
        if len(self._new.keys):
            newest, is_new = self._new.find(keys)
            at, is_known = np.where(is_new, newest, at), is_known | is_new
        return at, is_known

    def add(self, keys: Keys, rows: NDArray[T]) -> None:
        """Remember candidates that are not known yet; of equal ones the first."""
        distinct, first = np.unique(keys, return_index=True)
        n = self._n + len(distinct)
        if self._rows is None or n > len(self._rows):
            grown = np.empty((max(n, 2 * self._n), rows.shape[1]), dtype=rows.dtype)
            if self._rows is not None:
                grown[: self._n] = self.rows
            self._rows = grown
        self._rows[self._n : n] = rows[first]
        self._new = self._new.with_others(_Run(distinct, np.arange(self._n, n)))
        self._n = n
        if _NEWEST * len(self._new.keys) > len(self._old.keys):
            self._old, self._new = self._old.with_others(self._new), _Run.empty()


#: The newest are put to the others once they are more than one in so many of those.
_NEWEST = 8


@dataclass(frozen=True, slots=True)
class _Run:
    """Numbers of candidates, ascending, and where each candidate is among the remembered rows."""

    keys: Keys
    at: NDArray[np.intp]

    @staticmethod
    def empty() -> _Run:
        """None of them."""
        return _Run(np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.intp))

    def find(self, keys: Keys) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Where the candidates of these numbers are, and whether they are here."""
        if not len(self.keys):
            return np.zeros(len(keys), dtype=np.intp), np.zeros(len(keys), dtype=np.bool_)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return self.at[place], self.keys[place] == keys

    def with_others(self, others: _Run) -> _Run:
        """Both together."""
        joined = np.concatenate([self.keys, others.keys])
        order = np.argsort(joined, kind="stable")  # two sorted runs: a merge
        return _Run(joined[order], np.concatenate([self.at, others.at])[order])


def _factors(sketch: Sketch) -> Keys:
    """What each row number counts in a candidate's key: its place value, where all candidates can be numbered.

    In larger spaces odd numbers at random, always the same: two of a hundred thousand candidates then agree with a
    chance of one in a billion (arithmetic modulo 2^64).
    """
    sizes = [len(variable.table) for variable in sketch.variables]
    if math.prod(sizes) < 2**64:
        places = [math.prod(sizes[v + 1 :]) for v in range(len(sizes))]
        return np.array(places, dtype=np.uint64)
    drawn = np.random.default_rng(0x5EED).integers(2**63, size=len(sizes), dtype=np.uint64)
    odd: Keys = drawn * np.uint64(2) + np.uint64(1)
    return odd
