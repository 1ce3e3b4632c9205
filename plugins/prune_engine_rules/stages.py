"""Where the producers of a fused kernel are computed."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.schema import DeviceKind, HardwareProfile
from prune_engine.space import VariableKind
from prune_engine.strategies import Rule
from prune_engine.symbols.expr import Expr, as_expr, both, either, product
from prune_engine.symbols.loop_nest import LoopNest, Role, Statement
from prune_engine.symbols.structure import nest_column
from prune_engine.verdicts import BoolArray, RuleKind
from prune_engine_rules.limits import keep_all

#: Halos of overlapping windows make a producer run up to so often for each of its results in good schedules.
_MAX_REPEATS = 2


class ReductionLocation(Rule):
    """A producer is computed inside a reduction loop of its consumer, again and again.

    Inside a loop that walks over the producer's own results that costs nothing; so only locations count where
    it runs more than twice for each result.
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
            "a producer is computed at a reduction loop of its consumer,"
            f" more than {_MAX_REPEATS} times for each of its results"
        )


def _is_repeated(nest: LoopNest) -> Expr:
    """1 where a producer runs too often inside a reduction loop of a later statement."""
    is_repeated = as_expr(0)
    for position, producer in enumerate(nest.statements):
        if producer.role is not Role.COMPUTE:
            continue
        n_results = _results(nest, producer)
        if n_results is None:
            continue
        n_shared = len(producer.loops)
        for consumer in nest.statements[position + 1 :]:
            n_shared = min(n_shared, consumer.n_shared_with_previous)
            if not n_shared:
                break
            if consumer.role is Role.UPDATE:
                steps = product(consumer.loops[number].extent for number in _reduction_loops(consumer, n_shared))
                often = as_expr(_MAX_REPEATS * n_results).lt(producer.instances)
                is_repeated = either(is_repeated, both(as_expr(1).lt(steps), often))
    return is_repeated


def _results(nest: LoopNest, statement: Statement) -> int | None:
    """Elements of the buffer that a statement writes."""
    written = next((a.buffer for a in statement.accesses if a.is_write), None)
    if written is None:
        return None
    return prod(nest.buffers[written].shape)


def _reduction_loops(statement: Statement, n_shared: int) -> list[int]:
    """Which of the outermost ``n_shared`` loops belong to reductions."""
    numbers = {
        number
        for iterator in statement.iterators
        if iterator.is_reduction
        for term in iterator.terms
        for number, _ in term.over
    }
    return sorted(number for number in numbers if number < n_shared)
