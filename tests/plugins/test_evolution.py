"""What the contract of explorers does not say: that it finds what is good, forgets nothing and repeats nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from prune_engine_explore.draws import aligned_rows, drawn_rows
from prune_engine_explore.evolution import EvolutionExplorer
from prune_engine_explore.exhaustive import scoring_cost
from prune_engine_explore.keys import row_keys
from prune_engine_explore.neighbours import NeighbourTables, all_steps
from prune_engine_explore.search import Effort
from prune_engine_explore.structures import Structures
from prune_engine_explore.uniform import UniformExplorer

from prune_engine.candidates import CandidateBatch
from prune_engine.enumeration import all_batches
from prune_engine.measurement import MeasureErrorKind
from prune_engine.space import (
    DesignSpace,
    Sketch,
    SpaceRestriction,
    Subject,
    Variable,
    VariableKind,
    perfect_tile_table,
)
from prune_engine.strategies import Explorer
from prune_engine.testing import make_measurement, make_space, make_task
from prune_engine.verdicts import Float64Array

Landscape = Callable[[CandidateBatch], Float64Array]
SMALL = Effort(n_scored=8192, n_generations=6, drawn_share=0.3, n_structures=8)


def tiled(index: int, *extents: int, parts: int = 4) -> Sketch:
    variables = [
        Variable.of(f"{i}.x{i}", VariableKind.TILE, perfect_tile_table(extent, parts, 64))
        for i, extent in enumerate(extents)
    ]
    unroll = Variable.of("9.unroll", VariableKind.CATEGORICAL, np.array([[0], [16], [64], [512]], dtype=np.int32))
    return Sketch(index, f"sketch-{index}", (*variables, unroll))


def planted(optimum: list[int], n_forbidden: int = 0) -> Landscape:
    """Falls with the distance in factors from a planted row; where the first tile is among the forbidden it is 0.

    The last variable counts little, sketch 0 is a little better than others.
    """

    def fitness(batch: CandidateBatch) -> Float64Array:
        distance = np.zeros(len(batch))
        for v, variable in enumerate(batch.sketch.variables):
            values = np.log2(np.maximum(variable.table, 1).astype(np.float64))
            distance += np.abs(values[batch.indices[:, v]] - values[optimum[v] % len(values)]).sum(axis=1)
        score = 1.0 / (1.0 + distance + 0.5 * batch.sketch.index)
        return np.where(batch.indices[:, 0] % 7 < n_forbidden, 0.0, score)

    return fitness


def propose(
    explorer: Explorer, space: DesignSpace, n: int, fitness: Landscape | None, seed: int = 0
) -> tuple[CandidateBatch, ...]:
    return tuple(explorer.propose(space, n, fitness, np.random.default_rng(seed)))


def scores_of(batches: tuple[CandidateBatch, ...], fitness: Landscape) -> Float64Array:
    return np.sort(np.concatenate([fitness(b) for b in batches]))[::-1]


def evolving(effort: Effort = SMALL) -> EvolutionExplorer:
    return EvolutionExplorer(first=effort, later=effort, exhaustive_cost=0)


BIG = DesignSpace(make_task(), (tiled(0, 512, 512, 768), tiled(1, 512, 512, 768)))
MIDDLE = DesignSpace(make_task(), (tiled(0, 64, 64, parts=3), tiled(1, 64, 64, parts=3)))
OPTIMUM = [100, 33, 250, 2]


@pytest.mark.parametrize("n_forbidden", [0, 5], ids=["all-legal", "a-quarter-legal"])
def test_a_planted_optimum_of_a_large_space_is_found(n_forbidden: int) -> None:
    optimum = [103, 33, 250, 2]  # 103 % 7 = 5: not forbidden
    fitness = planted(optimum, n_forbidden)
    assert BIG.size > 10**8
    found = propose(evolving(), BIG, 512, fitness)
    blind = propose(UniformExplorer(), BIG, SMALL.n_scored, None)
    assert scores_of(found, fitness)[0] == 1.0
    assert scores_of(blind, fitness)[0] < 0.5
    assert scores_of(found, fitness)[:256].mean() > 1.5 * scores_of(blind, fitness)[:256].mean()


def test_most_of_the_best_by_brute_force_are_found_at_a_fraction_of_the_cost() -> None:
    fitness = planted(OPTIMUM)
    everything = scores_of(tuple(all_batches(MIDDLE)), fitness)
    asked = []

    def counted(batch: CandidateBatch) -> Float64Array:
        asked.append(len(batch))
        return fitness(batch)

    few = Effort(n_scored=3000, n_generations=6, drawn_share=0.3, n_structures=8)
    found = scores_of(propose(evolving(few), MIDDLE, 512, counted), fitness)
    assert sum(asked) < 4000 < MIDDLE.size / 1.5
    assert (found >= everything[127]).sum() >= 115  # 90 % of the best 128
    assert found[:16].tolist() == everything[:16].tolist()


def test_a_small_space_is_scored_whole() -> None:
    fitness = planted(OPTIMUM)
    explorer = EvolutionExplorer(exhaustive_cost=MIDDLE.size)
    for found, everything in zip(propose(explorer, MIDDLE, 512, fitness), all_batches(MIDDLE), strict=True):
        assert scores_of((found,), fitness)[:90].tolist() == scores_of((everything,), fitness)[:90].tolist()


def test_nothing_measured_is_proposed_again_and_rounds_go_on_from_what_was_good() -> None:
    fitness, explorer = planted(OPTIMUM), evolving()
    seen: set[tuple[int, int]] = set()
    best = []
    for seed in range(4):
        batches = propose(explorer, BIG, 256, fitness, seed)
        keys = {(b.sketch.index, int(key)) for b in batches for key in row_keys(b.indices)}
        assert len(keys) == sum(map(len, batches)), "proposed twice"
        assert not keys & seen
        best.append(scores_of(batches, fitness)[:16].mean())
        for batch in batches:
            top = batch.take(np.argsort(-fitness(batch), kind="stable")[:16])
            explorer.update(top, [make_measurement(run_secs=1e-3) for _ in range(len(top))])
            seen |= {(batch.sketch.index, int(key)) for key in row_keys(top.indices)}
    assert seen
    assert best[1] > 0.7 * best[0]  # the best 32 are gone, their neighbours are not


@pytest.mark.parametrize("is_blind", [True, False])
def test_the_measured_take_no_places(is_blind: bool) -> None:
    space, explorer = DesignSpace(make_task(), (tiled(0, 8),)), EvolutionExplorer()
    fitness = planted([3, 1])
    (everything,) = all_batches(space)
    best = everything.take(np.argsort(-fitness(everything), kind="stable"))
    explorer.update(best.take(np.arange(40)), [make_measurement(run_secs=1e-3) for _ in range(40)])
    (found,) = propose(explorer, space, 40 if not is_blind else space.size, None if is_blind else fitness)
    rest = set(row_keys(best.indices[40:]).tolist())
    assert set(row_keys(found.indices).tolist()) <= rest
    assert len(found) >= 36


def test_what_was_not_chosen_is_scored_again() -> None:
    explorer, fitness = evolving(), planted(OPTIMUM)
    propose(explorer, BIG, 256, fitness)
    asked: list[set[int]] = []

    def watched(batch: CandidateBatch) -> Float64Array:
        asked.append(set(row_keys(batch.indices).tolist()))
        return fitness(batch)

    kept = propose(explorer, BIG, 256, watched, seed=1)[0]
    best = set(row_keys(kept.take(np.argsort(-fitness(kept))[:16]).indices).tolist())
    assert best <= asked[0]  # those of the first sketch's first call, before any generation


@pytest.mark.parametrize("space", [BIG, MIDDLE], ids=["evolves", "scores-all"])
def test_steps_from_the_fastest_measured_are_proposed_whatever_their_fitness(space: DesignSpace) -> None:
    explorer, fitness = EvolutionExplorer(first=SMALL, later=SMALL), planted(OPTIMUM)
    far = np.array([[5, 7, 9, 0], [6, 8, 10, 1]], dtype=np.int32)[:, -len(space.sketches[1].variables) :]
    batch = CandidateBatch(space, space.sketches[1], far)
    explorer.update(batch, [make_measurement(run_secs=1e-3), make_measurement(run_secs=2e-3)])
    found = {b.sketch.index: set(row_keys(b.indices).tolist()) for b in propose(explorer, space, 1024, fitness)}
    steps = all_steps(far[:1], NeighbourTables().of_sketch(space.sketches[1]))
    assert len(steps) >= 12
    assert set(row_keys(steps).tolist()) <= found[1]


@pytest.mark.parametrize("is_censored", [True, False])
def test_failures_and_censored_ones_are_no_incumbents(is_censored: bool) -> None:
    explorer, fitness = evolving(), planted(OPTIMUM)
    far = np.array([[5, 7, 9, 0]], dtype=np.int32)
    one = (
        make_measurement(run_secs=1e-3, is_censored=True)
        if is_censored
        else make_measurement(error=MeasureErrorKind.CRASH)
    )
    explorer.update(CandidateBatch(BIG, BIG.sketches[1], far), [one])
    found = {b.sketch.index: set(row_keys(b.indices).tolist()) for b in propose(explorer, BIG, 1024, fitness)}
    steps = all_steps(far, NeighbourTables().of_sketch(BIG.sketches[1]))
    assert len(set(row_keys(steps).tolist()) & found[1]) < len(steps) / 4


def test_every_sketch_gets_its_chance() -> None:
    sketches = (tiled(0, 512, 512), tiled(1, 64, 8), tiled(2, 512, 512, 512), tiled(3, 16))
    space = DesignSpace(make_task(), sketches)

    def fitness(batch: CandidateBatch) -> Float64Array:
        return np.full(len(batch), 10.0 if batch.sketch.index == 0 else 1.0) + 1e-6 * batch.indices.sum(axis=1)

    found = {b.sketch.index: len(b) for b in propose(evolving(), space, 400, fitness)}
    assert min(found.values()) >= 25


def test_one_structure_leaves_room_for_others() -> None:
    """What the fitness overrates it overrates in all candidates that are alike."""

    def fitness(batch: CandidateBatch) -> Float64Array:
        return np.full(len(batch), 10.0 if batch.sketch.index == 0 else 1.0) + 1e-6 * batch.indices.sum(axis=1)

    found = propose(evolving(), BIG, 1000, fitness)
    assert 150 <= len(found[0]) <= 400
    alone = DesignSpace(make_task(), (tiled(0, 512, 512, 768),))
    assert len(propose(evolving(), alone, 1000, fitness)[0]) > 900


def test_what_no_rule_would_keep_is_hardly_proposed() -> None:
    fitness = planted([103, 33, 250, 2], 5)
    found = scores_of(propose(evolving(), BIG, 512, fitness), fitness)
    assert 0 < (found == 0).sum() < 512 / 8  # some are: rules are audited on them


@pytest.mark.parametrize("level", [0.0, 1.0], ids=["nothing-is-legal", "all-are-equal"])
def test_without_a_difference_it_draws_uniformly(level: float) -> None:
    batches = propose(evolving(), BIG, 500, lambda batch: np.full(len(batch), level))
    blind = propose(UniformExplorer(), BIG, 500, None)
    assert [len(b) for b in batches] == pytest.approx([len(b) for b in blind], abs=5)
    counts = np.bincount(np.concatenate([b.indices[:, 3] for b in batches]), minlength=4)
    assert counts.min() > 80  # 125 expected
    assert counts.max() < 170


def test_copies_of_the_best_make_room_for_others() -> None:
    """A share of what is proposed goes by kind: outermost and innermost factors."""

    def fitness(batch: CandidateBatch) -> Float64Array:
        table = batch.sketch.variables[0].table[batch.indices[:, 0]]
        return np.where((table[:, 0] == 1) & (table[:, 3] == 64), 1.0, 0.6) - 1e-6 * batch.indices[:, 1]

    space = DesignSpace(make_task(), (tiled(0, 512, 512),))
    (batch,) = propose(EvolutionExplorer(exhaustive_cost=space.size), space, 400, fitness)
    assert (fitness(batch) > 0.9).sum() > 300
    assert (fitness(batch) < 0.7).sum() >= 10


def test_a_space_that_was_cut_since_is_respected() -> None:
    explorer, fitness = evolving(), planted(OPTIMUM)
    batch = CandidateBatch(BIG, BIG.sketches[1], np.array([[5, 7, 9, 0]], dtype=np.int32))
    explorer.update(batch, [make_measurement(run_secs=1e-3)])
    propose(explorer, BIG, 512, fitness)
    keep = {(s, 0): np.arange(len(BIG.sketches[s].variables[0].table)) % 3 == s for s in (0, 1)}
    keep[1, 1] = np.arange(len(BIG.sketches[1].variables[1].table)) % 2 == 0
    cut = BIG.restrict(SpaceRestriction(keep))
    for found in (propose(explorer, cut, 512, fitness, seed=1), propose(explorer, cut, 512, fitness, seed=2)):
        assert all(batch.is_allowed().all() for batch in found)
        assert sum(map(len, found)) > 256


def located(n_places: int) -> DesignSpace:
    """A space whose loops count as read, with two compute locations beside a tile."""
    places = np.arange(-2, n_places - 2, dtype=np.int32)[:, None]
    variables = (
        Variable.of("0.x", VariableKind.TILE, perfect_tile_table(512, 4, 64)),
        Variable.of("1.a", VariableKind.LOCATION, places),
        Variable.of("2.b", VariableKind.LOCATION, places),
    )
    nests = make_space(symbols={"some_symbol": [1]}).sketches[0].nests
    return DesignSpace(make_task(), (Sketch(0, "located", variables, None, nests),))


def test_few_structures_are_read_and_still_the_good_ones_are_reached() -> None:
    space, read = located(20), set()

    def fitness(batch: CandidateBatch) -> Float64Array:
        read.update(map(tuple, batch.indices[:, 1:].tolist()))
        place = np.abs(batch.indices[:, 1:] - 13).sum(axis=1)
        return 1.0 / (1.0 + place + np.abs(batch.indices[:, 0] - 50) / 50)

    explorer = evolving(Effort(n_scored=4096, n_generations=4, drawn_share=0.3, n_structures=16))
    for number in range(4):
        (found,) = propose(explorer, space, 256, fitness, number)
        assert len(read) <= (number + 1) * 18  # of 400
    assert fitness(found).max() == 1.0


def test_reading_structures_counts_as_cost() -> None:
    assert scoring_cost(located(20)) > located(20).size + 400 * 100
    assert scoring_cost(MIDDLE) == MIDDLE.size  # there are none to be read


def test_aligned_rows_come_first() -> None:
    table = perfect_tile_table(96, 3, 96)
    along = Variable.of("x", VariableKind.TILE, table, None, Subject("s", "i", False, True, ("S0", "S1", "S2")))
    across = Variable.of("x", VariableKind.TILE, table, None, Subject("s", "i", False, False, ("S0", "S1", "S2")))
    innermost = table[aligned_rows(along), -1]
    assert set(innermost.tolist()) == {16, 32, 48, 96}
    assert len(aligned_rows(across)) == len(table)
    sketch = Sketch(0, "s", (along,))
    drawn = drawn_rows(sketch, Structures(sketch), 1000, np.random.default_rng(0))
    share = np.isin(table[drawn[:, 0], -1], [16, 32, 48, 96]).mean()
    assert share > 0.5 + 0.4 * len(innermost) / len(table)


def test_sketches_of_two_tasks_that_share_a_structure_are_not_taken_for_each_other() -> None:
    explorer = EvolutionExplorer(first=SMALL, later=SMALL, exhaustive_cost=0)
    for number, extents in enumerate([(48, 36), (1024, 512)]):  # other tables, the same identities
        space = DesignSpace(make_task(f"task-{number}"), (tiled(0, *extents), tiled(1, *extents)))
        batches = explorer.propose(space, 64, planted([5, 7, 2]), np.random.default_rng(0))
        assert sum(map(len, batches))
        assert all(batch.is_allowed().all() for batch in batches)


def test_a_small_space_with_structures_is_scored_whole_and_drawn_from_blindly() -> None:
    space = make_space(symbols={"threads_per_block": [32, 64]})
    assert any(v.kind is VariableKind.LOCATION for v in space.sketches[1].variables)
    explorer = EvolutionExplorer(exhaustive_cost=scoring_cost(space))
    batches = explorer.propose(space, 64, planted([5, 7, 2, 1, 1]), np.random.default_rng(0))
    assert sum(map(len, batches)) >= 32
