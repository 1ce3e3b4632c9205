"""docs/workloads.md says what the grammar is, and each of its names is one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from prune_engine.metaschedule.workloads.names import MAX_BYTES, parse_workload
from prune_engine.metaschedule.workloads.operators import FLOAT_TYPES, OPERATORS, SUM_TYPES
from prune_engine.metaschedule.workloads.steps import STEPS
from prune_engine.metaschedule.workloads.syntax import MAX_SIZE

TEXT = (Path(__file__).parents[3] / "docs" / "workloads.md").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"(?:`|tune |\")((?:\w+):\d[^`\s\"]*)", TEXT.replace("GEMM", "gemm"))))


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_is_documented(name: str) -> None:
    operator = OPERATORS[name]
    grammar = operator.grammar.replace("|", "\\|")
    assert f"| `{grammar}` | {operator.meaning} | `{operator.example}` |" in TEXT


def test_no_operator_or_step_is_documented_that_is_none() -> None:
    assert set(re.findall(r"^\| `(\w+):", TEXT, re.MULTILINE)) == set(OPERATORS)
    assert set(re.findall(r"^\| `\+(\w+)` ", TEXT, re.MULTILINE)) == set(STEPS)


@pytest.mark.parametrize("name", STEPS)
def test_every_step_is_documented(name: str) -> None:
    remark = "floating point only" if STEPS[name].floats_only else ""
    assert f"| `+{name}` | {STEPS[name].meaning} | {remark} |" in TEXT


def test_every_type_is_documented() -> None:
    rows = dict(re.findall(r"^\| `([\w-]+)`(?: \(default\))? \| (\w+ \| \w+ \| \w+)", TEXT, re.MULTILINE))
    assert {name: tuple(row.split(" | ")) for name, row in rows.items() if name in SUM_TYPES} == SUM_TYPES
    assert "take `f32`, `f16` and `f64`" in TEXT
    assert set(FLOAT_TYPES) == {"f32", "f16", "f64"}


def test_limits_are_documented() -> None:
    assert TEXT.count(str(MAX_SIZE)) == 2
    assert f"at most {MAX_BYTES >> 30} GiB" in TEXT


@pytest.mark.parametrize("text", NAMES)
def test_every_name_in_the_text_is_one(text: str) -> None:
    parse_workload(text)


def test_names_were_found() -> None:
    assert {"gemm:512x512x512+bias+relu", "conv2d:1x64x56x56,64x3x3,s1,p1", "gemm:64x64x64:f32+bias"} <= set(NAMES)
