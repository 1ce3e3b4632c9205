"""Structures are kept for the next batch, but not without end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kits.oracle import case, random_batch
from prune_engine_lightgbm.nest_formulas import formulas_of

from prune_engine.metaschedule.interpreter import source
from prune_engine.symbols.builtin import BUILTIN_SYMBOLS
from prune_engine.symbols.expr import Expr

_OF_A_NEST = ("statements", "buffers", "is_refused", "is_canonical", "is_unsure", "refusals", "pipelines")
FORMULAS = {symbol.name: symbol.formula for symbol in BUILTIN_SYMBOLS if symbol.formula} | dict(formulas_of("cpu"))


def test_structures_are_let_go_of_and_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    space, _ = case("softmax", "llvm")
    sketch = space.sketches[0]
    assert isinstance(sketch.nests, source.InterpretedSketch)
    batch = random_batch(space, sketch, 64)
    first = sketch.nests.groups(batch.indices)
    again = sketch.nests.groups(batch.indices)
    assert [a.nest is b.nest for a, b in zip(first, again, strict=True)] == [True] * len(first)
    monkeypatch.setattr(source, "_MAX_KEPT", 0)
    fresh = sketch.nests.groups(batch.indices)
    assert not any(a.nest is b.nest for a, b in zip(first, fresh, strict=True))
    assert all(np.array_equal(a.rows, b.rows) for a, b in zip(first, fresh, strict=True))


def test_whose_decisions_run_is_the_same_with_and_without_reading_nests() -> None:
    space, _ = case("softmax", "llvm")
    for sketch in space.sketches[:4]:
        assert isinstance(sketch.nests, source.InterpretedSketch)
        batch = random_batch(space, sketch, 64)
        quick = sketch.nests.canonical(batch.indices)
        assert quick.tolist() == source_of_truth(sketch.nests, batch.indices)
        assert 0 < quick.sum() < len(quick)


@pytest.mark.parametrize("workload", ["conv3x3", "softmax"])
def test_what_symbols_say_does_not_depend_on_the_structures_read_before(workload: str) -> None:
    space, _ = case(workload, "llvm")
    for sketch in space.sketches[:3]:
        assert isinstance(sketch.nests, source.InterpretedSketch)
        batch = random_batch(space, sketch, 12)
        for group in sketch.nests.groups(batch.indices):
            own = replace(group.nest, statements=tuple(map(replace, group.nest.statements)), formulas={})
            assert all(not statement.formulas for statement in own.statements)
            for name, formula in FORMULAS.items():
                assert formula(group.nest) is formula(own), name


def source_of_truth(nests: source.InterpretedSketch, indices: np.ndarray) -> list[bool]:  # type: ignore[type-arg]
    from prune_engine.symbols.structure import canonical_by_nests

    return list(canonical_by_nests(nests, indices).tolist())


@pytest.mark.parametrize("workload", ["conv3x3", "softmax"])
def test_structures_read_from_where_they_part_are_those_read_from_the_start(workload: str) -> None:
    space, _ = case(workload, "llvm")
    n_compared = 0
    for sketch in space.sketches[:2]:
        nests = sketch.nests
        assert isinstance(nests, source.InterpretedSketch)
        nests.groups(random_batch(space, sketch, 24).indices)
        for taken, step in _read(nests._first):
            runner = source.TraceRunner(source.copied(nests._tree), taken, _known(nests._first, taken))
            runner.tree.tables = nests._tables
            anew = nests._step(runner)
            for field in _OF_A_NEST:
                assert getattr(anew.nest, field) == getattr(step.nest, field), (taken, field)
            n_compared += len(taken) > 0
    assert n_compared > 3


def _read(step: source._Step, taken: tuple[int, ...] = ()) -> list[tuple[tuple[int, ...], source._Step]]:
    """The structures that were read, with the locations that lead to them."""
    if step.nest is not None:
        return [(taken, step)]
    return [found for location, inner in step.inner.items() for found in _read(inner, (*taken, location))]


def _known(step: source._Step, taken: tuple[int, ...]) -> tuple[Expr, ...]:
    """The expressions of the locations on the way to a structure."""
    if not taken:
        return ()
    assert step.taken is not None
    return (step.taken, *_known(step.inner[taken[0]], taken[1:]))
