"""Formulas of symbols: what they give for whole columns, and what is none."""

from __future__ import annotations

import numpy as np
import pytest

from prune_engine.errors import ConfigError
from prune_engine.ffi.formulas import parse_formula

CHOICES = {
    "x": np.array([[1], [2], [7]], dtype=np.int32),
    "i": np.array([[3, 4], [2, 6], [1, 12]], dtype=np.int32),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", [1, 2, 7]),
        ("5", [5, 5, 5]),
        ("-x + 1", [0, -1, -6]),
        ("x * i[1]", [4, 12, 84]),
        ("i[1] // 5 % 2", [0, 1, 0]),
        ("ceil_div(i[1], 5)", [1, 2, 3]),
        ("min(x, i[0], 2) + max(x, 2)", [3, 4, 8]),
        ("2147483647 * i[1]", [4 * (2**31 - 1), 6 * (2**31 - 1), 12 * (2**31 - 1)]),
    ],
)
def test_whole_numbers(text: str, expected: list[int]) -> None:
    column = parse_formula(text, "test").column(CHOICES)
    assert column.dtype == np.int64
    assert column.tolist() == expected


def test_fractions() -> None:
    column = parse_formula("x / 2 + 0.5", "test").column(CHOICES)
    assert column.dtype == np.float64
    assert column.tolist() == [1.0, 1.5, 4.0]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "x.real",
            "x[0:1]",
            "x[y]",
            "(1)[0]",
            "__import__('os')",
            "x if x else 1",
            "[x]",
            "x and 1",
            "not x",
            "'a'",
        ),
        *("True", "x ** 9", "x < 1", "lambda: x", "min()", "ceil_div(x)", "min(x, key=x)", "x +", "", "x; x", "1j"),
        *("(" * 3000 + "x" + ")" * 3000, "+".join(["x"] * 3000)),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_formula(text: str) -> None:
    with pytest.raises(ConfigError, match="not a formula"):
        parse_formula(text, "symbol 'a'")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("y", r"no such variable; got y; expected x, i\[0\] to \[1\]"),
        ("i[2]", r"no such variable; got i\[2\]"),
        ("x[1]", r"no such variable; got x\[1\]"),
        ("y[0]", r"no such variable"),
        ("i + 1", r"a variable of several numbers; got i; expected i\[0\] to \[1\]"),
    ],
)
def test_variables_are_checked(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_formula(text, "test").check({"x": 1, "i": 2}, "test")


def test_division_by_zero_is_an_error() -> None:
    with pytest.raises(FloatingPointError):
        parse_formula("1 // (x - 1)", "test").column(CHOICES)
