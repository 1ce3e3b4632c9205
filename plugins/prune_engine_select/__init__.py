"""Selectors: what of the best is measured."""

from __future__ import annotations

from collections.abc import Iterable

from prune_engine.config import EngineConfig
from prune_engine.hookspecs import hookimpl
from prune_engine.strategies import Selector
from prune_engine_select.diverse import DiverseSelector
from prune_engine_select.epsilon_greedy import EpsilonGreedySelector


@hookimpl
def register_selectors(config: EngineConfig) -> Iterable[Selector]:
    """Offer the epsilon-greedy selector and the one that avoids likeness, with the configured share of probes."""
    return [EpsilonGreedySelector(config.epsilon), DiverseSelector(config.epsilon)]
