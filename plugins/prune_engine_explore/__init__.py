"""Explorers: how candidates are proposed."""

from __future__ import annotations

from collections.abc import Iterable

from prune_engine.hookspecs import hookimpl
from prune_engine.strategies import Explorer
from prune_engine_explore.evolution import EvolutionExplorer
from prune_engine_explore.uniform import UniformExplorer


@hookimpl
def register_explorers() -> Iterable[Explorer]:
    """Offer the uniform explorer and the one that climbs."""
    return [UniformExplorer(), EvolutionExplorer()]
