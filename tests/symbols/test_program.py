"""Programs give what expressions say, in any order, size and mixture of conditions and numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kits import nests
from kits.brute import Runner

from prune_engine.space import Sketch, Variable, VariableKind
from prune_engine.symbols import evaluate as evaluate_module
from prune_engine.symbols import structure
from prune_engine.symbols.evaluate import Evaluator, TableValues, evaluate
from prune_engine.symbols.expr import (
    Expr,
    as_expr,
    both,
    ceildiv,
    either,
    maximum,
    minimum,
    negate,
    part,
    per_row,
    product,
    total,
    where,
)
from prune_engine.symbols.program import CHUNK_ROWS
from prune_engine.symbols.structure import NestGroup, canonical_by_nests, group_columns, nest_columns


def sketch_of_three() -> Sketch:
    tables = [np.array(t, dtype=np.int32) for t in ([[1, 4], [2, 2], [4, 1]], [[3, 2], [1, 6]], [[1], [5], [7]])]
    return Sketch(0, "three", tuple(Variable.of(f"v{n}", VariableKind.TILE, t) for n, t in enumerate(tables)))


SKETCH = sketch_of_three()
ALL_ROWS = np.stack([a.ravel() for a in np.indices((3, 2, 3))], axis=1).astype(np.int32)
PER_ROW = [per_row(0, [5, 0, 7]), per_row(2, [1, 0, 1])]
PARTS = [part(0, 0), part(0, 1), part(1, 0), part(1, 1), part(2, 0)]
LEAVES = st.sampled_from([*PARTS, *PER_ROW, *map(as_expr, (0, 1, 2, 6))])


def positive(e: Expr) -> Expr:
    return maximum(e, 1)


def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    pairs = st.tuples(inner, inner)
    conditions = (
        pairs.map(lambda p: p[0].lt(p[1])) | pairs.map(lambda p: p[0].le(p[1])) | pairs.map(lambda p: p[0].eq(p[1]))
    )
    conditions |= st.tuples(conditions, conditions).map(lambda p: both(*p))
    conditions |= st.tuples(conditions, conditions).map(lambda p: either(*p))
    conditions |= conditions.map(negate)
    return st.one_of(
        pairs.map(lambda p: p[0] + p[1]),
        pairs.map(lambda p: p[0] - p[1]),
        pairs.map(lambda p: p[0] * p[1]),
        pairs.map(lambda p: p[0] // positive(p[1])),
        pairs.map(lambda p: p[0] % positive(p[1])),
        pairs.map(lambda p: ceildiv(p[0], positive(p[1]))),
        pairs.map(lambda p: minimum(*p)),
        pairs.map(lambda p: maximum(*p)),
        pairs.map(product),
        pairs.map(total),
        conditions,
        st.tuples(conditions | inner, inner, inner).map(lambda p: where(*p)),
    )


@settings(max_examples=150, deadline=None, derandomize=True)
@given(exprs=st.lists(st.recursive(LEAVES, grow, max_leaves=12), min_size=1, max_size=5))
def test_programs_agree_with_plain_integers(exprs: list[Expr]) -> None:
    tables = TableValues(SKETCH)
    columns = evaluate(exprs, tables, ALL_ROWS)
    one_by_one = Evaluator(tables, ALL_ROWS)
    for expr, column in zip(exprs, columns, strict=True):
        nest = nests.Builder().nest()
        true = [Runner(SKETCH, nest, row).value(expr) for row in ALL_ROWS.tolist()]
        assert column.dtype == np.int64
        assert column.tolist() == true
        assert np.broadcast_to(one_by_one(expr), len(ALL_ROWS)).tolist() == true


@pytest.mark.parametrize("n", [0, 1, CHUNK_ROWS - 1, CHUNK_ROWS, CHUNK_ROWS + 1, 3 * CHUNK_ROWS + 5])
def test_chunks_fit_together(n: int) -> None:
    rows = nests.random_rows(SKETCH, n)
    exprs = [part(0, 0) * part(1, 0) + part(2, 0), (part(0, 0) * part(1, 0)).lt(part(2, 0)), as_expr(4), part(1, 1)]
    first, less, four, plain = evaluate(exprs, TableValues(SKETCH), rows)
    a, b, c = (SKETCH.variables[v].table[rows[:, v], 0] for v in range(3))
    assert first.tolist() == (a * b + c).tolist()
    assert less.tolist() == (a * b < c).astype(int).tolist()
    assert four.tolist() == [4] * n
    assert plain.tolist() == SKETCH.variables[1].table[rows[:, 1], 1].tolist()


def test_what_lies_between_needs_no_room() -> None:
    """Hundreds of columns on the way share a few buffers."""
    a, b = part(0, 0), part(1, 0)
    expr = a + b
    for n in range(300):
        expr = maximum(expr * a, expr * b + n) % 1009
    program = TableValues(SKETCH).program([expr])
    assert len(program._kinds) <= 6


def test_divisions_that_come_out_even_are_done_on_the_form() -> None:
    a, b, c = part(0, 0), part(1, 0), part(2, 0)
    assert ceildiv(product([a, b, c]), b) is product([a, c])
    assert (a * b * 12) // (b * 4) is a * 3
    assert (a * b) % b is as_expr(0)
    assert (a - 1) + 1 is a
    assert (a * 6) // 4 is not a
    parallel = where((a * b).le(8), 1, 0)
    assert parallel.eq(1) is (a * b).le(8)


def test_columns_that_are_read_for_the_last_time_are_not_written_over_too_early() -> None:
    """A rounded-up quotient and a choice need their arguments after they have begun to write."""
    a, b, c = part(0, 0), part(1, 0), part(2, 0)
    exprs = [
        ceildiv(a * c, a + b) * 3 + 1,
        where((a + b).lt(c), a * b, b * c) + a,
        (a.lt(b) + b.lt(c)) * (a + c),  # conditions are counted, not joined
        where(a + b, b + c, a * c) + 1,  # any number but 0 is a condition
    ]
    nest = nests.Builder().nest()
    for expr in exprs:  # each for itself: what another one needs too is kept anyway
        (column,) = evaluate([expr], TableValues(SKETCH), ALL_ROWS)
        assert column.tolist() == [Runner(SKETCH, nest, row).value(expr) for row in ALL_ROWS.tolist()]


def test_a_choice_by_a_number_stays_a_choice() -> None:
    (column,) = evaluate([where(part(2, 0), 1, 0).eq(1)], TableValues(SKETCH), ALL_ROWS)
    assert set(column.tolist()) == {1}


class ByFirstPart:
    """A source whose candidates fall into two structures."""

    def __init__(self, sketch: Sketch) -> None:
        self.tables = TableValues(sketch)
        self.nests = [nests.Builder().nest(is_refused=value) for value in (part(1, 0), part(2, 0))]

    def canonical(self, indices: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        return canonical_by_nests(self, indices)

    def groups(self, indices: np.ndarray) -> list[NestGroup]:  # type: ignore[type-arg]
        return [
            NestGroup(nest, np.flatnonzero((indices[:, 0] == 0) == first))
            for nest, first in zip(self.nests, (True, False), strict=True)
        ]


class ByLastPart:
    """A source whose candidates fall into as many structures as the last variable has rows, tens of them."""

    def __init__(self, sketch: Sketch) -> None:
        self.tables = TableValues(sketch)
        self.nests = [
            nests.Builder().nest(is_refused=part(0, 0) * part(1, 1) + number * (number % 2) * part(0, 1))
            for number in range(len(sketch.variables[-1].table))
        ]
        self.n_asked = 0

    def canonical(self, indices: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        return canonical_by_nests(self, indices)

    def groups(self, indices: np.ndarray) -> list[NestGroup]:  # type: ignore[type-arg]
        self.n_asked += 1
        return [
            NestGroup(nest, rows)
            for number, nest in enumerate(self.nests)
            if len(rows := np.flatnonzero(indices[:, -1] == number))
        ]


@pytest.mark.parametrize("n", [0, 40, 2048, 2049, 5000, CHUNK_ROWS + 9, 30000])
def test_candidates_of_many_structures(n: int) -> None:
    """They are the same whether they are worked out for each structure or for all candidates at once."""
    sketch, _ = sketch_of_many()
    batch = nests.batch_of(sketch, nests.random_rows(sketch, n))
    a, b = (batch.column(0)[:, k].astype(np.int64) for k in (0, 1))
    number = batch.indices[:, -1].astype(np.int64)
    expected = a * batch.column(1)[:, 1] + number * (number % 2) * b
    wanted = {"refused": lambda nest: nest.is_refused, "three": lambda nest: as_expr(3)}
    assert batch.symbol("is_refused").tolist() == expected.tolist()
    columns = nest_columns(batch, wanted)
    assert columns["refused"].tolist() == expected.tolist()
    assert columns["three"].tolist() == [3] * n
    found = np.full(n, -1, dtype=np.int64)
    for group in group_columns(batch, lambda nest: [nest.is_refused], max_rows=100):
        rows = np.arange(n) if group.rows is None else group.rows
        assert len(rows) <= 100
        found[rows] = group.columns[0]
    assert found.tolist() == expected.tolist()


def sketch_of_many() -> tuple[Sketch, ByLastPart]:
    many = Variable.of("many", VariableKind.LOCATION, np.arange(40, dtype=np.int32)[:, None])
    sketch = replace(SKETCH, variables=(*SKETCH.variables, many))
    source = ByLastPart(sketch)
    return replace(sketch, nests=source), source


def test_parts_of_a_batch_know_their_structures() -> None:
    sketch, source = sketch_of_many()
    rows = nests.random_rows(sketch, 300)
    rows[5:] = rows[5:][np.argsort(rows[5:, -1])]
    whole = nests.batch_of(sketch, rows)
    expected = whole.symbol("is_refused")
    source.n_asked = 0
    mask = np.arange(300) % 3 == 0
    for chosen in (mask, np.array([7, 3, 299, 3]), np.array([17]), np.zeros(300, dtype=np.bool_)):
        part_of = whole.take(chosen)
        assert part_of.symbol("is_refused").tolist() == expected[chosen].tolist()
        again = part_of.take(np.arange(len(part_of))[::-1])
        assert again.symbol("is_refused").tolist() == expected[chosen][::-1].tolist()
    assert not source.n_asked
    fresh = nests.batch_of(sketch, rows).take(mask)  # nobody asked about the whole, so nothing is known of it
    assert fresh.symbol("is_refused").tolist() == expected[mask].tolist()
    assert source.n_asked == 1


@pytest.mark.parametrize("n", [0, 7, CHUNK_ROWS + 9])
def test_candidates_of_several_structures(n: int) -> None:
    source = ByFirstPart(SKETCH)
    batch = nests.batch_of(replace(SKETCH, nests=source), nests.random_rows(SKETCH, n))
    rows = batch.indices
    expected = np.where(
        rows[:, 0] == 0, SKETCH.variables[1].table[rows[:, 1], 0], SKETCH.variables[2].table[rows[:, 2], 0]
    )
    formulas = {"refused": lambda nest: nest.is_refused, "twice": lambda nest: nest.is_refused * 2}
    assert batch.symbol("is_refused").tolist() == expected.tolist()
    columns = nest_columns(batch, formulas)
    assert columns["refused"].tolist() == expected.tolist()
    assert columns["twice"].tolist() == (2 * expected).tolist()


@pytest.mark.parametrize("n", [40, 5000])
def test_a_part_of_a_batch_knows_what_was_worked_out_of_the_whole(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a batch of more than one stretch, and of a part of a part."""
    monkeypatch.setattr(structure, "_FEW_OF_STRUCTURE", 1 << 20)
    sketch = nests.gemm_cpu(64, 64, 64)
    batch = nests.batch_of(sketch, nests.random_rows(sketch, n))
    whole = batch.symbol("working_set_l1_bytes")
    rows = np.arange(0, n, 3)
    part = batch.take(rows)
    n_done: list[int] = []
    counted = {op: lambda *a, f=f: n_done.append(1) or f(*a) for op, f in evaluate_module.OPERATIONS.items()}
    monkeypatch.setattr(evaluate_module, "OPERATIONS", counted)
    assert part.symbol("working_set_l1_bytes").tolist() == whole[rows].tolist()
    of_part = batch.take(rows).take(np.arange(5))
    assert of_part.symbol("working_set_l1_bytes").tolist() == whole[rows[:5]].tolist()
    assert not n_done
    assert len(nests.batch_of(sketch, batch.indices).symbol("working_set_l1_bytes")) == n
    assert n_done
