"""Where the producers of a fused kernel are computed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.schema import DeviceKind, HardwareProfile
from prune_engine.space import VariableKind
from prune_engine.strategies import Rule
from prune_engine.symbols.expr import Expr, as_expr, either, product
from prune_engine.symbols.footprint import distinct_elements
from prune_engine.symbols.loop_nest import LoopNest, Role, Statement
from prune_engine.symbols.structure import nest_column
from prune_engine.verdicts import BoolArray, RuleKind
from prune_engine_rules.limits import keep_all

#: Where windows overlap, a producer runs up to so often for each of its results in good schedules.
_MAX_REPEATS = 2


class ReductionLocation(Rule):
    """A producer is computed inside a reduction loop of its consumer, again and again.

    Where the reduction walks over the producer's results that costs nothing, so only locations count where it
    runs more than twice for each result because of the reduction.
    """

    name, kind, order = "rules.reduction-location", RuleKind.HEURISTIC, 50

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> BoolArray:
        """Keep what computes no producer repeatedly for a reduction; bool (n,)."""
        has_locations = any(v.kind is VariableKind.LOCATION for v in batch.sketch.variables)
        if profile.kind is not DeviceKind.CPU or batch.is_opaque or not has_locations:
            return keep_all(batch)
        return np.asarray(nest_column(batch, self.name, _is_repeated) == 0)

    def reason(self, symbols: Mapping[str, float], profile: HardwareProfile) -> str:  # noqa: ARG002
        """Say what is repeated."""
        return (
            "a producer is computed at a reduction loop of its consumer"
            f" that makes it run more than {_MAX_REPEATS} times for each of its results"
        )


def _is_repeated(nest: LoopNest) -> Expr:
    """1 where a producer runs too often inside the reduction loops of a later statement."""
    is_repeated = as_expr(0)
    for position, producer in enumerate(nest.statements):
        written = next((a for a in producer.accesses if a.is_write), None)
        if producer.role is not Role.COMPUTE or written is None:
            continue
        n_shared = len(producer.loops)
        for consumer in nest.statements[position + 1 :]:
            n_shared = min(n_shared, consumer.n_shared_with_previous)
            shared_steps = [number for number in _reduction_loops(consumer) if number < n_shared]
            if shared_steps:
                # Spatial loops around it repeat it too, but that is another matter.
                running = frozenset((*shared_steps, *range(n_shared, len(producer.loops))))
                n_runs = product(producer.loops[number].extent for number in sorted(running))
                n_results = distinct_elements(nest, producer, written, running)
                is_repeated = either(is_repeated, (_MAX_REPEATS * n_results).lt(n_runs))
    return is_repeated


def _reduction_loops(statement: Statement) -> list[int]:
    """The loops that belong to reductions."""
    numbers = {
        number
        for iterator in statement.iterators
        if iterator.is_reduction
        for term in iterator.terms
        for number, _ in term.over
    }
    return sorted(numbers)
