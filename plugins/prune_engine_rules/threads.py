"""Reductions divided among the threads of a block."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.space import DesignSpace, Sketch, SpaceRestriction, VariableKind
from prune_engine.strategies import Rule
from prune_engine.symbols.expr import Expr, as_expr, both, either, product
from prune_engine.symbols.loop_nest import THREAD_KINDS, LoopNest, Role, Statement, extent_if
from prune_engine.symbols.structure import nest_column
from prune_engine.verdicts import BoolArray, RuleKind
from prune_engine_rules.limits import keep_all
from prune_engine_rules.tables import is_a_cut


class ThreadReduction(Rule):
    """A reduction no longer than a warp is divided among threads, which costs more than adding it up."""

    name, kind, order = "rules.thread-reduction", RuleKind.HEURISTIC, 40
    hardware_basis = ("limits.threads_per_warp",)

    def restrict(self, space: DesignSpace, profile: HardwareProfile) -> SpaceRestriction | None:
        """Cut rows of the variable that alone says how many threads share such a reduction."""
        n_threads = _warp(profile)
        if n_threads is None:
            return None
        keep: dict[tuple[int, int], BoolArray] = {}
        for s, sketch in enumerate(space.sketches):
            if (found := _rows(sketch, n_threads)) is not None:
                keep[s, found[0]] = found[1]
        return SpaceRestriction(keep) if keep else None

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> BoolArray:
        """Keep what divides no short reduction; bool (n,)."""
        n_threads = _warp(profile)
        if n_threads is None or batch.is_opaque:
            return keep_all(batch)
        is_split = nest_column(batch, _symbol(n_threads), lambda nest: _is_split(nest, n_threads))
        return np.asarray(is_split == 0)

    def reason(self, symbols: Mapping[str, float], profile: HardwareProfile) -> str:  # noqa: ARG002
        """Say what is short."""
        size = profile.value("limits.threads_per_warp") or "an unknown number of"
        return (
            f"a reduction of at most {size} steps is divided among threads"
            f" ({profile.name}, limits.threads_per_warp)"
        )


def _warp(profile: HardwareProfile) -> int | None:
    value = profile.value("limits.threads_per_warp")
    return None if value is None else int(value)


def _symbol(n_threads: int) -> str:
    return f"{ThreadReduction.name}.{n_threads}"


def _rows(sketch: Sketch, n_threads: int) -> tuple[int, BoolArray] | None:
    """The variable that alone decides, with the rows to keep, bool (m,); None where there is no such one."""
    has_structures = any(v.kind is VariableKind.LOCATION for v in sketch.variables)
    if sketch.nests is None or has_structures or not sketch.size:
        return None
    first = np.array([[v.rows[0] for v in sketch.variables]], dtype=np.int32).reshape(1, -1)
    groups = sketch.nests.groups(first)
    is_split = _is_split(groups[0].nest, n_threads)
    if len(is_split.variables) != 1:
        return None
    variable = is_split.variables[0]
    kept: BoolArray = sketch.nests.tables.of(is_split) == 0
    return (variable, kept) if is_a_cut(sketch.variables[variable], kept) else None


def _is_split(nest: LoopNest, n_threads: int) -> Expr:
    """1 where a reduction of at most ``n_threads`` steps runs on more than one thread."""
    is_split = as_expr(0)
    for statement in nest.statements:
        if statement.role is Role.UPDATE:
            steps = product(it.extent for it in statement.iterators if it.is_reduction)
            is_split = either(is_split, both(steps.le(n_threads), as_expr(1).lt(_threads_of_reductions(statement))))
    return is_split


def _threads_of_reductions(statement: Statement) -> Expr:
    """How many threads share one result."""
    numbers = {
        number
        for iterator in statement.iterators
        if iterator.is_reduction
        for term in iterator.terms
        for number, _ in term.over
    }
    return product(extent_if(statement.loops[number], THREAD_KINDS) for number in sorted(numbers))
