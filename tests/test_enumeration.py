"""All candidates of a space, or a uniform draw of them."""

from __future__ import annotations

import numpy as np

from prune_engine.candidates import SeenRows
from prune_engine.enumeration import all_batches, drawn_batches
from prune_engine.space import DesignSpace, Sketch, SpaceRestriction, Variable, VariableKind
from prune_engine.testing import make_space, make_task


def restricted() -> DesignSpace:
    """`make_space` with some rows of two variables cut."""
    space = make_space()
    keep = {
        (s, v): np.arange(len(space.sketches[s].variables[v].table)) % 3 > 0 for s, v in ((0, 0), (1, 2), (1, 4))
    }
    return space.restrict(SpaceRestriction(keep))


def test_every_candidate_comes_once() -> None:
    space, seen, n = restricted(), SeenRows(), 0
    for batch in all_batches(space, 1000):
        assert len(batch) <= 1000
        assert batch.is_allowed().all()
        assert seen.unseen(batch).all()
        seen.add(batch.sketch.index, batch.indices)
        n += len(batch)
    assert n == space.size


def test_sketch_without_variables_has_one_candidate() -> None:
    space = DesignSpace(make_task(), (Sketch(0, "bare", ()),))
    (batch,) = all_batches(space)
    assert batch.indices.shape == (1, 0)
    (batch,) = drawn_batches(space, 5, np.random.default_rng(0))
    assert batch.indices.shape == (5, 0)


def test_draws_are_allowed_and_as_many_as_asked_for() -> None:
    batches = list(drawn_batches(restricted(), 5000, np.random.default_rng(0), 1000))
    assert sum(map(len, batches)) == 5000
    assert max(map(len, batches)) == 1000
    assert all(batch.is_allowed().all() for batch in batches)


def test_draws_hit_sketches_by_their_size_and_candidates_alike() -> None:
    def sketch(index: int, n: int) -> Sketch:
        values = np.arange(n, dtype=np.int32)[:, None]
        # Uniform whatever the prior says: a share of the space is counted, not of what someone would propose.
        prior = np.arange(1, n + 1, dtype=float)
        return Sketch(index, f"s{index}", (Variable.of("v", VariableKind.CATEGORICAL, values, prior.tolist()),))

    space = DesignSpace(make_task(), (sketch(0, 2), sketch(1, 8)))
    n = 50_000
    batches = list(drawn_batches(space, n, np.random.default_rng(0)))
    counts = np.concatenate([np.bincount(b.indices[:, 0], minlength=b.sketch.size) for b in batches])
    assert np.abs(counts - n / 10).max() < 5 * np.sqrt(n / 10)  # five standard deviations


def test_nothing_is_drawn_from_an_empty_space() -> None:
    space = make_space()
    nothing = {(s, 0): np.zeros(len(space.sketches[s].variables[0].table), dtype=bool) for s in (0, 1)}
    assert list(drawn_batches(space.restrict(SpaceRestriction(nothing)), 5, np.random.default_rng(0))) == []
