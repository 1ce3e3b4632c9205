"""Every strategy that ships with the distribution keeps the contract that we ask of others."""

from __future__ import annotations

import pytest
from prune_engine_draft.scorer import SymbolDraft
from prune_engine_explore.evolution import EvolutionExplorer
from prune_engine_explore.search import Effort
from prune_engine_explore.uniform import UniformExplorer
from prune_engine_lightgbm.residual import ResidualVerifier
from prune_engine_lightgbm.verifier import DecisionVerifier
from prune_engine_rules import register_demanded_rules, register_rules
from prune_engine_select.diverse import DiverseSelector
from prune_engine_select.epsilon_greedy import EpsilonGreedySelector
from prune_engine_transfer.refit import RefitTransfer

from prune_engine.config import EngineConfig
from prune_engine.plugins import PluginHost, PluginStatus
from prune_engine.strategies import Explorer, ScheduleTransfer, Selector, Strategy, Verifier
from prune_engine.testing import ExplorerContract, ScheduleTransferContract, SelectorContract, VerifierContract

STRATEGY_HOOKS = (
    "register_rules",
    "register_explorers",
    "register_draft_scorers",
    "register_verifiers",
    "register_selectors",
    "register_transfers",
)


class TestUniformExplorer(ExplorerContract):
    strategy = UniformExplorer

    @pytest.fixture
    def explorer(self) -> Explorer:
        return UniformExplorer()


@pytest.mark.parametrize("exhaustive_cost", [0, 1 << 17], ids=["evolves", "scores-all"])
class TestEvolutionExplorer(ExplorerContract):
    strategy = EvolutionExplorer

    @pytest.fixture
    def explorer(self, exhaustive_cost: int) -> Explorer:
        few = Effort(n_scored=4096, n_generations=3, drawn_share=0.3, n_structures=8)
        return EvolutionExplorer(first=few, later=few, exhaustive_cost=exhaustive_cost)


class TestDecisionVerifier(VerifierContract):
    strategy = DecisionVerifier

    @pytest.fixture
    def verifier(self) -> Verifier:
        return DecisionVerifier()


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0])
class TestEpsilonGreedySelector(SelectorContract):
    strategy = EpsilonGreedySelector

    @pytest.fixture
    def selector(self, epsilon: float) -> Selector:
        return EpsilonGreedySelector(epsilon)

    def test_prefers_the_better(self, selector: Selector, epsilon: float) -> None:
        if epsilon == 1.0:
            pytest.skip("all probes: as good as the average by design")
        super().test_prefers_the_better(selector)


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
class TestDiverseSelector(SelectorContract):
    strategy = DiverseSelector

    @pytest.fixture
    def selector(self, epsilon: float) -> Selector:
        return DiverseSelector(epsilon)


class TestRefitTransfer(ScheduleTransferContract):
    strategy = RefitTransfer

    @pytest.fixture
    def transfer(self) -> ScheduleTransfer:
        return RefitTransfer()


def test_every_shipped_strategy_is_tested_here() -> None:
    config = EngineConfig(strict_fp=True)
    host = PluginHost(config)
    host.load()
    shipped = {r.name for r in host.records if r.distribution == "prune-engine"}
    failed = {r.name: r.detail for r in host.records if r.name in shipped and r.status is not PluginStatus.LOADED}
    assert not failed
    strategies: set[type] = set()
    for hook in STRATEGY_HOOKS:
        strategies |= {type(s) for plugin, s in host.collect(hook, config=config) if plugin in shipped}
    tested = {c.strategy for c in globals().values() if isinstance(c, type) and hasattr(c, "strategy")}
    tested |= {SymbolDraft, ResidualVerifier}  # theirs: tests/plugins/test_draft_cpu.py, test_lightgbm_residual.py
    rules = (*register_rules(), *register_demanded_rules(EngineConfig(strict_fp=True)))
    tested |= {type(rule) for rule in rules}  # their contract: tests/plugins/test_rules_contract.py
    assert all(issubclass(s, Strategy) for s in strategies)
    assert strategies == tested, f"untested: {strategies - tested}; not registered: {tested - strategies}"
