"""What the pipeline tests share: strategies made of a function, and one round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from prune_engine_select.epsilon_greedy import EpsilonGreedySelector

from prune_engine.candidates import CandidateBatch, SeenRows
from prune_engine.config import EngineConfig
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.pipeline import Pipeline, PruneResult
from prune_engine.space import DesignSpace, SpaceRestriction
from prune_engine.strategies import DraftScorer, Rule, Selector, Strategy, Verifier
from prune_engine.testing import FakeWorkbench, make_profile
from prune_engine.verdicts import Outcome, RuleKind, Stage

LEGALITY, HEURISTIC = RuleKind.LEGALITY, RuleKind.HEURISTIC


class MaskRule(Rule):
    """Keeps where ``keep(batch)`` is True; remembers when it was asked."""

    def __init__(
        self,
        name: str,
        keep: Callable[[CandidateBatch], Any] = lambda b: np.ones(len(b), bool),
        kind: RuleKind = HEURISTIC,
        order: int = 100,
        log: list[str] | None = None,
    ) -> None:
        self.name, self.kind, self.order = name, kind, order  # type: ignore[misc]
        self._keep, self._log = keep, log if log is not None else []

    def mask(self, batch: CandidateBatch, profile: object) -> Any:
        self._log.append(self.name)
        return self._keep(batch)


class RestrictRule(Rule):
    def __init__(self, name: str, cut: Callable[[DesignSpace], Any]) -> None:
        self.name, self._cut = name, cut  # type: ignore[misc]

    def restrict(self, space: DesignSpace, profile: object) -> Any:
        return self._cut(space)


class Draft(DraftScorer):
    name = "acme.draft"

    def __init__(self, score: Callable[[CandidateBatch], Any]) -> None:
        self._score = score

    def score(self, batch: CandidateBatch, profile: object) -> Any:
        return self._score(batch)


class Judge(Verifier):
    name = "acme.judge"

    def __init__(self, score: Callable[[CandidateBatch], Any]) -> None:
        self._score = score

    def score(self, batch: CandidateBatch, context: object) -> Any:
        return self._score(batch)

    def update(self, batch: object, measurements: object, context: object) -> None: ...

    def save(self, path: object) -> None: ...

    def load(self, path: object) -> None: ...


class Picker(Selector):
    name = "acme.picker"

    def __init__(self, select: Callable[..., Any]) -> None:
        self._select = select

    def select(self, pool: Any, k: int, rng: np.random.Generator) -> Any:
        return self._select(pool, k, rng)


Made = tuple[Pipeline, list[tuple[str, BaseException]]]


def pipeline(
    *rules: Rule,
    draft: DraftScorer | None = None,
    verifier: Verifier | None = None,
    selector: Selector | None = None,
    profile: HardwareProfile | None = None,
    **options: Any,
) -> Made:
    failed: list[tuple[str, BaseException]] = []

    def on_failure(strategy: Strategy, error: BaseException) -> None:
        failed.append((strategy.name, error))

    made = Pipeline(
        rules=rules,
        draft_scorer=draft,
        verifier=verifier,
        selector=selector or EpsilonGreedySelector(0.0),
        profile=profile or make_profile(),
        config=EngineConfig.of(**options),
        on_failure=on_failure,
    )
    return made, failed


def run(
    made: Made,
    proposals: Sequence[CandidateBatch],
    seeds: Sequence[CandidateBatch] = (),
    *,
    k: int = 16,
    seen: SeenRows | None = None,
    seed: int = 0,
) -> PruneResult:
    return made[0].run(proposals, seeds, k, seen or SeenRows(), np.random.default_rng(seed))


def assert_adds_up(result: PruneResult) -> None:
    stopped = sum(v.count for v in result.verdicts if v.outcome in (Outcome.DROPPED, Outcome.SKIPPED))
    chosen = sum(v.count for v in result.verdicts if v.stage is Stage.SELECT and v.outcome is Outcome.KEPT)
    assert stopped + chosen == result.n_proposed
    assert chosen == len(result.candidates)


def truth(batch: CandidateBatch) -> np.ndarray:
    return 1e-3 / FakeWorkbench().true_latency_secs(batch)


def no_heuristic_keeps(batch: CandidateBatch) -> np.ndarray:
    return np.zeros(len(batch), bool)


def dropped(result: PruneResult) -> dict[str, int]:
    return {v.strategy: v.count for v in result.verdicts if v.outcome is Outcome.DROPPED}


def keep_first(n: int) -> Callable[[DesignSpace], SpaceRestriction]:
    def cut(space: DesignSpace) -> SpaceRestriction:
        return SpaceRestriction(
            {(s, 0): np.arange(len(k.variables[0].table)) < n for s, k in enumerate(space.sketches)}
        )

    return cut
