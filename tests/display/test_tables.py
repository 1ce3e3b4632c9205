"""Tables on narrow terminals: numbers and names whole, prose broken between words."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from prune_engine.display.tables import add_row, counted, fitting, make_table, percent, print_table

NAME, NUMBER = "limits.shared_memory_per_block_opt_in_bytes", "1,234,567,890,123"


def console_of(width: int) -> Console:
    return Console(file=io.StringIO(), width=width, height=25, force_terminal=True, highlight=False, no_color=True)


def printed(width: int) -> list[str]:
    console = console_of(width)
    table = make_table("name", "number", "said", right=["number"], prose=["said"])
    add_row(table, NAME, NUMBER, "what somebody said about [it], at some length")
    print_table(console, table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [1, 40, 80, 200])
def test_nothing_is_cut(width: int) -> None:
    lines = printed(width)
    text = "\n".join(lines)
    assert NAME in text
    assert NUMBER in text
    assert "…" not in text
    for word in ("somebody", "[it],", "length"):
        assert word in text
    assert not [line for line in lines if line.endswith(" ")]


def test_columns_of_names_and_numbers_alone_are_not_cut() -> None:
    console = console_of(30)
    table = make_table("a name of two words", "number", "origin", right=["number"])
    add_row(table, f"{NAME} (failed)", NUMBER, "derived from others")
    print_table(console, table)
    assert isinstance(console.file, io.StringIO)
    header, row = console.file.getvalue().splitlines()
    assert "a name of two words" in header
    assert row == f"{NAME} (failed)  {NUMBER}  derived from others"


def test_prose_is_broken_to_fit() -> None:
    assert max(map(len, printed(80)[1:])) <= 80
    assert len(printed(80)) > len(printed(200)) == 2


def test_names_are_shortened_in_the_middle_on_a_terminal_only() -> None:
    name = "fused_conv2d_of_the_first_block_with_bias_and_relu"
    (short,) = fitting([name], console_of(80), [["1"], ["x" * 45]])
    assert len(short) == 80 - 45 - 1 - 4
    head, tail = short.split("…")
    assert name.startswith(head)
    assert name.endswith(tail)
    assert fitting([name], console_of(200), [["1"]]) == [name]
    assert fitting([name], Console(file=io.StringIO(), width=20), [["1"]]) == [name]


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (1, "100 %"), (0.94632, "94.63 %"), (1e-9, "<0.01 %"), (1 - 1e-9, ">99.99 %"), (1.0, "100 %")],
)
def test_none_and_all_are_exactly_that(share: float, text: str) -> None:
    assert percent(share) == text


def test_plurals() -> None:
    assert [counted(n, "sketch") for n in (1, 2)] == ["1 sketch", "2 sketches"]
    assert [counted(n, "candidate") for n in (0, 1, 2000)] == ["0 candidates", "1 candidate", "2,000 candidates"]
