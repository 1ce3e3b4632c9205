"""Sums in the untuned kernel's order: one axis split is, interleaved axes, threads and partial sums are not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from kits.rules import with_nests
from prune_engine_rules import register_demanded_rules
from prune_engine_rules.summation import SummationOrder

from prune_engine.candidates import CandidateBatch
from prune_engine.config import EngineConfig
from prune_engine.hardware.levels import DeviceKind
from prune_engine.space import DesignSpace, Sketch, Variable, VariableKind
from prune_engine.symbols.expr import as_expr, part
from prune_engine.symbols.loop_nest import (
    Access,
    Buffer,
    Iterator,
    Loop,
    LoopKind,
    LoopNest,
    Role,
    Statement,
    Term,
    plain_term,
)
from prune_engine.testing import make_profile, make_task

CPU = make_profile(DeviceKind.CPU)
#: Name, axis ("" for one of no reduction), stride, kind of each loop, from outside; extents are 4.
LoopText = tuple[str, str, int, LoopKind]
SERIAL, UNROLLED = LoopKind.SERIAL, LoopKind.UNROLLED


def keeps(*loops: LoopText, axes: Sequence[str] = ("r", "s"), dtype: str = "float32", extent: object = 4) -> bool:
    return bool(SummationOrder().mask(batch(nest(loops, axes, dtype, extent)), CPU)[0])


def nest(loops: Sequence[LoopText], axes: Sequence[str], dtype: str, extent: object, name: str = "c") -> LoopNest:
    return LoopNest((update(loops, axes, extent, name),), {"c": out(dtype)}, as_expr(0), as_expr(1))


def update(loops: Sequence[LoopText], axes: Sequence[str], extent: object = 4, name: str = "c") -> Statement:
    made = tuple(Loop(n, as_expr(extent), as_expr(int(kind))) for n, _, _, kind in loops)  # type: ignore[arg-type]

    def terms(axis: str) -> tuple[Term, ...]:
        return tuple(
            plain_term(number, made[number], as_expr(stride))
            for number, (_, of, stride, _) in enumerate(loops)
            if of == axis
        )

    iterators = [Iterator("i", as_expr(4), False, terms(""))]
    iterators += [Iterator(axis, as_expr(16), True, terms(axis)) for axis in axes if terms(axis)]
    access = Access("c", (), is_write=True)
    return Statement(name, Role.UPDATE, made, tuple(iterators), (access,), 2, as_expr(0))


def out(dtype: str) -> Buffer:
    return Buffer("c", "global", dtype, 4, (4,), is_argument=True, stored_elements=as_expr(4))


def batch(made: LoopNest) -> CandidateBatch:
    numbers = Variable.of("n", VariableKind.CATEGORICAL, np.array([[1], [4]], dtype=np.int32))
    sketch = with_nests(Sketch(0, "sum", (numbers,)), made)
    return CandidateBatch(DesignSpace(make_task(), (sketch,)), sketch, np.array([[0], [1]], dtype=np.int32))


@pytest.mark.parametrize(
    ("loops", "kept"),
    [
        pytest.param([("i", "", 1, SERIAL), ("r0", "r", 4, SERIAL), ("r1", "r", 1, UNROLLED)], True, id="split"),
        pytest.param([("r0", "r", 4, SERIAL), ("i", "", 1, SERIAL), ("r1", "r", 1, SERIAL)], True, id="around"),
        pytest.param([("r1", "r", 1, SERIAL), ("r0", "r", 4, SERIAL)], False, id="inside-out"),
        pytest.param([("r", "r", 1, SERIAL), ("s", "s", 1, SERIAL)], True, id="two-axes"),
        pytest.param([("s", "s", 1, SERIAL), ("r", "r", 1, SERIAL)], False, id="two-axes-swapped"),
        pytest.param(
            [("r0", "r", 4, SERIAL), ("s0", "s", 4, SERIAL), ("r1", "r", 1, SERIAL), ("s1", "s", 1, SERIAL)],
            False,
            id="interleaved",
        ),
        pytest.param([("r", "r", 1, LoopKind.VECTORIZED)], False, id="lanes"),
        pytest.param([("r", "r", 1, LoopKind.PARALLEL)], False, id="cores"),
        pytest.param([("r", "r", 1, LoopKind.THREAD_X)], False, id="threads"),
        pytest.param([("i", "", 1, LoopKind.VECTORIZED), ("r", "r", 1, SERIAL)], True, id="lanes-of-results"),
    ],
)
def test_orders(loops: list[LoopText], kept: bool) -> None:
    assert keeps(*loops) == kept


def test_integers_may_be_added_in_any_order() -> None:
    assert keeps(("r", "r", 1, LoopKind.THREAD_X), dtype="int32")


def test_a_loop_of_one_turn_is_no_loop() -> None:
    swapped = [("s", "s", 1, SERIAL), ("r", "r", 1, SERIAL)]
    made = nest(swapped, ("r", "s"), "float32", part(0, 0))  # one turn in the first candidate, four in the other
    assert SummationOrder().mask(batch(made), CPU).tolist() == [True, False]


def test_partial_sums_are_another_order() -> None:
    partial = update([("r", "r", 1, SERIAL)], "r", name="c_rf_update")
    rest = update([("q", "r", 1, SERIAL)], "r", name="c_update")
    made = LoopNest((partial, rest), {"c": out("float32")}, as_expr(0), as_expr(1))
    assert not SummationOrder().mask(batch(made), CPU)[0]
    one = update([("q", "r", 1, SERIAL)], "r", extent=1, name="c_update")
    made = LoopNest((partial, one), {"c": out("float32")}, as_expr(0), as_expr(1))
    assert SummationOrder().mask(batch(made), CPU)[0]


def test_what_cannot_be_read_is_dropped() -> None:
    sketch = Sketch(0, "opaque", ())
    opaque = CandidateBatch(DesignSpace(make_task(), (sketch,)), sketch, np.empty((2, 0), dtype=np.int32))
    assert SummationOrder().mask(opaque, CPU).tolist() == [False, False]


def test_it_is_there_only_if_demanded() -> None:
    assert not list(register_demanded_rules(EngineConfig()))
    assert [rule.name for rule in register_demanded_rules(EngineConfig(strict_fp=True))] == [SummationOrder.name]
