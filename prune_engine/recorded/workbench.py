"""A recorded space as a workbench: measuring is looking up."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from prune_engine.candidates import Candidate, CandidateBatch, rows_of
from prune_engine.errors import ConfigError, SpaceError
from prune_engine.measurement import (
    DEFAULT_CANDIDATE,
    REPLAY_DEVICE,
    STOP_RATIOS,
    Comparison,
    MeasuredCandidate,
    MeasureError,
    MeasureErrorKind,
    Measurement,
)
from prune_engine.recorded.spaces import RecordedSpace
from prune_engine.space import DesignSpace, Int32Array
from prune_engine.task import TuningTask
from prune_engine.verdicts import Float64Array

#: Repeats of a comparison; a recording has one number, so they are equal.
_N_REPEATS = 5
_FAILED = MeasureError(MeasureErrorKind.RUN_ERROR, "it failed when it was recorded")


@dataclass(frozen=True, slots=True)
class ReplayCurve:
    """How one task's search went: ``run_secs``, float64 (n,), in the order of measuring, NaN for failures.

    ``best_secs`` is the best of the recording, ``batch_sizes`` how many of ``run_secs`` each round measured.
    """

    name: str
    task_id: str
    best_secs: float
    run_secs: Float64Array
    batch_sizes: tuple[int, ...]

    @property
    def found(self) -> Float64Array:
        """Best of the recording over best found so far, after each trial, float64 (n,): 1 is perfect, 0 nothing."""
        return found_after(self.run_secs, self.best_secs)

    def found_at(self, n_trials: int) -> float:
        """The same after so many trials, or after all there were if they are fewer."""
        found = self.found[:n_trials]
        return float(found[-1]) if len(found) else 0.0


class ReplayWorkbench:
    """Implements `prune_engine.measurement.Workbench` on recorded spaces.

    A latency is the recorded one, whatever the number of repeats; early stops are noted as on hardware. The
    untuned schedule counts as the slowest candidate that ran where it was not recorded. ``measured`` holds, by
    task, the batches of what was measured, in order.
    """

    def __init__(
        self, recorded: Sequence[RecordedSpace], *, profile_digest: str = "", n_threads: int | None = None
    ) -> None:
        """Index the recordings. Raises ConfigError if two are of one task, or one has no candidate that ran."""
        self._recorded = {space.task.task_id: space for space in recorded}
        if len(self._recorded) < len(recorded):
            raise ConfigError("two recordings of one task", who="replay", expected="one space per task")
        for space in recorded:
            if space.best_secs is None:
                raise ConfigError("no candidate of it ran", who=space.name, got=f"{space.n_candidates} recorded")
        self._secs = {
            task_id: [_by_row(batch, secs) for batch, secs in zip(space.batches, space.run_secs, strict=True)]
            for task_id, space in self._recorded.items()
        }
        self._profile_digest, self._n_threads = profile_digest, n_threads or 1
        self._clock = itertools.count(1)
        self.measured: dict[str, list[list[MeasuredCandidate]]] = {task_id: [] for task_id in self._recorded}

    def design_space(self, task: TuningTask) -> DesignSpace:
        """The recorded task's space. Raises SpaceError for a task that was not recorded."""
        if task.task_id not in self._recorded:
            raise SpaceError("was not recorded", who=task.name)
        return self._recorded[task.task_id].space

    def device_name(self) -> str:
        """What measurements of a replay are stored under: never a real device's."""
        return REPLAY_DEVICE

    def n_threads(self) -> int:
        """The thread count given, 1 by default."""
        return self._n_threads

    def measure_defaults(self, tasks: Sequence[TuningTask]) -> Generator[tuple[TuningTask, MeasuredCandidate]]:
        """The stand-ins for the untuned schedules."""
        for task in tasks:
            yield (
                task,
                MeasuredCandidate(None, self._measurement(DEFAULT_CANDIDATE, self._default_secs(task), None)),
            )

    def refusal(self, space: DesignSpace, candidate: Candidate) -> str | None:
        """Why it cannot be looked up; no compiler is asked, and what failed was recorded as a failure."""
        found = self._look_up(space, candidate)
        return found.message if isinstance(found, MeasureError) and found is not _FAILED else None

    def measure(
        self,
        space: DesignSpace,
        candidates: Sequence[Candidate],
        incumbent_secs: float | None,
        known_ids: Set[str] = frozenset(),
    ) -> Iterator[MeasuredCandidate]:
        """Look candidates up, in the order given."""
        batch: list[MeasuredCandidate] = []
        self.measured[space.task.task_id].append(batch)
        for candidate in candidates:
            if candidate.candidate_id in known_ids:
                continue
            secs = self._look_up(space, candidate)
            one = MeasuredCandidate(candidate, self._measurement(candidate.candidate_id, secs, incumbent_secs))
            batch.append(one)
            yield one

    def compare(self, space: DesignSpace, candidates: Sequence[Candidate | None]) -> Comparison:
        """The recorded latencies again."""
        ids = tuple(DEFAULT_CANDIDATE if c is None else c.candidate_id for c in candidates)
        found = [self._default_secs(space.task) if c is None else self._look_up(space, c) for c in candidates]
        return Comparison(
            ids,
            tuple((one,) * _N_REPEATS if isinstance(one, float) else () for one in found),
            tuple(None if isinstance(one, float) else one for one in found),
        )

    def close(self) -> None:
        """Nothing to stop."""

    def curve(self, task: TuningTask) -> ReplayCurve:
        """What was measured of a task so far."""
        space = self._recorded[task.task_id]
        batches = [batch for batch in self.measured[task.task_id] if batch]
        latencies = [one.measurement.latency_secs for batch in batches for one in batch]
        secs = np.array([np.nan if one is None else one for one in latencies], dtype=np.float64)
        assert space.best_secs is not None, "checked when it was taken in"
        return ReplayCurve(space.name, task.task_id, space.best_secs, secs, tuple(map(len, batches)))

    def _look_up(self, space: DesignSpace, candidate: Candidate) -> float | MeasureError:
        rows = rows_of(space.sketches[candidate.sketch_index], candidate.decisions)
        known = self._secs[space.task.task_id][candidate.sketch_index]
        secs = None if rows is None else known.get(rows.tobytes())
        if secs is None:
            return MeasureError(MeasureErrorKind.SCHEDULE_ERROR, "it was not recorded")
        return _FAILED if np.isnan(secs) else secs

    def _default_secs(self, task: TuningTask) -> float:
        recorded = self._recorded[task.task_id]
        if recorded.default_secs is not None:
            return recorded.default_secs
        return max(float(np.nanmax(s)) for s in recorded.run_secs if not np.isnan(s).all())

    def _measurement(
        self, candidate_id: str, secs: float | MeasureError, incumbent_secs: float | None
    ) -> Measurement:
        measured_at = float(next(self._clock))
        stage = 2
        if incumbent_secs is not None and isinstance(secs, float):
            stage = min((s for s, ratio in enumerate(STOP_RATIOS) if secs > ratio * incumbent_secs), default=2)
        made = looked_up(candidate_id, secs, n_threads=self._n_threads, profile_digest=self._profile_digest)
        return replace(made, measured_at=measured_at, stage=stage, is_censored=stage < 2)


