from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prune_engine.candidates import CandidateBatch, SeenRows, candidate_id, rows_of
from prune_engine.space import DesignSpace, Sketch, Variable, VariableKind
from prune_engine.testing import make_batch, make_space, make_task


def space_of(*sizes: int) -> DesignSpace:
    variables = tuple(
        Variable.of(f"x{i}", VariableKind.CATEGORICAL, np.arange(n, dtype=np.int32)[:, None] * 10)
        for i, n in enumerate(sizes)
    )
    return DesignSpace(make_task(), (Sketch(0, "s", variables),))


def batch_of(space: DesignSpace, rows: list[list[int]]) -> CandidateBatch:
    width = len(space.sketches[0].variables)
    return CandidateBatch(space, space.sketches[0], np.array(rows, dtype=np.int32).reshape(len(rows), width))


@pytest.mark.parametrize("indices", [np.zeros((3, 2), np.int64), np.zeros((3, 1), np.int32), np.zeros(3, np.int32)])
def test_a_batch_refuses_another_shape_or_dtype(indices: np.ndarray) -> None:
    space = space_of(3, 4)
    with pytest.raises((ValueError, IndexError)):
        CandidateBatch(space, space.sketches[0], indices)


def test_a_batch_cannot_be_written_through() -> None:
    batch = make_batch(5)
    with pytest.raises(ValueError, match="read-only"):
        batch.indices[0, 0] = 1


def test_take_and_columns_agree_with_candidates() -> None:
    batch = make_batch(20, sketch=1)
    picked = batch.take(np.array([7, 3]))
    assert [picked.candidate(i) for i in range(2)] == [batch.candidate(7), batch.candidate(3)]
    flat = [x for decision in batch.candidate(7).decisions for x in decision]
    assert batch.decision_matrix()[7].tolist() == flat
    assert batch.take(np.arange(20) < 4).candidate(3) == batch.candidate(3)


def test_decisions_lead_back_to_their_rows() -> None:
    batch = make_batch(30, sketch=1)
    for i in range(len(batch)):
        rows = rows_of(batch.sketch, batch.candidate(i).decisions)
        assert rows is not None
        assert rows.tolist() == batch.indices[i].tolist()
    assert rows_of(batch.sketch, batch.candidate(0).decisions[1:]) is None
    assert rows_of(batch.sketch, ((5, 5, 5), *batch.candidate(0).decisions[1:])) is None


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_seen_rows_is_a_set_of_rows(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=0, max_size=3))
    space = space_of(*sizes)
    row = st.tuples(*(st.integers(0, n - 1) for n in sizes))
    rows, batch = (data.draw(st.lists(row, max_size=12)) for _ in range(2))
    seen = SeenRows()
    known: set[tuple[int, ...]] = set()
    for one in rows:
        seen.add(0, batch_of(space, [list(one)]).indices)
        known.add(one)
    expected = []
    for one in batch:
        expected.append(one not in known)
        known.add(one)
    assert seen.unseen(batch_of(space, [list(r) for r in batch])).tolist() == expected
    assert seen.count(0) == len(set(rows))


def test_seen_rows_keeps_sketches_apart_and_asking_changes_nothing() -> None:
    space = make_space()
    batch, other = make_batch(5, space=space), make_batch(5, space=space, sketch=1)
    seen = SeenRows()
    seen.add(0, batch.indices)
    assert seen.unseen(other).all()
    assert seen.unseen(other).all()
    assert not seen.unseen(batch).any()


def test_ids_do_not_depend_on_row_numbers() -> None:
    """The same decision at another row, under another table, is the same candidate."""
    task = make_task()
    tables = np.array([[1], [2], [3]]), np.array([[3], [1]])
    found = []
    for table in tables:
        sketch = Sketch(0, "s", (Variable.of("x", VariableKind.CATEGORICAL, table),))
        space = DesignSpace(task, (sketch,))
        row = int(np.flatnonzero(table[:, 0] == 3)[0])
        found.append(CandidateBatch(space, sketch, np.array([[row]], dtype=np.int32)).candidate(0))
    assert found[0] == found[1]


def test_ids_are_distinct() -> None:
    batch = make_batch(500, sketch=1)
    assert len({batch.candidate(i).candidate_id for i in range(500)}) == 500
    ids = {
        candidate_id("t", "s", ((1, 2), (3,))),
        candidate_id("t", "s", ((1,), (2, 3))),
        candidate_id("t", "s", ((12, 3),)),
        candidate_id("t", "s2", ((1, 2), (3,))),
        candidate_id("t2", "s", ((1, 2), (3,))),
    }
    assert len(ids) == 5


def test_ids_are_stable_across_processes() -> None:
    """Stores of earlier versions hold them."""
    script = "from prune_engine.testing import make_batch; print(make_batch(1, sketch=1).candidate(0).candidate_id)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "77"}
    )
    assert done.stdout.strip() == make_batch(1, sketch=1).candidate(0).candidate_id
    assert candidate_id("task", "sketch", ((1, 2), (16,))) == "622f5d57273e822746dfc7f5"
