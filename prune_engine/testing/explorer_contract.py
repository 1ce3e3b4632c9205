"""What every Explorer must do, as a pytest class. Subclass it and give it your explorer.

class TestMyExplorer(ExplorerContract):
    @pytest.fixture
    def explorer(self):
        return MyExplorer()
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from prune_engine.candidates import CandidateBatch
from prune_engine.enumeration import all_batches
from prune_engine.space import DesignSpace, Sketch, SpaceRestriction, Variable
from prune_engine.strategies import Explorer, Fitness
from prune_engine.testing.builders import make_batch, make_space
from prune_engine.testing.checks import check_name, check_proposal, measure_batch, proposed, snapshot
from prune_engine.testing.hot_path import find_row_loop, told
from prune_engine.testing.workbench import FakeWorkbench
from prune_engine.verdicts import Float64Array


def _throughput(batch: CandidateBatch) -> Float64Array:
    return 1e-3 / FakeWorkbench().true_latency_secs(batch)


def _corner(space: DesignSpace) -> DesignSpace:
    """The first two choices of every variable."""
    keep = {
        (s, v): np.arange(len(variable.table)) < 2
        for s, sketch in enumerate(space.sketches)
        for v, variable in enumerate(sketch.variables)
    }
    return space.restrict(SpaceRestriction(keep))


def _twin(space: DesignSpace) -> DesignSpace:
    """The space of another task with the same sketches, whose choice tables are half as long."""
    sketches = tuple(
        replace(
            sketch,
            variables=tuple(Variable.of(v.name, v.kind, v.table[::2], subject=v.subject) for v in sketch.variables),
        )
        for sketch in space.sketches
    )
    return replace(space, task=replace(space.task, task_id="testing-twin", name="twin"), sketches=sketches)


class ExplorerContract:
    """Override ``explorer``. Its copies (``copy.deepcopy``) must behave as it does."""

    @pytest.fixture
    def explorer(self) -> Explorer:
        """The explorer under test, fresh."""
        raise NotImplementedError("give the contract an explorer")

    @pytest.fixture
    def space(self) -> DesignSpace:
        """The space to explore, of more than a thousand candidates."""
        return make_space()

    @pytest.fixture(params=[None, _throughput], ids=["blind", "with-fitness"])
    def fitness(self, request: pytest.FixtureRequest) -> Fitness | None:
        """What it may climb on."""
        fitness: Fitness | None = request.param
        return fitness

    def test_name(self, explorer: Explorer) -> None:
        """A dotted name."""
        check_name(explorer)

    @pytest.mark.parametrize("n", [1, 50, 500])
    def test_proposes_about_n_distinct(
        self, explorer: Explorer, space: DesignSpace, fitness: Fitness | None, n: int
    ) -> None:
        """In a large space: at most one batch a sketch, all distinct, between n / 2 and 2 n + sketches."""
        batches = check_proposal(explorer, explorer.propose(space, n, fitness, np.random.default_rng(0)), space)
        total = sum(map(len, batches))
        assert n / 2 <= total <= 2 * n + len(space.sketches), f"asked for {n} candidates, got {total}"

    def test_does_not_loop_over_candidates(self, explorer: Explorer, space: DesignSpace) -> None:
        """It draws whole columns: as many steps of Python for a thousand candidates as for a few."""

        def propose(n: int) -> Callable[[], object]:
            fresh = copy.deepcopy(explorer)  # what it remembers of one call must not shorten the next
            return lambda: fresh.propose(space, n, None, np.random.default_rng(0))

        # More draws may take a few more rounds of drawing, and only a part comes of each sketch.
        loop = find_row_loop(propose, (256, 2048), 1 / 8)
        assert loop is None, told(explorer, loop)

    def test_asked_for_none(self, explorer: Explorer, space: DesignSpace) -> None:
        """Nothing comes of nothing."""
        batches = explorer.propose(space, 0, None, np.random.default_rng(0))
        assert sum(map(len, batches)) == 0

    def test_seed_decides(self, explorer: Explorer, space: DesignSpace, fitness: Fitness | None) -> None:
        """The same generator state gives the same proposal, another one another."""
        twin, other = copy.deepcopy(explorer), copy.deepcopy(explorer)
        first = proposed(explorer.propose(space, 64, fitness, np.random.default_rng(7)))
        assert proposed(twin.propose(space, 64, fitness, np.random.default_rng(7))) == first
        assert proposed(other.propose(space, 64, fitness, np.random.default_rng(8))) != first

    def test_cut_rows_are_never_proposed(self, explorer: Explorer, space: DesignSpace) -> None:
        """A restricted space is respected, and a sketch without candidates left out."""
        keep = {}
        for v, variable in enumerate(space.sketches[0].variables):
            mask = np.zeros(len(variable.table), dtype=np.bool_)
            mask[::2] = True
            keep[0, v] = mask
        halved = space.restrict(SpaceRestriction(keep))
        check_proposal(explorer, explorer.propose(halved, 100, None, np.random.default_rng(0)), halved)
        nothing = np.zeros(len(space.sketches[0].variables[0].table), dtype=np.bool_)
        without = space.restrict(SpaceRestriction({(0, 0): nothing}))
        batches = check_proposal(explorer, explorer.propose(without, 100, None, np.random.default_rng(0)), without)
        assert sum(len(b) for b in batches if b.sketch.index == 0) == 0, "proposed from an empty sketch"
        if without.size:
            assert sum(map(len, batches)), "the other sketches were given up too"

    def test_small_space(self, explorer: Explorer, space: DesignSpace) -> None:
        """Asked for more than there is, it returns no more than there is and ends."""
        small = _corner(space)
        batches = check_proposal(explorer, explorer.propose(small, 10_000, None, np.random.default_rng(0)), small)
        assert 0 < sum(map(len, batches)) <= small.size

    def test_space_without_choices(self, explorer: Explorer, space: DesignSpace) -> None:
        """A sketch without variables has one candidate."""
        bare = DesignSpace(space.task, (Sketch(0, "testing-bare", ()),))
        batches = check_proposal(explorer, explorer.propose(bare, 8, None, np.random.default_rng(0)), bare)
        assert sum(map(len, batches)) <= 1

    def test_tasks_of_equal_sketches_are_kept_apart(
        self, explorer: Explorer, space: DesignSpace, fitness: Fitness | None
    ) -> None:
        """A ``sketch_id`` stands for a structure, which many tasks have: what is known of one is not of another."""
        twin = _twin(space)
        for sketch in range(len(space.sketches)):
            batch = make_batch(200, space=space, sketch=sketch)
            explorer.update(batch, measure_batch(batch))
        explorer.propose(space, 50, fitness, np.random.default_rng(0))
        batches = check_proposal(explorer, explorer.propose(twin, 50, fitness, np.random.default_rng(1)), twin)
        assert sum(map(len, batches)), "nothing was proposed for the other task"
        small, other = _corner(space), _corner(twin)
        for batch in all_batches(small):
            explorer.update(batch, measure_batch(batch))
        batches = check_proposal(
            explorer, explorer.propose(other, 10_000, fitness, np.random.default_rng(2)), other
        )
        assert sum(map(len, batches)), "what was measured of one task is taken for measured of the other"

    def test_learns_from_anything(self, explorer: Explorer, space: DesignSpace) -> None:
        """Failures, censored ones and empty batches are fine; it still proposes after them."""
        for batch in (make_batch(40, space=space), make_batch(0, space=space), make_batch(5, space=space)):
            explorer.update(batch, measure_batch(batch, fail_every=3))
        batch = make_batch(10, space=space, sketch=len(space.sketches) - 1)
        explorer.update(batch, measure_batch(batch, fail_every=1))
        check_proposal(explorer, explorer.propose(space, 50, None, np.random.default_rng(0)), space)

    def test_inputs_are_not_changed(self, explorer: Explorer, space: DesignSpace, fitness: Fitness | None) -> None:
        """The space and the measured batch stay as they were."""
        batch = make_batch(20, space=space)
        before = snapshot(space, batch)
        explorer.update(batch, measure_batch(batch))
        explorer.propose(space, 50, fitness, np.random.default_rng(0))
        assert snapshot(space, batch) == before, "the explorer changed its input"