def looked_up(
    candidate_id: str, secs: float | MeasureError, *, n_threads: int = 1, profile_digest: str = ""
) -> Measurement:
    """A full measurement of so many seconds, NaN for a failure, as a replay stores it."""
    if isinstance(secs, float) and np.isnan(secs):
        secs = _FAILED
    return Measurement(
        candidate_id=candidate_id,
        run_secs=(secs,) if isinstance(secs, float) else (),
        error=None if isinstance(secs, float) else secs,
        build_secs=0.0,
        device_name=REPLAY_DEVICE,
        n_threads=n_threads,
        profile_digest=profile_digest,
        measured_at=0.0,
        stage=2,
    )


def found_after(run_secs: Float64Array, best_secs: float) -> Float64Array:
    """Best of a space over best found so far, float64 (n,): 1 is perfect, 0 nothing.

    ``run_secs``, float64 (n,), are in the order of trying, NaN for failures.
    """
    best_so_far = np.minimum.accumulate(np.where(np.isnan(run_secs), np.inf, run_secs))
    found: Float64Array = best_secs / best_so_far
    return found


def _by_row(batch: CandidateBatch, secs: Float64Array) -> Mapping[bytes, float]:
    indices: Int32Array = np.ascontiguousarray(batch.indices)
    return {row.tobytes(): float(value) for row, value in zip(indices, secs, strict=True)}
