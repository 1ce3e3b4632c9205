"""Cutting rows of choice tables: what the rules of the task space share."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from math import prod
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from prune_engine.space import DesignSpace, Int32Array, Sketch, SpaceRestriction, Subject, Variable, VariableKind
from prune_engine.task import TuningTask
from prune_engine.verdicts import BoolArray

K = TypeVar("K", bound=Hashable)

#: A tile variable whose subject is known, in its sketch -> what decides about its rows, or None to keep all.
Choose = Callable[[Sketch, Variable, Subject], "K | None"]
#: Operands that no matrix instruction of a compiler's takes.
_WIDE_DTYPES = ("float32", "float64")
#: A choice table, int32 (m, p), and what decides -> rows to keep, bool (m,).
Rows = Callable[[Int32Array, K], BoolArray]


def restrict_tiles(space: DesignSpace, choose: Choose[K], rows: Rows[K]) -> SpaceRestriction | None:
    """Cut the tables of all tile variables whose subject is known, in sketches whose loops are known.

    A cut that would leave a variable without a choice is not made: a guess must not close a space.
    """
    keep: dict[tuple[int, int], BoolArray] = {}
    known: dict[tuple[int, K], BoolArray] = {}  # sketches of a task share their tables
    for s, sketch in enumerate(space.sketches):
        if sketch.nests is None:
            continue
        for v, variable in enumerate(sketch.variables):
            subject = variable.subject
            if variable.kind is not VariableKind.TILE or subject is None:
                continue
            chosen = choose(sketch, variable, subject)
            if chosen is None:
                continue
            key = id(variable.table), chosen
            if key not in known:
                known[key] = rows(variable.table, chosen)
            if is_a_cut(variable, known[key]):
                keep[s, v] = known[key]
    return SpaceRestriction(keep) if keep else None


def is_a_cut(variable: Variable, rows: BoolArray) -> bool:
    """Whether keeping ``rows``, bool (m,), cuts some of a variable's choices and leaves some."""
    left = int(rows[variable.rows].sum())
    return 0 < left < variable.size


def extent_of(variable: Variable) -> int:
    """The extent that a tile splits."""
    return prod(variable.table[0].tolist())


def inner_product(table: Int32Array) -> NDArray[np.int64]:
    """The product of all parts of each row, int32 (m, p), but the outermost; int64 (m,)."""
    products: NDArray[np.int64] = table[:, 1:].prod(axis=1, dtype=np.int64)
    return products


def item_bytes(dtype: str) -> int:
    """Bytes of one value of a TVM dtype; less than a byte counts as one."""
    bits = re.search(r"\d+", dtype)
    return max(1, int(bits[0]) // 8) if bits else 1


def tensorized_tile(task: TuningTask, sketch: Sketch) -> tuple[int, int, int] | None:
    """The m, n, k of one matrix instruction of a sketch of ``task``, or None if it uses none.

    Tables of such a sketch count whole instructions, not elements.
    """
    # No matrix instruction takes these, and reading a nest to see it costs more than all rules together.
    if task.arg_dtypes and task.arg_dtypes[0] in _WIDE_DTYPES:
        return None
    if sketch.nests is None or not all(v.size for v in sketch.variables):
        return None
    first = np.array([[v.rows[0] for v in sketch.variables]], dtype=np.int32).reshape(1, -1)
    nest = sketch.nests.groups(first)[0].nest
    return next((s.tile for s in nest.statements if s.tile is not None), None)


def contraction_axes(sketch: Sketch, statement: str) -> Mapping[int, int]:
    """Which variables of a sketch tile the m (0), n (1) and k (2) of a statement's matrix product.

    The contiguous iterator is n. One other spatial iterator longer than 1 is m and one reduction longer than
    1 is k; where there are several (batches, windows), no single table says what m or k is, and they are
    left out.
    """
    axes: dict[int, int] = {}
    others: dict[bool, list[int]] = {False: [], True: []}
    for v, variable in enumerate(sketch.variables):
        subject = variable.subject
        if subject is None or subject.statement != statement or extent_of(variable) == 1:
            continue
        if subject.is_contiguous and not subject.is_reduction:
            axes[v] = 1
        else:
            others[subject.is_reduction].append(v)
    for is_reduction, axis in ((False, 0), (True, 2)):
        if len(others[is_reduction]) == 1:
            axes[others[is_reduction][0]] = axis
    return axes
