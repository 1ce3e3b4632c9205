"""The pool as the engine's process sees it: orders in, results out, whatever happens to the server."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TypeVar

from prune_engine.errors import MeasureServerError
from prune_engine.measurement import MeasureError, MeasureErrorKind
from prune_engine.metaschedule.measure.client import ServerClient, ServerDiedError
from prune_engine.metaschedule.measure.jobs import ArtifactJob, BuildJob, DefaultJob, Job, JobResult
from prune_engine.metaschedule.measure.protocol import Order, RunMode, kept_library
from prune_engine.metaschedule.measure.settings import MeasureSettings
from prune_engine.metaschedule.measure.tempdirs import PoolFolder
from prune_engine.metaschedule.measure.warm import WarmServer, pool_folder
from prune_engine.numeric_safety import FpPolicy

#: Orders given out beyond the number of builders: one kernel being timed, one getting ready, one in reserve.
_N_AHEAD = 3
#: Deaths of the server without a single result in between after which we give up.
_MAX_DEATHS_IN_A_ROW = 4

_Self = TypeVar("_Self", bound="MeasurePool")


@dataclass(frozen=True, slots=True)
class _Task:
    folder: str
    arg_shapes: tuple[tuple[int, ...], ...]
    arg_dtypes: tuple[str, ...]
    #: Seconds of each candidate's build that ended by itself, and of those that were given up.
    build_secs: list[float] = field(default_factory=list)


@dataclass(slots=True)
class _Batch:
    """Orders on their way; ``suspects`` were in flight when a server died and are tried again, one by one."""

    number: int
    in_flight: dict[str, Order] = field(default_factory=dict)
    suspects: list[Order] = field(default_factory=list)
    n_deaths: int = 0


class MeasurePool:
    """Builds and runs kernels in processes that may die without harm. Use it as a context manager.

    Not thread-safe, and only one ``measure`` can be under way at a time. No kernel, however bad, raises
    through these methods; only MeasureServerError does, when the server cannot be kept alive.
    """

    def __init__(self, settings: MeasureSettings, warm: WarmServer | None = None) -> None:
        """Prepare. ``warm`` is a server for the same threads, which the pool takes over when it starts.

        Raises ValueError if that runs kernels in another way.
        """
        if warm is not None and (warm.n_threads, warm.pin_cpus) != (settings.n_threads, settings.pin_cpus):
            raise ValueError(
                f"the server was started for {warm.n_threads} threads, pinned: {warm.pin_cpus}; "
                f"wanted are {settings.n_threads}, pinned: {settings.pin_cpus}"
            )
        self._settings, self._warm = settings, warm
        self._folder: PoolFolder | None = None
        self._client: ServerClient | None = None
        self._tasks: dict[str, _Task] = {}
        self._n_batches = 0
        self._is_driving = False

    def __enter__(self: _Self) -> _Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the server and return at once: it loads the compiler in the background. Idempotent.

        Raises MeasureServerError if the temporary folder or the process cannot be made.
        """
        if self._client is not None:
            return
        taken = self._warm.take() if self._warm is not None else None
        if taken is not None:
            self._folder, started = taken
            self._client = ServerClient(self._settings, self._folder.path, started)
            return
        if self._folder is None:
            self._folder = pool_folder()
        self._client = ServerClient(self._settings, self._folder.path)

    def open_task(
        self,
        task_id: str,
        job: Job,
        arg_shapes: Sequence[Sequence[int]],
        arg_dtypes: Sequence[str],
    ) -> JobResult:
        """Build and run one task's default schedule, given as any job; as ``open_tasks``."""
        self._register(task_id, arg_shapes, arg_dtypes)
        batch = self._new_batch()
        (result,) = self._drive(batch, iter([self._order(batch, task_id, job, RunMode.REFERENCE)]), 1)
        return result

    def open_tasks(self, defaults: Iterable[DefaultJob]) -> Iterator[JobResult]:
        """Build and run tasks' default schedules, yielding each when it is there; builds overlap with runs.

        Their outputs become the references of the tasks. The results' ``job_id`` is the task's id. Closing
        the iterator drops what is under way. Raises MeasureServerError.
        """
        batch = self._new_batch()

        def orders() -> Iterator[Order]:
            for default in defaults:
                self._register(default.task_id, default.arg_shapes, default.arg_dtypes)
                job = BuildJob(default.task_id, default.module_json)
                yield self._order(batch, default.task_id, job, RunMode.REFERENCE)

        yield from self._drive(batch, orders(), self._settings.n_builders + _N_AHEAD)

    def _register(self, task_id: str, arg_shapes: Sequence[Sequence[int]], arg_dtypes: Sequence[str]) -> None:
        self.start()
        assert self._folder is not None
        name = hashlib.blake2b(task_id.encode(), digest_size=12).hexdigest()
        self._tasks[task_id] = _Task(
            str(self._folder.path / "tasks" / name),
            tuple(tuple(int(extent) for extent in shape) for shape in arg_shapes),
            tuple(arg_dtypes),
        )

    def measure(self, task_id: str, jobs: Iterable[Job], incumbent_secs: float | None) -> Iterator[JobResult]:
        """Build and run jobs, yielding each result when it is there; ``jobs`` is consumed as needed.

        ``incumbent_secs`` is the best latency known for the task: clearly slower kernels are timed only
        roughly. It falls as better ones are found. Closing the iterator drops what is under way.
        Raises ValueError for a task that was not opened, and MeasureServerError.
        """
        if task_id not in self._tasks:
            raise ValueError(f"task {task_id!r} was not opened: measure its default schedule first")
        return self._measure(task_id, jobs, incumbent_secs)

    def _measure(self, task_id: str, jobs: Iterable[Job], incumbent_secs: float | None) -> Iterator[JobResult]:
        batch = self._new_batch()
        best = [incumbent_secs]
        orders = (self._order(batch, task_id, job, RunMode.STAGED, incumbent_secs=best[0]) for job in jobs)
        for result in self._drive(batch, orders, self._settings.n_builders + _N_AHEAD):
            # Noisy ones count too: other load only makes a kernel look slower than it is.
            latency = result.latency_secs
            if latency is not None and (best[0] is None or latency < best[0]):
                best[0] = latency
            self._tasks[task_id].build_secs.append(result.build_secs)
            yield result

    def compare(self, task_id: str, jobs: Sequence[Job], n_repeats: int = 8) -> list[JobResult]:
        """Time kernels against each other: repeat r of all of them, in changing order, then repeat r + 1.

        Returns one result per job, in order; ``run_secs[r]`` of all of them belong together, and slow kernels have
        fewer of them. A kernel that
        ``measure`` timed in full is not built again. Raises ValueError for a task that
        was not opened, and MeasureServerError.
        """
        if task_id not in self._tasks:
            raise ValueError(f"task {task_id!r} was not opened: measure its default schedule first")
        batch = self._new_batch()
        ready = [self._kept_or(task_id, job) for job in jobs]
        orders = [self._order(batch, task_id, job, RunMode.PAIRED, n_repeats=n_repeats) for job in ready]
        results = {result.job_id: result for result in self._drive(batch, iter(orders), len(orders))}
        return [results[job.job_id] for job in jobs]

    def stress(self, default: DefaultJob, jobs: Sequence[BuildJob], policy: FpPolicy) -> Iterator[JobResult]:
        """Run kernels on inputs that are hard on numbers and hold them against a task's untuned kernel.

        Yields the untuned kernel's result first, its ``job_id`` the task's id; if it failed there are no others.
        Results have ``cases`` and no seconds. Of an untuned kernel that is slow not all cases are tried once
        the settings' ``stress_budget_secs`` are over. Raises MeasureServerError.
        """
        if default.task_id not in self._tasks:
            self._register(default.task_id, default.arg_shapes, default.arg_dtypes)

        def order(job: Job, mode: RunMode) -> Order:
            plain = self._order(batch, default.task_id, job, mode)
            return replace(plain, policy=policy, stress_budget_secs=self._settings.stress_budget_secs)

        batch = self._new_batch()
        reference = BuildJob(default.task_id, default.module_json)
        (result,) = self._drive(batch, iter([order(reference, RunMode.STRESS_REFERENCE)]), 1)
        yield result
        if result.error is not None:
            return
        batch = self._new_batch()
        orders = (order(self._kept_or(default.task_id, job), RunMode.STRESS) for job in jobs)
        yield from self._drive(batch, orders, self._settings.n_builders + _N_AHEAD)

    def close(self) -> None:
        """End every process and remove every file. Idempotent."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._folder is not None:
            self._folder.remove()
            self._folder = None
        self._tasks.clear()

    def _kept_or(self, task_id: str, job: Job) -> Job:
        if isinstance(job, BuildJob):
            kept = kept_library(self._tasks[task_id].folder, job)
            if kept.exists():
                return ArtifactJob(job.job_id, str(kept))
        return job

    def _new_batch(self) -> _Batch:
        self._n_batches += 1
        return _Batch(self._n_batches)

    def _order(
        self,
        batch: _Batch,
        task_id: str,
        job: Job,
        mode: RunMode,
        *,
        incumbent_secs: float | None = None,
        n_repeats: int = 0,
    ) -> Order:
        task = self._tasks[task_id]
        is_default = mode in (RunMode.REFERENCE, RunMode.STRESS_REFERENCE)
        patience = self._settings.default_schedule_patience if is_default else 1.0
        return Order(
            batch=batch.number,
            job=job,
            mode=mode,
            task_folder=task.folder,
            arg_shapes=task.arg_shapes,
            arg_dtypes=task.arg_dtypes,
            build_timeout_secs=patience * self._build_timeout_secs(task),
            run_timeout_secs=patience * self._settings.run_timeout_secs,
            incumbent_secs=incumbent_secs,
            n_repeats=n_repeats,
        )

    def _build_timeout_secs(self, task: _Task) -> float:
        settings = self._settings
        if len(task.build_secs) < settings.typical_builds:
            return settings.build_timeout_secs
        usual_secs = settings.slow_build_ratio * statistics.median(task.build_secs)
        return min(settings.build_timeout_secs, max(settings.min_build_timeout_secs, usual_secs))

    def _drive(self, batch: _Batch, orders: Iterator[Order], n_in_flight: int) -> Iterator[JobResult]:
        """Keep ``n_in_flight`` orders with the server until all are through."""
        if self._is_driving:
            raise RuntimeError("a MeasurePool does one thing at a time: finish or close the iterator of measure()")
        self.start()
        assert self._client is not None
        is_exhausted = False
        self._is_driving = True
        try:
            while True:
                try:
                    while not (is_exhausted or batch.suspects) and len(batch.in_flight) < n_in_flight:
                        order = next(orders, None)
                        if order is None:
                            is_exhausted = True
                        elif order.job.job_id in batch.in_flight:
                            raise ValueError(f"two jobs of one call have the id {order.job.job_id!r}")
                        else:
                            batch.in_flight[order.job.job_id] = order
                            self._client.submit(order)
                    if batch.suspects and not batch.in_flight:
                        order = batch.suspects.pop()
                        batch.in_flight[order.job.job_id] = order
                        self._client.submit(order)
                    if not batch.in_flight:
                        return
                    result = self._client.wait_for_result(batch.number)
                    batch.n_deaths = 0
                    del batch.in_flight[result.job_id]
                except ServerDiedError as death:
                    blamed = self._after_death(batch, death)
                    if blamed is None:
                        continue
                    result = blamed
                yield result
        finally:
            self._is_driving = False
            if batch.in_flight and self._client is not None:
                self._client.cancel()

    def _after_death(self, batch: _Batch, death: ServerDiedError) -> JobResult | None:
        """Start a new server; return a result if it is clear which order the old one died of."""
        batch.n_deaths += 1
        assert self._client is not None
        if batch.n_deaths >= _MAX_DEATHS_IN_A_ROW:
            batch.in_flight.clear()
            raise MeasureServerError(
                f"the measurement server died {batch.n_deaths} times in a row",
                who="measurement",
                got=str(death),
                remedy="Its last words are in this message; if memory ran out, lower the number of builders.",
            )
        self._client.restart()
        if death.was_working and len(batch.in_flight) == 1:
            ((job_id, _),) = batch.in_flight.items()
            batch.in_flight.clear()
            error = MeasureError(
                MeasureErrorKind.CRASH, f"the measurement server died while working on it: {death}"
            )
            return JobResult(job_id, (), error, build_secs=0.0, stage=0)
        batch.suspects += batch.in_flight.values()
        batch.in_flight.clear()
        return None
