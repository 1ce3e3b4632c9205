"""Distinct candidates that rules keep, found by an explorer or, where that fails, by looking at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from kits.rules import with_nests
from prune_engine_explore.uniform import UniformExplorer
from prune_engine_select.epsilon_greedy import EpsilonGreedySelector

from prune_engine import proposals as module
from prune_engine.candidates import CandidateBatch
from prune_engine.config import EngineConfig
from prune_engine.errors import PluginContractError
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.pipeline import Pipeline
from prune_engine.proposals import Proposals, Proposer
from prune_engine.space import DesignSpace, Int32Array, SpaceRestriction
from prune_engine.strategies import Explorer, Fitness, Rule, Strategy
from prune_engine.testing import make_profile, make_space
from prune_engine.verdicts import BoolArray, RuleKind


class Rare(Rule):
    """Keeps the candidates in which every tile is all outermost: 4 of sketch 0, 20 of sketch 1."""

    name, kind = "test.rare", RuleKind.LEGALITY

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> BoolArray:
        return np.all([batch.column(v)[:, 1:].max(axis=1) == 1 for v in range(3)], axis=0)


class Half(Rule):
    """Cuts half of the first variable's rows."""

    name, kind = "test.half", RuleKind.LEGALITY

    def restrict(self, space: DesignSpace, profile: HardwareProfile) -> SpaceRestriction:
        return SpaceRestriction(
            {(s.index, 0): np.arange(len(s.variables[0].table)) % 2 == 0 for s in space.sketches}
        )


class Stubborn(Explorer):
    """Proposes the same candidates again and again, or raises, or returns rubbish."""

    name = "test.stubborn"

    def __init__(self, error: Exception | None = None, n: int = 10) -> None:
        self.n_calls, self._error, self._n = 0, error, n

    def propose(
        self, space: DesignSpace, n: int, fitness: Fitness | None, rng: np.random.Generator
    ) -> Sequence[CandidateBatch]:
        self.n_calls += 1
        if self._error:
            raise self._error
        sketch = space.sketches[0]
        rows = np.stack([v.rows[np.arange(self._n) % v.size] for v in sketch.variables], axis=1)
        return [CandidateBatch(space, sketch, rows)] if self._n else []


def never(batch: CandidateBatch, row: int) -> Int32Array | None:
    raise AssertionError("asked about a sketch that could be read")


def readable() -> DesignSpace:
    space = make_space()
    return replace(space, sketches=tuple(map(with_nests, space.sketches)))


def proposer(
    space: DesignSpace, *rules: Rule, explorer: Explorer | None = None, check: module.Checker = never, seed: int = 0
) -> Proposer:
    def fail(strategy: Strategy, error: BaseException) -> None:
        raise error

    pipeline = Pipeline(
        rules=rules,
        draft_scorer=None,
        verifier=None,
        selector=EpsilonGreedySelector(0.0),
        profile=make_profile(),
        config=EngineConfig(),
        on_failure=fail,
    )
    return Proposer(space, pipeline, explorer or UniformExplorer(), check, np.random.default_rng(seed))


def identities(found: Proposals) -> list[str]:
    return [
        found.batches[owner].candidate(row).candidate_id
        for owner, row in zip(found.owners.tolist(), found.rows.tolist(), strict=True)
    ]


def test_as_many_as_wanted_distinct_and_of_every_sketch() -> None:
    found = proposer(readable(), Half()).propose(300)
    assert len(found) == 300
    assert len(set(identities(found))) == 300
    assert set(found.owners.tolist()) == {0, 1}
    assert all(batch.is_allowed().all() for batch in found.batches)
    assert found.batches[0].sketch.variables[0].size < found.batches[0].sketch.variables[0].table.shape[0]
    assert not found.is_all


def test_seed_decides() -> None:
    first, same, other = (identities(proposer(readable(), seed=seed).propose(20)) for seed in (1, 1, 2))
    assert first == same
    assert first != other


def test_rare_ones_are_all_found_and_said_to_be_all() -> None:
    found = proposer(readable(), Rare()).propose(500)
    assert len(found) == len(set(identities(found))) == 24
    assert found.is_all
    assert len(proposer(readable(), Rare()).propose(24)) == 24


def test_what_the_explorer_never_proposes_is_found_by_looking_at_all() -> None:
    explorer = Stubborn(n=5000)
    found = proposer(readable(), Rare(), explorer=explorer).propose(30)
    assert explorer.n_calls > 1
    assert len(found) == 24
    assert found.is_all
    found = proposer(readable(), explorer=Stubborn(n=0)).propose(30)
    assert len(found) == 30


def test_large_space_is_given_up_after_so_many_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_COUNTED", 1000)
    monkeypatch.setattr(module, "_MAX_DRAWN", 5000)
    found = proposer(readable(), Rare(), explorer=Stubborn()).propose(30)
    assert len(found) < 24
    assert 5000 <= found.n_drawn < 6000
    assert not found.is_all


class TestOpaque:
    def test_compiler_is_asked_until_there_are_enough(self) -> None:
        asked: list[int] = []

        def odd(batch: CandidateBatch, row: int) -> Int32Array | None:
            asked.append(row)
            return batch.indices[row] if batch.indices[row, 1] % 2 else None

        found = proposer(make_space(), check=odd).propose(50)
        assert len(found) == len(set(identities(found))) == 50
        assert found.n_checked == len(asked) < 400
        assert set(found.owners.tolist()) == {0, 1}
        assert all((batch.indices[:, 1] % 2 == 1).all() for batch in found.batches)

    def test_what_runs_counts_and_twins_count_once(self) -> None:
        def same(batch: CandidateBatch, row: int) -> Int32Array | None:
            return np.zeros_like(batch.indices[row])

        found = proposer(make_space(), check=same).propose(10)
        assert len(found) == 2  # one of each sketch
        assert found.n_checked <= 1000
        assert not found.is_all

    def test_refusals_end_some_time(self) -> None:
        def refuse(batch: CandidateBatch, row: int) -> Int32Array | None:
            return None

        found = proposer(make_space(), check=refuse).propose(3)
        assert len(found) == 0
        assert found.n_checked == 300


@pytest.mark.parametrize("error", [RuntimeError("planted"), SystemExit("planted")])
def test_failing_explorer_is_named(error: Exception) -> None:
    with pytest.raises(PluginContractError, match=r"strategy test\.stubborn: raised an exception; got .*planted"):
        proposer(readable(), explorer=Stubborn(error)).propose(3)
