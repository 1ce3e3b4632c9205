"""What a cost model learnt, as JSON: each candidate by its structure and decisions, with its latencies."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prune_engine.bounded_files import json_of, read_bounded
from prune_engine.candidates import Candidate, Decision
from prune_engine.errors import ConfigError, OutputError
from prune_engine.space import Sketch
from prune_engine.task import TuningTask

_FORMAT = "prune_engine.cost-model/1"


@dataclass(frozen=True, slots=True)
class Lesson:
    """One measured candidate. ``run_secs`` are the seconds of its repeats, none if it failed."""

    target: str
    task_id: str
    sketch_id: str
    decisions: tuple[Decision, ...]
    run_secs: tuple[float, ...]

    @classmethod
    def of(
        cls, target: str, candidate: Candidate, task: TuningTask, sketch: Sketch, run_secs: tuple[float, ...]
    ) -> Lesson:
        """What a measurement teaches."""
        return cls(target, task.task_id, sketch.sketch_id, candidate.decisions, run_secs)


def write_lessons(path: Path, lessons: Sequence[Lesson]) -> None:
    """Write a file, in place of an earlier one. Raises OutputError; the earlier one is then intact."""
    rows = [[one.target, one.task_id, one.sketch_id, one.decisions, one.run_secs] for one in lessons]
    staged = path.with_name(f".{path.name}.part")
    try:
        staged.write_text(json.dumps({"format": _FORMAT, "lessons": rows}), encoding="utf-8")
        staged.replace(path)
    except OSError as error:
        staged.unlink(missing_ok=True)
        raise OutputError(
            "the cost model cannot be written",
            who=str(path),
            got=error.strerror or str(error),
            remedy="Name a file in a folder that you can write to.",
        ) from error


def read_lessons(path: Path) -> list[Lesson]:
    """Read what ``write_lessons`` wrote. Raises ConfigError for anything else."""
    try:
        content = json_of(read_bounded(path).decode())
        if content["format"] != _FORMAT:
            raise ValueError(f"its format is {content['format']!r}")
        return [_lesson(*row) for row in content["lessons"]]
    except (OSError, ValueError, TypeError, LookupError, RecursionError, ArithmeticError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            "is no cost model of prune_engine",
            who=str(path),
            got=why[:200],
            expected=f"a whole file of format {_FORMAT}",
            remedy="Give a file that PruneEngineCostModel.save wrote.",
        ) from error


def _lesson(target: Any, task_id: Any, sketch_id: Any, decisions: Any, run_secs: Any) -> Lesson:
    if not all(isinstance(text, str) for text in (target, task_id, sketch_id)):
        raise ValueError("a lesson does not say what it is about")
    secs = tuple(float(one) for one in run_secs)
    if not all(math.isfinite(one) and one > 0 for one in secs):
        raise ValueError(f"latencies are {secs[:3]}")
    chosen = tuple(tuple(int(x) for x in decision) for decision in decisions)
    return Lesson(target, task_id, sketch_id, chosen, secs)
