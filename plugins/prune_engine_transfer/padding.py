"""Padding: an entry's trace on extents rounded up to what its factors divide, for products of matrices.

Where the extents of a kernel are prime or odd, no choice table has a row that uses vectors well, so that not even a
full search of the space does. The compiler's PadEinsum copies the operands into larger buffers, filled up with
zeros, and the wanted part of the result out of one: for a product of matrices that is cheap beside the product. It
only takes statements whose operands are indexed by single iterators.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from prune_engine.candidates import Decision
from prune_engine.space import Variable, perfect_tile_table
from prune_engine_transfer.matching import Match
from prune_engine_transfer.rows import extent_of, nearest_tiles

PAD = "pad"

#: What extents are rounded up to a multiple of: lanes of vectors, and of several of them.
_MULTIPLES = (8, 16, 32, 64)
#: The most that an extent may grow.
_MOST_GROWTH = 1.3
#: Multiplications for each element that is copied, below which the copies cost too much.
_LEAST_INTENSITY = 16.0
#: Padded tilings tried of one entry, and extents of one axis.
_N_TRIED, _N_OPTIONS = 2, 3
#: Iterators of a product of matrices.
_LEAST_ITERATORS = 3
#: The limit on innermost factors in TVM's spaces.
_MAX_INNERMOST = 64
#: How far a row may be from the source's factors, in sum of |ln|, before padding is worth its copies.
_FAR = 0.5


@dataclass(frozen=True, slots=True)
class PaddedTiling:
    """Factors of an entry's tiles by number; ``useful_share`` of the padded work is wanted."""

    factors: Mapping[int, Decision]
    useful_share: float


def padded_tilings(match: Match) -> list[PaddedTiling]:
    """Ways to pad, best first.

    Empty where the choice tables have rows near the source's factors, where copies would cost too much, or where
    the statement is no product of matrices for all that its tiles tell: one reduction, two or more other iterators.
    """
    tiles = list(match.tiles.items())
    subjects = [variable.subject for _, variable in tiles if variable.subject is not None]
    if len(subjects) < len(tiles) or len({subject.statement for subject in subjects}) != 1:
        return []
    if len(tiles) < _LEAST_ITERATORS or sum(subject.is_reduction for subject in subjects) != 1:
        return []
    if _intensity(list(match.tiles.values())) < _LEAST_INTENSITY:
        return []
    options = [_options(variable, match.entry.choices[number].values) for number, variable in tiles]
    combined = sorted(itertools.product(*options), key=lambda found: sum(one.cost for one in found))
    extents = [extent_of(variable) for _, variable in tiles]
    return [
        PaddedTiling(
            {number: one.factors for (number, _), one in zip(tiles, found, strict=True)},
            math.prod(extent / one.extent for extent, one in zip(extents, found, strict=True)),
        )
        for found in combined[:_N_TRIED]
        if [one.extent for one in found] != extents
    ]


def _intensity(variables: Sequence[Variable]) -> float:
    """Multiplications for each element of the operands and the result of a product of m x k by k x n matrices.

    That is mnk / (mk + kn + mn); m and n are the largest extents that are not reduced, a batch has no part in it.
    """
    reduced = [extent_of(v) for v in variables if v.subject is not None and v.subject.is_reduction]
    others = sorted(extent_of(v) for v in variables if v.subject is not None and not v.subject.is_reduction)
    return 1 / sum(1 / extent for extent in (*reduced, *others[-2:]))


@dataclass(frozen=True, slots=True)
class _Option:
    """An extent that an axis is padded to, with the row nearest to the source's factors."""

    cost: float
    extent: int
    factors: Decision


def _options(variable: Variable, factors: Decision) -> list[_Option]:
    """The best ways to pad an axis; as it is, if there is a row that is near enough; empty if there is no way."""
    extent = extent_of(variable)
    as_it_is = _option(variable, factors, extent)
    if as_it_is is not None and as_it_is.cost <= _FAR:
        return [as_it_is]
    rounded = {-(-extent // multiple) * multiple for multiple in _MULTIPLES} - {extent}
    padded = (_option(variable, factors, p) for p in sorted(rounded) if p <= extent * _MOST_GROWTH)
    found = [option for option in (as_it_is, *padded) if option is not None]
    return sorted(found, key=lambda option: option.cost)[:_N_OPTIONS]


def _option(variable: Variable, factors: Decision, padded: int) -> _Option | None:
    """The best row of a padded extent, whatever rules cut out of the table: the trace is no row of it anyway.

    None where the vectorised factor cannot stay what it is: 63 or 48 lanes for 64 cost thirty times as much.
    """
    table = perfect_tile_table(padded, len(factors), _MAX_INNERMOST)
    rows = np.arange(len(table), dtype=np.int32)
    if variable.subject is not None and variable.subject.is_contiguous:
        rows = rows[table[:, -1] == factors[-1]]
    if not len(rows):
        return None
    nearest, distances = nearest_tiles(replace(variable, table=table, rows=rows), factors, 1)
    cost = float(distances[0]) + math.log(padded / extent_of(variable))
    return _Option(cost, padded, tuple(table[nearest[0]].tolist()))
