"""Learned verifiers on LightGBM, which is imported (half a second) when the first model is trained."""

from __future__ import annotations

from collections.abc import Iterable

from prune_engine.config import EngineConfig
from prune_engine.hookspecs import hookimpl
from prune_engine.strategies import Verifier
from prune_engine_lightgbm.residual import ResidualVerifier
from prune_engine_lightgbm.verifier import DecisionVerifier


@hookimpl
def register_verifiers(config: EngineConfig) -> Iterable[Verifier]:
    """Offer the verifier that learns what the draft gets wrong, and a baseline that knows decisions alone."""
    return [ResidualVerifier(seed=config.seed, prior=config.prior), DecisionVerifier(seed=config.seed)]
