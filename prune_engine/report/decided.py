"""What the decision records of a result folder add: the schedules' variables, forecasts and what came close."""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from prune_engine.decisions.files import decision_files, lines_of
from prune_engine.decisions.records import LINES, VERSION, Decision

#: Candidates of a task that were not measured and are told of: those of the least latency foreseen.
N_CLOSE = 10
#: Hundreds of candidates are looked at for each one measured: most lines are passed over by their text.
_NOT_MEASURED = b'"measured":null'
_SECS = re.compile(rb'"predicted_secs":([0-9.eE+-]+)')
_TASK = re.compile(rb'"task":"([^"\\]+)"')


@dataclass(slots=True)
class Decided:
    """The decisions on a task's candidates: those measured, by candidate, and the closest of the others."""

    measured: dict[str, Decision] = field(default_factory=dict)
    close: list[Decision] = field(default_factory=list)


def read_decided(folder: Path | None) -> dict[str, Decided]:
    """The decisions in a folder by task; lines that are none, or newer than this program, are passed over.

    Raises OSError for files that cannot be read.
    """
    found: dict[str, Decided] = {}
    closest: dict[bytes, list[tuple[float, int, bytes]]] = {}
    for number, line in enumerate(_lines(folder)):
        if _NOT_MEASURED in line:
            _offer(closest, number, line)
        elif (decision := _read(line)) is not None and decision.candidate is not None:
            found.setdefault(decision.task, Decided()).measured[decision.candidate] = decision
    for heap in closest.values():
        for _, _, line in sorted(heap, reverse=True):
            if (decision := _read(line)) is not None and decision.candidate is not None:
                decided = found.setdefault(decision.task, Decided())
                known = decided.measured.keys() | {one.candidate for one in decided.close}
                if decision.candidate not in known and len(decided.close) < N_CLOSE:
                    decided.close.append(decision)
    return found


def _lines(folder: Path | None) -> Iterator[bytes]:
    for path in decision_files(folder) if folder is not None else ():
        yield from lines_of(path)


def _offer(closest: dict[bytes, list[tuple[float, int, bytes]]], number: int, line: bytes) -> None:
    """Keep a line if few of its task promise more. One candidate may come again in each round.

    Latencies are compared, not gains: what was best so far, and hence the gain, changes from round to round.
    """
    secs, task = _SECS.search(line), _TASK.search(line)
    if secs is None or task is None:
        return
    heap = closest.setdefault(task[1], [])
    entry = (-_number(secs[1]), number, line)
    if len(heap) < 4 * N_CLOSE:
        heapq.heappush(heap, entry)
    elif entry > heap[0]:
        heapq.heapreplace(heap, entry)


def _number(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        return math.inf


def _read(line: bytes) -> Decision | None:
    try:
        decision = LINES.validate_json(line)
    except ValidationError:
        return None
    return decision if decision.version <= VERSION else None
