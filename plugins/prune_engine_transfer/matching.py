"""Which decision of an entry belongs to which variable of a sketch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from prune_engine.library import Choice, KernelClass, LibraryEntry
from prune_engine.space import Sketch, Variable, VariableKind
from prune_engine_transfer.rows import extent_of

#: What a tile splits: the number of its statement among the tiled ones, its iterator, its levels and their number.
_TileKey = tuple[int, int | str, tuple[str, ...]]

OTHER_TILES = "no sketch of the kernel is tiled alike"


@dataclass(frozen=True, slots=True)
class Match:
    """For each variable of a sketch the number of the entry's decision about it, None where there is none.

    ``is_transplant`` says that the sketch is another than the entry's, so that what it has besides tiles may be
    elsewhere.
    """

    entry: LibraryEntry
    sketch: Sketch
    numbers: tuple[int | None, ...]
    is_transplant: bool

    @property
    def choices(self) -> tuple[Choice | None, ...]:
        """The entry's decisions in the order of the sketch's variables."""
        return tuple(None if number is None else self.entry.choices[number] for number in self.numbers)

    @property
    def tiles(self) -> dict[int, Variable]:
        """The sketch's tile variables by the number of the entry's decision."""
        pairs = zip(self.numbers, self.sketch.variables, strict=True)
        return {number: v for number, v in pairs if number is not None and v.kind is VariableKind.TILE}

    @property
    def extents(self) -> dict[int, int]:
        """What each tile of the entry, by its number, splits in this kernel."""
        return {number: extent_of(variable) for number, variable in self.tiles.items()}


def statement_names(source: KernelClass, wanted: KernelClass) -> dict[str, str]:
    """What the wanted kernel calls the statements of another of the same class, where the names differ."""
    theirs, ours = (list(dict.fromkeys(a.rpartition(".")[0] for a, _ in k.axes)) for k in (source, wanted))
    if source.strict != wanted.strict or len(theirs) != len(ours):
        return {}
    return {their: our for their, our in zip(theirs, ours, strict=True) if their != our}


def matches(entry: LibraryEntry, sketches: Sequence[Sketch], wanted: KernelClass) -> list[Match]:
    """The sketches that an entry's decisions fit: its own if the space has it, else all that are tiled alike.

    Where such a sketch decides the same kinds of things in the same order, decisions are taken one by one. Else
    categoricals are matched by name, and compute locations of another structure tell nothing.
    """
    for sketch in sketches:
        if sketch.sketch_id == entry.sketch_id and _is_alike(entry.choices, sketch.variables):
            return [Match(entry, sketch, tuple(range(len(entry.choices))), is_transplant=False)]
    source = _tiles(entry.choices, entry.kernel_class)
    found = []
    for sketch in sketches:
        target = _tiles(sketch.variables, wanted)
        if source and sketch.size and source.keys() == target.keys():
            is_alike = source == target and _is_alike(entry.choices, sketch.variables)
            numbers = range(len(entry.choices)) if is_alike else _numbers(entry.choices, sketch, source, target)
            found.append(Match(entry, sketch, tuple(numbers), is_transplant=True))
    return found


def _is_alike(choices: Sequence[Choice], variables: Sequence[Variable]) -> bool:
    """Whether decisions and variables are of the same kinds and widths, one by one."""
    ours = [(variable.kind, variable.table.shape[1]) for variable in variables]
    return ours == [(choice.kind, len(choice.values)) for choice in choices]


def _numbers(
    choices: Sequence[Choice], sketch: Sketch, source: Mapping[_TileKey, int], target: Mapping[_TileKey, int]
) -> list[int | None]:
    """Numbers of the decisions for a sketch's variables: tiles by what they split, categoricals by name."""
    keys = {number: key for key, number in target.items()}
    named: dict[str, list[int]] = defaultdict(list)
    for number, choice in enumerate(choices):
        if choice.kind is VariableKind.CATEGORICAL:
            named[_meaning(choice.name)].append(number)
    found: list[int | None] = []
    for number, variable in enumerate(sketch.variables):
        same = named[_meaning(variable.name)] if variable.kind is VariableKind.CATEGORICAL else []
        if number in keys:
            found.append(source[keys[number]])
        else:
            found.append(same.pop(0) if same else None)
    return found


def _tiles(parts: Sequence[Choice | Variable], kernel: KernelClass) -> dict[_TileKey, int]:
    """Number of each tile by what it splits. A statement is known by its number: names are a model's own."""
    positions = _positions(axis for axis, _ in kernel.axes)
    statements: dict[str, int] = {}
    found: dict[_TileKey, int] = {}
    for number, part in enumerate(parts):
        if part.kind is not VariableKind.TILE:
            continue
        width = len(part.values) if isinstance(part, Choice) else part.table.shape[1]
        if part.subject is None:
            statement, _, iterator = _meaning(part.name).rpartition(".")
            levels: tuple[str, ...] = ()
        else:
            statement, iterator, levels = part.subject.statement, part.subject.iterator, part.subject.levels
        where = positions.get(f"{statement}.{iterator}", iterator)
        found[statements.setdefault(statement, len(statements)), where, (*levels, str(width))] = number
    return found


def _positions(axes: Iterable[str]) -> dict[str, int]:
    """Number of each iterator within its statement."""
    counts: dict[str, int] = defaultdict(int)
    positions = {}
    for axis in axes:
        statement = axis.rpartition(".")[0]
        positions[axis] = counts[statement]
        counts[statement] += 1
    return positions


def _meaning(name: str) -> str:
    """A variable's name without the number of its place in the sketch."""
    number, _, rest = name.partition(".")
    return rest if number.isdigit() and rest else name
