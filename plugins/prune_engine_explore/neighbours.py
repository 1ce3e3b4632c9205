"""Which choices of a variable are one small step from each other, as compressed rows (CSR) over its table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_engine.space import Int32Array, Sketch, Variable, VariableKind
from prune_engine_explore.keys import row_keys

#: Up to so many choices that are no tiles, each is a neighbour of every other.
_ALL_NEAR = 32
#: In longer lists, those that are at most so many places apart are.
_PLACES = (-2, -1, 1, 2)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The neighbours of row i of a table are ``rows[starts[i]:starts[i + 1]]``, all of them allowed.

    ``starts`` int64 (m + 1,), ``rows`` int32 (e,).
    """

    starts: NDArray[np.int64]
    rows: Int32Array

    @property
    def mean_count(self) -> float:
        """Neighbours of a row on the average."""
        return len(self.rows) / max(len(self.starts) - 1, 1)

    def counts(self, of: NDArray[np.integer]) -> NDArray[np.int64]:
        """How many neighbours rows have, int64 (n,)."""
        counts: NDArray[np.int64] = self.starts[of + 1] - self.starts[of]
        return counts

    def all_of(self, of: NDArray[np.integer]) -> tuple[NDArray[np.int64], Int32Array]:
        """All neighbours of rows: the position in ``of`` that each belongs to, and the neighbour, (e,) both."""
        counts = self.counts(of)
        owners = np.repeat(np.arange(len(of)), counts)
        within = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        return owners, self.rows[self.starts[of][owners] + within]

    def drawn(self, of: NDArray[np.integer], rng: np.random.Generator) -> Int32Array:
        """A neighbour of each row drawn at random, int32 (n,); a row that has none stands for itself."""
        counts = self.counts(of)
        at = self.starts[of] + (rng.random(len(of)) * counts).astype(np.int64)
        found = self.rows[np.minimum(at, max(len(self.rows) - 1, 0))] if len(self.rows) else of
        return np.where(counts > 0, found, of).astype(np.int32)


class NeighbourTables:
    """Neighbours of every variable that was asked for, worked out once per table and set of allowed rows."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, bytes], tuple[Int32Array, Neighbours]] = {}

    def of(self, variable: Variable) -> Neighbours:
        """The neighbours of one variable's choices."""
        key = id(variable.table), variable.rows.tobytes()
        table, found = self._known.get(key, (None, None))
        if found is None or table is not variable.table:  # the number of a table that is gone may come again
            found = _neighbours(variable)
            self._known[key] = variable.table, found
        return found

    def of_sketch(self, sketch: Sketch) -> tuple[Neighbours, ...]:
        """The neighbours of each of a sketch's variables."""
        return tuple(map(self.of, sketch.variables))


def all_steps(
    indices: Int32Array, tables: Sequence[Neighbours], variables: Sequence[int] | None = None
) -> Int32Array:
    """All candidates that differ from one of these, int32 (n, v), by one step of one variable; repeats included.

    ``variables`` are the numbers of those that may be changed (None: all). ``tables`` has one for each of all.
    """
    parts = [np.empty((0, indices.shape[1]), dtype=np.int32)]
    for v in range(len(tables)) if variables is None else variables:
        owners, rows = tables[v].all_of(indices[:, v])
        moved = indices[owners]
        moved[:, v] = rows
        parts.append(moved)
    return np.concatenate(parts)


def _neighbours(variable: Variable) -> Neighbours:
    if variable.kind is VariableKind.TILE:
        sources, targets = _factor_moves(variable.table)
    else:
        sources, targets = _places_apart(len(variable.table))
    is_allowed = np.zeros(len(variable.table), dtype=np.bool_)
    is_allowed[variable.rows] = True
    keep = is_allowed[targets]
    order = np.lexsort((targets[keep], sources[keep]))
    counts = np.bincount(sources[keep], minlength=len(variable.table))
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Neighbours(starts, targets[keep][order].astype(np.int32))


def _factor_moves(table: Int32Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of tiles in which one prime factor lies one level elsewhere: sources and targets, int64 (e,) each."""
    keys = row_keys(table)
    order = np.argsort(keys, kind="stable")
    sources: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
    targets: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
    n_parts = table.shape[1]
    for prime in _primes(table):
        for giver in range(n_parts):
            source = np.flatnonzero(table[:, giver] % prime == 0)
            for taker in range(n_parts):
                if taker == giver or not len(source):
                    continue
                moved = table[source]
                moved[:, giver] //= prime
                moved[:, taker] *= prime
                wanted = row_keys(moved)
                at = np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)
                exists = keys[order[at]] == wanted
                sources.append(source[exists])
                targets.append(order[at][exists])
    return np.concatenate(sources), np.concatenate(targets)


def _primes(table: Int32Array) -> list[int]:
    """Every prime that divides a number of the table."""
    primes: set[int] = set()
    for number in map(int, np.unique(table)):
        left, divisor = number, 2
        while divisor * divisor <= left:
            while left % divisor == 0:
                primes.add(divisor)
                left //= divisor
            divisor += 1
        if left > 1:
            primes.add(left)
    return sorted(primes)


def _places_apart(m: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every other row of a short list, those close by of a long one: sources and targets, int64 (e,) each."""
    if m <= _ALL_NEAR:
        pairs = np.argwhere(~np.eye(m, dtype=np.bool_))
        return pairs[:, 0], pairs[:, 1]
    sources = np.repeat(np.arange(m), len(_PLACES))
    targets = sources + np.tile(_PLACES, m)
    inside = (targets >= 0) & (targets < m)
    return sources[inside], targets[inside]
