"""Where a block covers its whole domain at a loop, its accesses depend on no loop outside any more."""

from __future__ import annotations

from kits.nest_comparison import differences
from kits.oracle import case

from prune_engine.candidates import CandidateBatch, rows_of

#: The padding's input is computed at a loop whose tile needs every row of it.
DECISIONS = (
    *((1, 1, 1, 1), (1, 8, 2, 4), (1, 14, 1, 2), (1, 1, 7, 4), (8, 16), (2, 2), (2, 2)),
    *((64,), (-1,), (-2,), (10,)),
)


def test_a_covered_domain() -> None:
    space, oracle = case("conv_transposed", "llvm")
    sketch = space.sketches[0]
    rows = rows_of(sketch, DECISIONS)
    assert rows is not None
    batch = CandidateBatch(space, sketch, rows[None])
    built = oracle.realise(sketch, DECISIONS)
    assert not built.is_repaired
    assert list(differences(batch, 0, built, is_gpu=False)) == []
