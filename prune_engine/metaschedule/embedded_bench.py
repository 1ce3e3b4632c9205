"""Somebody's own TuneContext as the engine's workbench: its spaces and schedules; TVM itself measures."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence, Set
from typing import Any, NoReturn

from prune_engine.candidates import Candidate
from prune_engine.measurement import Comparison, MeasuredCandidate, MeasureError
from prune_engine.metaschedule.materialise import Materialiser, Scheduled
from prune_engine.metaschedule.traces import trace_to_json
from prune_engine.space import DesignSpace, Sketch
from prune_engine.task import TuningTask

#: Schedules kept that were made to see whether the compiler takes them: a round's choice is asked for again.
_MAX_KEPT = 512


class ContextBench:
    """The Workbench of one task whose design space somebody else generated."""

    def __init__(self, space: DesignSpace, materialiser: Materialiser, device_name: str, n_threads: int) -> None:
        self._space, self._materialiser = space, materialiser
        self._device_name, self._n_threads = device_name, n_threads
        self._kept: dict[str, Scheduled | MeasureError] = {}

    def design_space(self, task: TuningTask) -> DesignSpace:  # noqa: ARG002 - there is but one
        """The space that was handed over."""
        return self._space

    def device_name(self) -> str:
        """What the user calls the device that TVM's runner runs on."""
        return self._device_name

    def n_threads(self) -> int:
        """Threads that the target says kernels run on."""
        return self._n_threads

    def scheduled(self, space: DesignSpace, candidate: Candidate) -> Scheduled | MeasureError:
        """A candidate as TVM's schedule, or why TVM or a post-processor refuses it."""
        known = self._kept.pop(candidate.candidate_id, None)
        return known or self._materialiser.scheduled(space, candidate)

    def refusal(self, space: DesignSpace, candidate: Candidate) -> str | None:
        """Why TVM refuses a candidate, None if it takes it."""
        made = self._materialiser.scheduled(space, candidate)
        if len(self._kept) >= _MAX_KEPT:
            self._kept.pop(next(iter(self._kept)))
        self._kept[candidate.candidate_id] = made
        return made.message if isinstance(made, MeasureError) else None

    def fixed_sketch(self, space: DesignSpace, trace_json: str) -> Sketch:
        """A schedule as the only candidate of an opaque sketch. Raises SpaceError where it does not fit."""
        return self._materialiser.fixed_sketch(space, trace_json)

    def schedule_text(self, space: DesignSpace, candidate: Candidate) -> str | None:
        """A candidate's schedule with post-processing; None if TVM refuses it."""
        made = self._materialiser.scheduled(space, candidate)
        return None if isinstance(made, MeasureError) else trace_to_json(made.schedule.trace)

    def measure_defaults(self, tasks: Sequence[TuningTask]) -> Generator[tuple[TuningTask, MeasuredCandidate]]:  # noqa: ARG002
        """Not done here."""
        self._not_here()

    def measure(
        self,
        space: DesignSpace,  # noqa: ARG002
        candidates: Sequence[Candidate],  # noqa: ARG002
        incumbent_secs: float | None,  # noqa: ARG002
        known_ids: Set[str] = frozenset(),  # noqa: ARG002
    ) -> Iterator[MeasuredCandidate]:
        """Not done here."""
        self._not_here()

    def compare(self, space: DesignSpace, candidates: Sequence[Candidate | None]) -> Comparison:  # noqa: ARG002
        """Not done here."""
        self._not_here()

    def close(self) -> None:
        """Let go of the schedules that are kept."""
        self._kept.clear()

    def _not_here(self) -> NoReturn:
        raise NotImplementedError("TVM's own builder and runner measure")


def structural_hash(mod: Any) -> int:
    """What two equal modules share, whatever their variables are called."""
    import tvm_ffi

    return int(tvm_ffi.structural_hash(mod))
