"""Whitelisted schedules as candidates of a space, and whether they are legal there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prune_engine.candidates import Candidate, CandidateBatch, Decision, rows_of
from prune_engine.errors import SpaceError
from prune_engine.funnel import Funnel
from prune_engine.measurement import FixesSchedules, Workbench
from prune_engine.pipeline import Pipeline
from prune_engine.space import DesignSpace, Int32Array, Sketch
from prune_engine.verdicts import RuleKind
from prune_engine.whitelist.entries import WhitelistEntry


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A schedule as a candidate of a space.

    ``row``, int32 (v,), are its choices; None for one that no generated sketch holds. Of those ``new_sketch`` is
    one that has to be added to the space, None where the space has it already.
    """

    candidate: Candidate
    row: Int32Array | None
    new_sketch: Sketch | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule by its structure and decisions, and as a whole, without post-processing."""

    sketch_id: str
    decisions: tuple[Decision, ...]
    trace_json: str

    @staticmethod
    def of(entry: WhitelistEntry) -> Schedule:
        """The schedule of an entry."""
        return Schedule(entry.sketch_id, tuple(choice.values for choice in entry.choices), entry.trace_json)


def placed(space: DesignSpace, schedule: Schedule, workbench: Workbench, n_generated: int) -> Placed:
    """Find a schedule among the first ``n_generated`` sketches, or make a sketch of it.

    Raises SpaceError where that cannot be done.
    """
    generated = space.sketches[:n_generated]
    sketch = next((sketch for sketch in generated if sketch.sketch_id == schedule.sketch_id), None)
    row = None if sketch is None else rows_of(sketch, schedule.decisions)
    if sketch is not None and row is not None:
        return Placed(CandidateBatch(space, sketch, row[None, :]).candidate(0), row)
    if not isinstance(workbench, FixesSchedules):
        raise SpaceError("no sketch of the space holds it, and this workbench takes no others")
    made = workbench.fixed_sketch(space, schedule.trace_json)
    same = next((sketch for sketch in space.sketches if sketch.sketch_id == made.sketch_id), None)
    sketch = same or made
    only = np.array([variable.rows[0] for variable in sketch.variables], dtype=np.int32)
    candidate = CandidateBatch(space, sketch, only[None, :]).candidate(0)
    return Placed(candidate, None, made if same is None else None)


def why_illegal(pipeline: Pipeline, space: DesignSpace, place: Placed) -> str:
    """Which LEGALITY rules drop a schedule of a space that no rule cut, in a clause; empty if none does."""
    if place.row is None:
        return ""
    legal, cuts = pipeline.restrict(space, only=RuleKind.LEGALITY)
    if not legal.sketches[place.candidate.sketch_index].allows(place.row[None, :])[0]:
        return "a choice of it was cut by " + " or ".join(cut.strategy for cut in cuts)
    dropped = droppers(pipeline, space, place, RuleKind.LEGALITY)
    return f"dropped by {dropped}" if dropped else ""


def droppers(pipeline: Pipeline, space: DesignSpace, place: Placed, kind: RuleKind) -> str:
    """The rules of a kind that drop a schedule, by name; a rule is asked if none before it did."""
    assert place.row is not None, "only what a sketch holds can be judged"
    funnel = Funnel()
    batch = CandidateBatch(space, space.sketches[place.candidate.sketch_index], place.row[None, :])
    pipeline.judge(batch, funnel)
    return ", ".join(s.strategy for s in funnel.steps if s.kind is kind and s.n_out < s.n_in)
