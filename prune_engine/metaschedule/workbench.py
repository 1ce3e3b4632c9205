"""TVM and this machine as the engine's workbench: design spaces from MetaSchedule, measurements from the pool."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence, Set

from prune_engine.candidates import Candidate
from prune_engine.hardware.host import cpu_model
from prune_engine.measurement import (
    DEFAULT_CANDIDATE,
    Comparison,
    MeasuredCandidate,
    MeasureError,
    Measurement,
)
from prune_engine.metaschedule.materialise import Materialised, Materialiser, module_to_json
from prune_engine.metaschedule.measure import (
    BuildJob,
    DefaultJob,
    JobResult,
    MeasurePool,
    MeasureSettings,
    WarmServer,
)
from prune_engine.metaschedule.numeric_check import check_in_pool
from prune_engine.numeric_safety import FpPolicy, SafetyReport
from prune_engine.space import DesignSpace, Sketch
from prune_engine.task import TuningTask


class TvmWorkbench:
    """The Workbench of prune_engine.measurement for TVM's MetaSchedule. Use it as a context manager."""

    def __init__(self, settings: MeasureSettings, profile_digest: str, warm: WarmServer | None = None) -> None:
        """Start the measurement processes in the background, or take over those that were started already."""
        self._settings = settings
        self._profile_digest = profile_digest
        self._device_name = cpu_model()
        self._materialisers: dict[str, Materialiser] = {}
        self._with_reference: set[str] = set()
        self._pool = MeasurePool(settings, warm)
        self._pool.start()

    def __enter__(self) -> TvmWorkbench:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the measurement processes and remove their files."""
        self._pool.close()

    def device_name(self) -> str:
        """The processor's model name."""
        return self._device_name

    def n_threads(self) -> int:
        """Threads every kernel runs on."""
        return self._settings.n_threads

    def design_space(self, task: TuningTask) -> DesignSpace:
        """Generate the task's sketches. Raises SpaceError."""
        return self._materialiser(task).design_space()

    def fixed_sketch(self, space: DesignSpace, trace_json: str) -> Sketch:
        """A schedule as the only candidate of an opaque sketch. Raises SpaceError where it does not fit."""
        return self._materialiser(space.task).fixed_sketch(space, trace_json)

    def schedule_text(self, space: DesignSpace, candidate: Candidate) -> str | None:
        """A candidate's schedule with post-processing; None if TVM refuses it."""
        made = self._materialiser(space.task).materialise(space, candidate)
        return None if isinstance(made, MeasureError) else made.trace_json

    def measure_defaults(self, tasks: Sequence[TuningTask]) -> Generator[tuple[TuningTask, MeasuredCandidate]]:
        """Measure untuned kernels; what they compute is what every candidate must compute."""
        by_id = {task.task_id: task for task in tasks}
        defaults = (
            DefaultJob(task.task_id, module_to_json(task.mod), task.arg_shapes, task.arg_dtypes) for task in tasks
        )
        for result in self._pool.open_tasks(defaults):
            task = by_id[result.job_id]
            self._with_reference.add(task.task_id)
            yield task, MeasuredCandidate(None, self._measurement(DEFAULT_CANDIDATE, result))

    def refusal(self, space: DesignSpace, candidate: Candidate) -> str | None:
        """What TVM says when it replays and post-processes a candidate that it refuses, else None: 1 to 3 ms."""
        made = self._materialiser(space.task).materialise(space, candidate)
        return made.message if isinstance(made, MeasureError) else None

    def measure(
        self,
        space: DesignSpace,
        candidates: Sequence[Candidate],
        incumbent_secs: float | None,
        known_ids: Set[str] = frozenset(),
    ) -> Iterator[MeasuredCandidate]:
        """Build and run candidates; those that TVM repairs into one of ``known_ids`` are left out."""
        self._ensure_reference(space.task)
        refused: list[MeasuredCandidate] = []
        jobs: dict[str, Materialised] = {}

        def build_jobs() -> Iterator[BuildJob]:
            materialiser = self._materialiser(space.task)
            for candidate in candidates:
                made = materialiser.materialise(space, candidate)
                if isinstance(made, MeasureError):
                    refused.append(MeasuredCandidate(candidate, self._failure(candidate.candidate_id, made)))
                    continue
                identity = made.candidate.candidate_id
                if identity in jobs or identity in known_ids:
                    continue
                jobs[identity] = made
                yield BuildJob(identity, made.module_json)

        for result in self._pool.measure(space.task.task_id, build_jobs(), incumbent_secs):
            made = jobs[result.job_id]
            measurement = self._measurement(result.job_id, result)
            yield MeasuredCandidate(made.candidate, measurement, made.trace_json)
        yield from refused

    def compare(self, space: DesignSpace, candidates: Sequence[Candidate | None]) -> Comparison:
        """Re-time schedules of one task in turns; None is the untuned kernel."""
        self._ensure_reference(space.task)
        materialiser = self._materialiser(space.task)
        ids: list[str] = []
        jobs: list[BuildJob] = []
        errors: dict[str, MeasureError] = {}
        for candidate in candidates:
            identity = DEFAULT_CANDIDATE if candidate is None else candidate.candidate_id
            ids.append(identity)
            if candidate is None:
                jobs.append(BuildJob(identity, module_to_json(space.task.mod)))
                continue
            made = materialiser.materialise(space, candidate)
            if isinstance(made, MeasureError):
                errors[identity] = made
            else:
                jobs.append(BuildJob(identity, made.module_json))
        results = {result.job_id: result for result in self._pool.compare(space.task.task_id, jobs)}
        return Comparison(
            tuple(ids),
            tuple(results[i].run_secs if i in results else () for i in ids),
            tuple(results[i].error if i in results else errors[i] for i in ids),
        )

    def check_numbers(self, task: TuningTask, traces: Sequence[str], policy: FpPolicy) -> list[SafetyReport]:
        """Try schedules of a task on inputs that are hard on numbers: a report each."""
        return check_in_pool(self._pool, task, traces, policy)

    def _ensure_reference(self, task: TuningTask) -> None:
        """On resume the default's measurement is in the store, but its outputs are not: run it again."""
        if task.task_id not in self._with_reference:
            for _ in self.measure_defaults([task]):
                pass

    def _materialiser(self, task: TuningTask) -> Materialiser:
        if task.task_id not in self._materialisers:
            self._materialisers[task.task_id] = Materialiser(task, self._settings.seed)
        return self._materialisers[task.task_id]

    def _failure(self, identity: str, error: MeasureError) -> Measurement:
        return self._measurement(
            identity,
            JobResult(
                job_id=identity,
                run_secs=(),
                error=error,
                build_secs=0.0,
                stage=0,
                is_censored=False,
                is_noisy=False,
                load_average=0.0,
            ),
        )

    def _measurement(self, identity: str, result: JobResult) -> Measurement:
        return Measurement(
            candidate_id=identity,
            run_secs=result.run_secs,
            error=result.error,
            build_secs=result.build_secs,
            device_name=self._device_name,
            n_threads=self._settings.n_threads,
            profile_digest=self._profile_digest,
            measured_at=time.time(),
            stage=result.stage,
            is_censored=result.is_censored,
            is_noisy=result.is_noisy,
            load_average=result.load_average,
        )
