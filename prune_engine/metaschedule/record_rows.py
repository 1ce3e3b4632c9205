"""Rows of a MetaSchedule JSON database, read without TVM: traces as structure and decisions, and run times."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prune_engine.bounded_files import json_of, read_bounded
from prune_engine.errors import ConfigError

#: Seconds at and above which TVM means that a candidate failed: it writes 1e10.
_FAILED_SECS = 1e9
#: Instructions that change nothing; TVM drops those whose results nobody uses.
_PURE = ("Get", "Sample")
_ENTER_POSTPROC = "EnterPostproc"

#: What reading a row raises that is not as it should be.
UNREADABLE = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError)

#: The number of a sampling instruction among those of its trace -> its decision as TVM holds it.
Decisions = Mapping[int, object]


@dataclass(frozen=True, slots=True)
class Structure:
    """A trace without its decisions and without what is dead in it, post-processing left out.

    ``key`` is equal for traces that differ in nothing else, whatever their variables are called.
    ``samples`` are the positions of the sampling instructions that live, ``numbers`` their numbers among all.
    """

    key: str
    samples: tuple[int, ...]
    numbers: tuple[int, ...]

    @property
    def is_empty(self) -> bool:
        """Whether nothing in it changes the program: the schedule of the untuned kernel."""
        return self.key == "[]"


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One measured schedule. ``run_secs`` is the median of its repeats, None where it failed."""

    line: int
    workload: int
    instructions: list[Any]
    decisions: list[Any]
    run_secs: float | None
    target: Any


def structure_of(instructions: Sequence[Any]) -> Structure:
    """Reduce a trace's instructions, as TVM's JSON has them, to what two tuners of one kernel share.

    Tuners simplify their traces differently: variables are renamed, unused reads of the program left out.
    Raises one of UNREADABLE for what is no list of instructions.
    """
    kinds = [str(inst[0]) for inst in instructions]
    n = kinds.index(_ENTER_POSTPROC) if _ENTER_POSTPROC in kinds else len(kinds)
    used: set[str] = set()
    living: list[int] = []
    for position in reversed(range(n)):
        _, inputs, _, outputs = instructions[position]
        kind = kinds[position]
        if kind.startswith(_PURE) and used.isdisjoint(outputs):
            continue
        living.append(position)
        used.update(_names(inputs))
    living.reverse()
    numbers: dict[str, int] = {}
    parts: list[object] = []
    for position in living:
        kind, inputs, attrs, outputs = instructions[position]
        parts.append((kind, _renamed(inputs, numbers), _plain_numbers(attrs), len(outputs)))
        for name in outputs:
            numbers[name] = len(numbers)
    sampling = [position for position in range(n) if kinds[position].startswith("Sample")]
    alive = set(living)
    samples = tuple(position for position in sampling if position in alive)
    return Structure(
        json.dumps(parts, separators=(",", ":")),
        samples,
        tuple(number for number, position in enumerate(sampling) if position in alive),
    )


def read_rows(path: Path) -> Iterator[RecordRow | str]:
    """Each row of a tuning record file, or a sentence saying why it cannot be read.

    Raises ConfigError if the file cannot be read at all.
    """
    for line, content in numbered_lines(path):
        try:
            yield _row(line, json_of(content))
        except json.JSONDecodeError as error:
            yield f"line {line} of {path.name} is no JSON ({error.msg} at column {error.colno})"
        except UNREADABLE as error:
            yield f"line {line} of {path.name} is no tuning record ({error})"


def numbered_lines(path: Path) -> list[tuple[int, str]]:
    """The lines of a text file that hold anything, from 1. Raises ConfigError if it cannot be read."""
    try:
        lines = read_bounded(path).decode("utf-8", errors="replace").split("\n")
    except (OSError, ValueError) as error:
        raise ConfigError(
            "cannot be read",
            who=str(path),
            got=getattr(error, "strerror", None) or str(error),
            expected="a file that you may read",
        ) from error
    return [(number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _row(line: int, row: Any) -> RecordRow:
    workload, record = row
    if isinstance(workload, bool) or not isinstance(workload, int) or workload < 0:
        raise ValueError(f"its workload is {workload!r}")
    (instructions, decisions), run_secs, target = record[0], record[1], record[2]
    if not isinstance(instructions, list) or not isinstance(decisions, list):
        raise ValueError("its trace is not a pair of lists")
    if not isinstance(target, str | dict):
        raise ValueError(f"its target is {type(target).__name__}")
    json.dumps(target)  # raises where it is nested too deeply to be written again
    return RecordRow(line, workload, instructions, decisions, _median(run_secs), target)


def run_secs_of(run_secs: Any) -> tuple[float, ...]:
    """The seconds of the repeats, none where TVM noted a failure: nothing, or 1e10 seconds."""
    values = tuple(float(secs) for secs in run_secs or [])
    return values if all(math.isfinite(secs) and 0 < secs < _FAILED_SECS for secs in values) else ()


def _median(run_secs: Any) -> float | None:
    """Median of the repeats, or None where TVM noted a failure."""
    values = run_secs_of(run_secs)
    return statistics.median(values) if values else None


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _names(item)


def _renamed(value: Any, numbers: Mapping[str, int]) -> object:
    """Inputs with variables by number. A literal text is none: in TVM's JSON it has quotes of its own."""
    if isinstance(value, str):
        return ["", numbers[value]] if value in numbers else value
    if isinstance(value, list):
        return [_renamed(item, numbers) for item in value]
    return _plain_numbers(value)


def _plain_numbers(value: Any) -> object:
    """1.0 and true as 1: writers of JSON differ in it."""
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    if isinstance(value, list):
        return [_plain_numbers(item) for item in value]
    return value
