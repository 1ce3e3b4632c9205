"""Candidates named by their decisions, in part or as a whole: what a user writes, read against a space."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch
from prune_engine.enumeration import drawn
from prune_engine.errors import ConfigError
from prune_engine.space import DesignSpace, Sketch, Variable

_WHO = "--why-not"
_FORM = "NAME=VALUE,VALUE,... by variable, or the JSON that `prune-engine candidates` prints"
#: Choices of a table that an error lists.
_N_NEAR = 3


@dataclass(frozen=True, slots=True)
class Assignment:
    """Values by variable; ``sketch`` is None where any sketch that has them will do."""

    values: Mapping[str, tuple[int, ...]]
    sketch: int | None = None


def parse_assignment(text: str) -> Assignment:
    """Read ``i=8,4,2 unroll=16``, JSON of that, or a line of `prune-engine candidates`. Raises ConfigError."""
    if text.lstrip().startswith("{"):
        return _parsed_json(text)
    values: dict[str, tuple[int, ...]] = {}
    sketch = None
    for part in filter(None, re.split(r"[;\s]+", text)):
        name, separator, listed = part.rpartition("=")
        try:
            numbers = tuple(int(x) for x in listed.strip("[]()").split(","))
        except ValueError:
            numbers = ()
        if not separator or not name or not numbers:
            raise ConfigError("cannot be read", who=_WHO, got=repr(part[:80]), expected=_FORM)
        if name == "sketch":
            sketch = numbers[0]
        elif name in values:
            raise ConfigError("is decided twice", who=_WHO, got=repr(part[:80]), expected=f"{name} once")
        else:
            values[name] = numbers
    return _checked(Assignment(values, sketch), text)


def completions(
    assignment: Assignment, space: DesignSpace, n: int, rng: np.random.Generator
) -> list[CandidateBatch]:
    """Candidates with these decisions: the one that is meant, or at most ``n`` draws of each sketch that has them.

    Raises ConfigError for a variable or a value that no sketch has, naming those that are near.
    """
    found: list[CandidateBatch] = []
    complaints: list[_Complaint] = []
    for sketch in space.sketches:
        if assignment.sketch not in (None, sketch.index):
            continue
        fixed = _fixed(assignment, sketch, complaints)
        if fixed is None:
            continue
        if len(fixed) == len(sketch.variables):
            rows = np.array([[fixed[v] for v in range(len(sketch.variables))]], dtype=np.int32)
        else:
            rows = _completed(sketch, fixed, n, rng)
        found.append(CandidateBatch(space, sketch, np.ascontiguousarray(rows, dtype=np.int32)))
    if found:
        return found
    if not complaints:
        raise ConfigError(
            "no such sketch",
            who=_WHO,
            got=assignment.sketch,
            expected=f"a number from 0 to {len(space.sketches) - 1}",
        )
    raise max(complaints, key=lambda complaint: complaint.n_fit).error


def _completed(sketch: Sketch, fixed: Mapping[int, int], n: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """All rows with these choices, int32 (m, v), or at most ``n`` drawn of them."""
    choices = [np.array([fixed[v]]) if v in fixed else variable.rows for v, variable in enumerate(sketch.variables)]
    if math.prod(map(len, choices)) <= n:
        return np.stack(np.meshgrid(*choices, indexing="ij"), axis=-1).reshape(-1, len(choices)).astype(np.int32)
    rows = drawn(sketch, min(n, sketch.size), rng).copy()
    for v, row in fixed.items():
        rows[:, v] = row
    return np.unique(rows, axis=0)


@dataclass(frozen=True, slots=True)
class _Complaint:
    """Why a sketch has no such candidate; it has ``n_fit`` of the variables that were named."""

    n_fit: int
    error: ConfigError


def _fixed(assignment: Assignment, sketch: Sketch, complaints: list[_Complaint]) -> dict[int, int] | None:
    """The row of each variable that is named, by its number; None, and a complaint, if the sketch has not all."""
    numbers = {variable.name: v for v, variable in enumerate(sketch.variables)}
    fixed: dict[int, int] = {}
    n_fit = sum(name in numbers for name in assignment.values)
    for name, value in assignment.values.items():
        v = numbers.get(name)
        if v is None:
            near = difflib.get_close_matches(name, numbers, n=_N_NEAR, cutoff=0.4) or list(numbers)
            error = ConfigError(
                "no such variable", who=_WHO, got=repr(name), expected=f"one such as {', '.join(near)}"
            )
            complaints.append(_Complaint(n_fit, error))
            return None
        row = sketch.variables[v].index_of(value) if len(value) == sketch.variables[v].table.shape[1] else None
        if row is None:
            error = ConfigError(
                f"variable {name} has no such choice",
                who=_WHO,
                got=",".join(map(str, value)),
                expected=f"one such as {' or '.join(_near_choices(sketch.variables[v], value))}",
            )
            complaints.append(_Complaint(n_fit, error))
            return None
        fixed[v] = row
    return fixed


def _near_choices(variable: Variable, value: Sequence[int]) -> list[str]:
    """The choices of a table that are nearest to a value; the first ones where it has another length."""
    table = variable.table
    if len(value) == table.shape[1]:
        far: NDArray[np.float64] = np.abs(_logs(table) - _logs(np.array(value))).sum(axis=1)
        table = table[np.argsort(far, kind="stable")]
    return [",".join(map(str, row)) for row in table[:_N_NEAR].tolist()]


def _logs(values: NDArray[np.integer]) -> NDArray[np.float64]:
    """Signed doublings from 0, so that 8 is nearer to 16 than to 1."""
    wide = values.astype(np.float64)
    logs: NDArray[np.float64] = np.sign(wide) * np.log2(1.0 + np.abs(wide))
    return logs


def _parsed_json(text: str) -> Assignment:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError("is no JSON", who=_WHO, got=repr(text[:80]), expected=_FORM) from error
    listed = record.get("decisions", record)
    sketch = record.get("sketch") if "decisions" in record else None
    values: dict[str, tuple[int, ...]] = {}
    for name, value in listed.items() if isinstance(listed, dict) else ():
        numbers = tuple(value) if isinstance(value, list) else (value,)
        if not numbers or not all(isinstance(x, int) and not isinstance(x, bool) for x in numbers):
            raise ConfigError("is no choice", who=f"{_WHO}, {name}", got=repr(value)[:80], expected="integers")
        values[name] = numbers
    if sketch is not None and not isinstance(sketch, int):
        raise ConfigError("is no sketch", who=_WHO, got=repr(sketch)[:80], expected="its number")
    return _checked(Assignment(values, sketch), text)


def _checked(assignment: Assignment, text: str) -> Assignment:
    if any(abs(x) >= 2**31 for value in assignment.values.values() for x in value):
        raise ConfigError("has a number out of range", who=_WHO, got=repr(text[:80]), expected="32-bit integers")
    if not assignment.values and assignment.sketch is None:
        raise ConfigError("names no decision", who=_WHO, got=repr(text[:80]), expected=_FORM)
    return assignment
