"""The decision chain: what became of each candidate that was looked at closely, as records and as JSON lines.

A line is a JSON object with the fields of `Decision`; ``schemas/decision.schema.json`` is its JSON Schema. Fields
may be added within a version, so readers pass over those that they do not know.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from prune_engine.decisions.files import decision_files, lines_of
from prune_engine.errors import StoreVersionError
from prune_engine.verdicts import Outcome, SelectionReason, Stage

#: Version of a line.
VERSION = 1

#: The decisions of a candidate by variable: the factors of a tile, else the value.
Choices = Mapping[str, int | tuple[int, ...]]


class DecisionKind(Enum):
    """How sure a decision is, and of what kind."""

    LEGALITY = "legality"  #: it cannot run
    HEURISTIC = "heuristic"  #: a rule's guess
    GUESS = "guess"  #: what the draft or the verifier predicts
    CHOICE = "choice"  #: others were taken, or this one
    MEASUREMENT = "measurement"  #: it was tried


@dataclass(frozen=True, slots=True)
class ProfileField:
    """What a decision read in the hardware profile; ``value`` is None where nobody knows it."""

    field: str
    value: int | float | str | None


@dataclass(frozen=True, slots=True)
class Measured:
    """What measuring gave: seconds of a call (the median of the repeats), or why there are none.

    ``is_censored`` says that timing stopped early, as it was clearly slower than the best.
    """

    latency_secs: float | None
    error: str | None = None
    is_censored: bool = False


@dataclass(frozen=True, slots=True)
class Example:
    """One of the candidates that a line counts."""

    candidate: str
    sketch: int
    decisions: Choices


@dataclass(frozen=True, slots=True)
class Decision:
    """The fate of one candidate in one round, or of ``count`` of them that fell for one reason.

    Args:
        version: of the line.
        run: id of the run in the store.
        task: id of the task, ``task_name`` its name in the model.
        round: number of the task's round in that run, from 1; 0 is before the first.
        candidate: its identity; None for a count, of which ``example`` may be one.
        sketch: number of its structure, ``decisions`` its values by variable.
        stage: where its way ended, with the deciding ``strategy``, the ``kind`` of decision and its ``outcome``.
        selected_as: why it was measured, None if it was not to be.
        hardware_basis: fields of the hardware profile that the strategy reads, and their values.
        evidence: symbols and scores by name.
        predicted_secs: the latency that ``predicted_by`` expected; None where nobody could say.
        expected_gain: the best latency known before the round over ``predicted_secs``; above 1 is faster.
        measured: None if it was not measured in this round.
    """

    version: int
    run: str
    task: str
    round: int
    stage: Stage
    strategy: str
    kind: DecisionKind
    outcome: Outcome
    reason: str
    task_name: str = ""
    candidate: str | None = None
    count: int = 1
    sketch: int | None = None
    decisions: Choices | None = None
    example: Example | None = None
    selected_as: SelectionReason | None = None
    hardware_basis: tuple[ProfileField, ...] = ()
    evidence: Mapping[str, float] = field(default_factory=dict)
    predicted_secs: float | None = None
    predicted_by: str | None = None
    expected_gain: float | None = None
    measured: Measured | None = None

    __pydantic_config__ = ConfigDict(extra="ignore", allow_inf_nan=False)


#: What a line begins with, as it is written.
_HEAD = re.compile(rb'\{"version":\d+,"run":"[^"]*","task":"([^"]*)","task_name":("(?:[^"\\]|\\.)*")')
_RUN = re.compile(rb'\{"version":\d+,"run":"([^"]*)"')
#: Reads, writes and describes lines.
LINES: TypeAdapter[Decision] = TypeAdapter(Decision)


def read_decisions(folder: Path, task_id: str | None = None, candidate_id: str | None = None) -> Iterator[Decision]:
    """The decisions of a folder, oldest first: all of them, or those of a task, or on one candidate.

    A line that a killed program left unfinished is passed over, and so is one that is no decision; of the latter a
    warning tells. A folder that is not there has none. Raises StoreVersionError for lines of a newer version and
    OSError for files that cannot be read.
    """
    wanted = [f'"{text}"'.encode() for text in (task_id, candidate_id) if text is not None]
    for path in decision_files(folder):
        n_bad = 0
        for line in lines_of(path):
            if not all(text in line for text in wanted):  # most lines are of other candidates: not parsed
                continue
            try:
                decision = LINES.validate_json(line)
            except ValidationError:
                n_bad += 1
                continue
            if decision.version > VERSION:
                raise StoreVersionError(
                    "written by a newer prune_engine",
                    who=str(path),
                    got=f"version {decision.version}",
                    expected=f"version {VERSION} or older",
                    remedy="Read it with that version.",
                )
            if task_id in (None, decision.task) and candidate_id in (None, decision.candidate):
                yield decision
        if n_bad:
            warnings.warn(f"{path}: {n_bad} lines are no decisions and were passed over", stacklevel=2)


def as_json(decision: Decision) -> dict[str, Any]:
    """A decision as its line has it."""
    return dict(LINES.dump_python(decision, mode="json"))


def read_tasks(folder: Path) -> list[tuple[str, str]]:
    """Id and name of each task that a folder has decisions of, in their order. Raises OSError."""
    found: dict[str, str] = {}
    for path in decision_files(folder):
        last = b""
        for line in lines_of(path):
            # Hundreds of lines in a row begin alike: only the first of them is read.
            if last and line.startswith(last):
                continue
            if match := _HEAD.match(line):
                last = line[: match.end()]
                found.setdefault(match[1].decode(), json.loads(match[2]))
    return list(found.items())


def runs_of(folder: Path) -> list[str]:
    """The ids of the runs that a folder has decisions of, oldest first: each begins a file. Raises OSError."""
    found: dict[str, None] = {}
    for path in decision_files(folder):
        first = next(iter(lines_of(path)), b"")
        if match := _RUN.match(first):
            found.setdefault(match[1].decode("utf-8", "replace"))
    return list(found)


def schema() -> dict[str, Any]:
    """The JSON Schema of a line, as ``schemas/decision.schema.json`` holds it."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "prune_engine decision",
        **{key: value for key, value in LINES.json_schema().items() if key != "title"},
    }
