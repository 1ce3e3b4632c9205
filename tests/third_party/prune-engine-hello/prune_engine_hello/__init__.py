"""A rule for prune-engine: it leaves out candidates that unroll more than 64 steps."""

from __future__ import annotations

from prune_engine.hookspecs import hookimpl
from prune_engine.strategies import Rule

from prune_engine_hello.rule import UnrollLimit


@hookimpl
def register_rules() -> list[Rule]:
    """What the engine asks every plugin: a new object each time."""
    return [UnrollLimit()]
