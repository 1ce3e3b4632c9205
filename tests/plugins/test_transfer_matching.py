"""Which decision of an entry belongs to which variable of a sketch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from prune_engine_transfer.matching import Match, matches, statement_names

from prune_engine.library import Choice, KernelClass, LibraryEntry
from prune_engine.space import DesignSpace, Sketch, Variable, VariableKind, perfect_tile_table
from prune_engine.testing import make_batch, make_entries, make_space, make_task

WANTED = KernelClass(
    "testing-matmul-strict", "testing-matmul", "matmul", (("matmul.i", 128), ("matmul.j", 96), ("matmul.k", 64))
)


@pytest.fixture
def space() -> DesignSpace:
    return make_space(make_task("wanted", shape=(128, 96, 64)))


def entry_of(sketch: int = 0, **changed: object) -> LibraryEntry:
    return replace(
        make_entries(make_batch(1, space=make_space(make_task("source")), sketch=sketch), [1e-3])[0], **changed
    )  # type: ignore[arg-type]


def values(match: Match) -> list[tuple[int, ...] | None]:
    return [choice and choice.values for choice in match.choices]


def renamed(choice: Choice, old: str, new: str) -> Choice:
    """The choice as a kernel whose statement is called otherwise has it."""
    subject = choice.subject and replace(choice.subject, statement=choice.subject.statement.replace(old, new))
    return replace(choice, name=choice.name.replace(old, new), subject=subject)


def test_the_same_sketch_is_taken_as_it_is(space: DesignSpace) -> None:
    entry = entry_of(sketch=1)
    (match,) = matches(entry, space.sketches, WANTED)
    assert match.sketch.index == 1
    assert not match.is_transplant
    assert match.choices == entry.choices


def test_an_unknown_sketch_is_transplanted_to_all_that_are_tiled_alike(space: DesignSpace) -> None:
    entry = entry_of(sketch=0, sketch_id="nowhere")
    plain, cached = matches(entry, space.sketches, WANTED)
    assert plain.is_transplant
    assert cached.is_transplant
    assert values(plain) == [choice.values for choice in entry.choices]
    assert values(cached) == [*(choice.values for choice in entry.choices), None]  # where to cache is open


def test_tiles_are_found_by_what_they_split_whatever_their_order_and_names(space: DesignSpace) -> None:
    original = entry_of(sketch=0)
    shuffled = tuple(renamed(original.choices[i], "matmul", "dense") for i in (3, 2, 0, 1))
    kernel = KernelClass("other", "testing-matmul", "dense", (("dense.i", 64), ("dense.j", 48), ("dense.k", 32)))
    entry = replace(original, choices=shuffled, sketch_id="nowhere", kernel_class=kernel)
    plain, _ = matches(entry, space.sketches, WANTED)
    assert values(plain) == [choice.values for choice in original.choices]


def test_locations_of_another_structure_are_open(space: DesignSpace) -> None:
    entry = entry_of(sketch=1, sketch_id="nowhere")
    plain, cached = matches(entry, space.sketches, WANTED)
    assert len(plain.choices) == 4
    assert cached.choices == entry.choices  # it decides the same things in the same order
    more = (*entry.choices, Choice("5.unroll", VariableKind.CATEGORICAL, (16,)))
    _, cached = matches(replace(entry, choices=more), space.sketches, WANTED)
    assert cached.choices[4] is None


@pytest.mark.parametrize("change", ["levels", "width", "missing", "more"])
def test_other_tiles_do_not_fit(space: DesignSpace, change: str) -> None:
    entry = entry_of(sketch=0, sketch_id="nowhere")
    first = entry.choices[0]
    assert first.subject is not None
    choices = {
        "levels": (replace(first, subject=replace(first.subject, levels=("S0", "S1"))), *entry.choices[1:]),
        "width": (replace(first, values=first.values[1:]), *entry.choices[1:]),
        "missing": entry.choices[1:],
        "more": (*entry.choices, replace(first, subject=replace(first.subject, statement="second"))),
    }[change]
    assert matches(replace(entry, choices=choices), space.sketches, WANTED) == []


def test_the_same_sketch_with_other_tables_is_not_the_same(space: DesignSpace) -> None:
    """A structure's hash says nothing about an entry that a file brought in."""
    entry = entry_of(sketch=0)
    broken = replace(entry, choices=entry.choices[:-1])
    assert all(match.is_transplant for match in matches(broken, space.sketches, WANTED))


def test_without_subjects_names_and_widths_tell(space: DesignSpace) -> None:
    def bare(sketch: Sketch) -> Sketch:
        variables = tuple(
            replace(v, subject=None, name=f"{n}.matmul.{n}" if v.subject else v.name)
            for n, v in enumerate(sketch.variables)
        )
        return replace(sketch, variables=variables, sketch_id=f"bare {sketch.index}")

    sketches = tuple(map(bare, space.sketches))
    entry = entry_of(sketch=0, sketch_id="nowhere")
    choices = tuple(
        replace(c, subject=None, name=f"{n + 3}.dense.{n}" if c.subject else c.name)
        for n, c in enumerate(entry.choices)
    )
    plain, _ = matches(replace(entry, choices=choices), sketches, WANTED)
    assert values(plain) == [choice.values for choice in entry.choices]


def test_a_sketch_that_rules_emptied_is_left_out(space: DesignSpace) -> None:
    first = space.sketches[0]
    none = first.variables[3].restrict(np.zeros(4, dtype=np.bool_))
    empty = replace(first, variables=(*first.variables[:3], none))
    entry = entry_of(sketch=0, sketch_id="nowhere")
    assert [m.sketch.index for m in matches(entry, (empty, space.sketches[1]), WANTED)] == [1]


def test_extents_are_by_the_number_of_the_entrys_own_decision(space: DesignSpace) -> None:
    original = entry_of(sketch=0)
    entry = replace(original, choices=tuple(original.choices[i] for i in (3, 2, 0, 1)), sketch_id="nowhere")
    plain, _ = matches(entry, space.sketches, WANTED)
    assert plain.extents == {2: 128, 3: 96, 1: 64}


def test_tiles_of_no_width_in_common_do_not_fit() -> None:
    variable = Variable.of("0.matmul.0", VariableKind.TILE, perfect_tile_table(64, 2, 64))
    sketch = Sketch(0, "narrow", (variable,))
    entry = replace(entry_of(), choices=(Choice("0.matmul.0", VariableKind.TILE, (4, 4, 4)),))
    assert matches(entry, (sketch,), WANTED) == []


def test_statements_of_one_class_are_known_by_their_order() -> None:
    theirs = KernelClass("strict", "anchor", "", (("conv.n", 1), ("conv.c", 2), ("T_relu.a", 3)))
    ours = KernelClass("strict", "anchor", "", (("conv.n", 1), ("conv.c", 2), ("T_relu_1.a", 3)))
    assert statement_names(theirs, ours) == {"T_relu": "T_relu_1"}
    assert statement_names(theirs, replace(ours, strict="other")) == {}
    assert statement_names(theirs, replace(ours, axes=ours.axes[:2])) == {}
