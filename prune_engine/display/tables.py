"""Tables and figures for people: numbers and names are never cut, however narrow the terminal is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

#: Columns between two cells of a table.
_GAP = 2
#: No table is as wide.
_UNLIMITED = 10_000
#: A name is not shortened below this.
_MIN_NAME = 24


@dataclass(frozen=True, slots=True)
class Columns:
    """Some columns of a table: ``rows[i]`` has a cell for each header. ``left`` are those of text, not numbers."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: frozenset[str] = frozenset()

    @property
    def width(self) -> int:
        """Columns of a terminal that they take beside others."""
        cells = zip(self.headers, *self.rows, strict=True)
        return sum(max(map(cell_len, column)) + _GAP for column in cells)


def make_table(*columns: str, right: Iterable[str] = (), prose: Iterable[str] = ()) -> Table:
    """A table without lines. The columns in ``right`` hold numbers; one in ``prose`` is broken between words."""
    table = Table(box=None, pad_edge=False)
    right, prose = frozenset(right), frozenset(prose)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", no_wrap=column not in prose)
    return table


def add_row(table: Table, *cells: str) -> None:
    """Add a row, in which brackets are brackets."""
    table.add_row(*map(Text, cells))


def print_table(console: Console, table: Table) -> None:
    """Print a table as wide as the console, or wider where a number or a word would have to be cut."""
    for column in table.columns:  # rich would cut what is not broken
        lines = [line for cell in (column.header, *column.cells) for line in str(cell).split("\n")]
        parts = lines if column.no_wrap else [word for line in lines for word in line.split()]
        column.min_width = max(map(cell_len, parts), default=0)
    unlimited = console.options.update(width=_UNLIMITED)
    width = max(console.width, Measurement.get(console, unlimited, table).minimum)
    for line in console.render_lines(table, console.options.update(width=width), pad=False):
        text = Text.assemble(*((segment.text, segment.style or "") for segment in line))
        text.rstrip()
        console.print(text, soft_wrap=True)


def print_named(console: Console, title: str, names: Sequence[str], *blocks: Columns) -> None:
    """Print what belongs to each of some names as one table.

    Where even shortened names leave a terminal too narrow for it, each block becomes a table of its own.
    """
    width = _MIN_NAME + sum(block.width for block in blocks)
    is_split = console.is_terminal and width > console.width
    groups = [[block] for block in blocks] if is_split else [list(blocks)]
    for number, group in enumerate(groups):
        headers = [header for block in group for header in block.headers]
        rows = [[cell for cells in parts for cell in cells] for parts in zip(*(b.rows for b in group), strict=True)]
        others = [list(column) for column in zip(headers, *rows, strict=True)]
        left = frozenset().union(*(block.left for block in group))
        table = make_table(title, *headers, right=set(headers) - left)
        for name, row in zip(fitting(list(names), console, others), rows, strict=True):
            add_row(table, name, *row)
        if number:
            print_line(console, "")
        print_table(console, table)


def print_line(console: Console, text: str) -> None:
    """Print a line as it is; a terminal breaks what is too long."""
    console.print(text, markup=False, soft_wrap=True)


def counted(n: int, noun: str) -> str:
    """``1 candidate``, ``2,000 candidates``, ``3 sketches``."""
    ending = "" if n == 1 else "es" if noun.endswith("ch") else "s"
    return f"{n:,} {noun}{ending}"


def percent(share: float) -> str:
    """A share as ``94.63 %``; ``0 %`` and ``100 %`` are exactly that."""
    return f"{hundredths(share)} %"


def hundredths(share: float) -> str:
    """The number of ``percent`` without its sign; what is not none or all never reads as if it were."""
    if share in (0, 1):
        return f"{share * 100:.0f}"
    return "<0.01" if share < 0.00005 else ">99.99" if share > 0.99995 else f"{share:.2%}"[:-1]


def fitting(names: list[str], console: Console, others: list[list[str]]) -> list[str]:
    """Names shortened in the middle, so that a table of them and ``others`` (its other columns) fits a terminal."""
    if not console.is_terminal:
        return names
    taken = sum(max(map(len, column)) + _GAP for column in others)
    room = max(_MIN_NAME, console.width - taken)
    return [name if len(name) <= room else shortened(name, room) for name in names]


def shortened(name: str, room: int) -> str:
    """A longer name in ``room`` columns: its start and its end."""
    head, tail = room // 2, (room - 1) // 2
    return f"{name[:head]}…{name[-tail:]}"
