"""TVM's part of a search whose candidates are measured elsewhere: spaces, refusals, schedules and modules."""

from __future__ import annotations

from typing import Any

from prune_engine.candidates import Candidate
from prune_engine.errors import SpaceError
from prune_engine.loop.elsewhere import ElsewhereBench
from prune_engine.measurement import MeasureError
from prune_engine.metaschedule.materialise import Materialiser
from prune_engine.metaschedule.traces import trace_to_json, trace_with
from prune_engine.space import DesignSpace, Sketch


class TvmElsewhere(ElsewhereBench):
    """One task's compiler, without the measuring."""

    def __init__(self, materialiser: Materialiser, space: DesignSpace, device_name: str, n_threads: int) -> None:
        super().__init__(space, device_name, n_threads)
        self._materialiser = materialiser

    def refusal(self, space: DesignSpace, candidate: Candidate) -> str | None:
        """What TVM says of a candidate that it refuses, else None: 1 to 3 ms."""
        made = self._materialiser.scheduled(space, candidate)
        return made.message if isinstance(made, MeasureError) else None

    def fixed_sketch(self, space: DesignSpace, trace_json: str) -> Sketch:
        """A schedule as the only candidate of an opaque sketch. Raises SpaceError where it does not fit."""
        return self._materialiser.fixed_sketch(space, trace_json)

    def schedule_text(self, space: DesignSpace, candidate: Candidate) -> str | None:
        """A candidate's schedule with post-processing; None if TVM refuses it."""
        made = self._materialiser.materialise(space, candidate)
        return None if isinstance(made, MeasureError) else made.trace_json

    def trace(self, space: DesignSpace, candidate: Candidate) -> str:
        """A candidate's trace before post-processing, as ``Trace.as_json`` gives it."""
        return trace_to_json(trace_with(space.sketches[candidate.sketch_index], candidate.decisions))

    def schedule(self, space: DesignSpace, candidate: Candidate) -> Any:
        """A candidate as TVM's Schedule, post-processed. Raises SpaceError where TVM refuses it."""
        return schedule_of(self._materialiser, space, candidate)


def schedule_of(materialiser: Materialiser, space: DesignSpace, candidate: Candidate) -> Any:
    """A candidate as TVM's Schedule, post-processed. Raises SpaceError where TVM refuses it."""
    made = materialiser.scheduled(space, candidate)
    if isinstance(made, MeasureError):
        raise SpaceError(
            f"the compiler refuses it: {made.message}",
            who=f"candidate {candidate.candidate_id}",
            remedy="In a search, tell it with error=...",
        )
    return made.schedule
