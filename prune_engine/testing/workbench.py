"""A compiler and a device that are a formula: the engine's loop without a compiler."""

from __future__ import annotations

import hashlib
import itertools
import json
import time
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Set

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import Candidate, CandidateBatch
from prune_engine.errors import MeasureServerError, SpaceError
from prune_engine.measurement import (
    DEFAULT_CANDIDATE,
    STOP_RATIOS,
    Comparison,
    MeasuredCandidate,
    MeasureError,
    MeasureErrorKind,
    Measurement,
)
from prune_engine.space import DesignSpace, Sketch, Variable, VariableKind
from prune_engine.task import TuningTask
from prune_engine.testing.builders import make_space

#: The calls of each stage of a measurement.
_STAGE_CALLS = (1, 3, 5)


class FakeWorkbench:
    """Implements `prune_engine.measurement.Workbench` on an analytic cost.

    The true latency of a candidate depends on its decisions alone (`true_latency_secs`); a task's floor is
    ``flop_count / flop_per_sec``, the default schedule takes ``default_ratio`` floors.

    Args:
        spaces: design spaces by task id; `make_space` for tasks not named. None raises SpaceError.
        failures: share of candidates that fail, by kind; which ones is fixed by ``seed``.
        planted: failures of single candidates by id; ``"default"`` (or ``"<task id>/default"``) is the
            default schedule.
        repaired: candidates by the id asked for: what the compiler makes of it.
        refused: which candidates the compiler does not take, said before they are measured.
        noise: relative standard deviation of each repeat, drawn by ``seed``.
        delay_secs: how long measuring one candidate takes in wall time.
        on_measure: called before each candidate (None: the default schedule); may raise.

    It takes rewritten schedules (`rewritten`) as well.
    ``asked`` counts what was measured by (task id, candidate id); ``is_closed`` says whether it was closed.
    """

    def __init__(
        self,
        *,
        spaces: Mapping[str, DesignSpace | None] | None = None,
        failures: Mapping[MeasureErrorKind, float] | None = None,
        planted: Mapping[str, MeasureErrorKind] | None = None,
        repaired: Mapping[str, Candidate] | None = None,
        refused: Callable[[Candidate], bool] = lambda _: False,
        noise: float = 0.0,
        seed: int = 0,
        delay_secs: float = 0.0,
        default_ratio: float = 3.0,
        flop_per_sec: float = 1e9,
        device: str = "fake-cpu",
        threads: int = 2,
        profile_digest: str = "fake-profile",
        on_measure: Callable[[Candidate | None], None] | None = None,
    ) -> None:
        self._spaces, self._failures, self._planted = spaces or {}, failures or {}, planted or {}
        self._refused = refused
        self._repaired, self._noise, self._seed = repaired or {}, noise, seed
        self._delay_secs, self._default_ratio, self._flop_per_sec = delay_secs, default_ratio, flop_per_sec
        self._device, self._threads, self._profile_digest = device, threads, profile_digest
        self._on_measure = on_measure
        self._clock = itertools.count(1_000_000_000)
        self.asked: Counter[tuple[str, str]] = Counter()
        self.is_closed = False

    def design_space(self, task: TuningTask) -> DesignSpace:
        """The task's planted space, else `make_space`."""
        self._check_open()
        space = self._spaces[task.task_id] if task.task_id in self._spaces else make_space(task)
        if space is None:
            raise SpaceError("no design space (planted)", who=task.name)
        return space

    def device_name(self) -> str:
        """The name given."""
        return self._device

    def n_threads(self) -> int:
        """The thread count given."""
        return self._threads

    def default_latency_secs(self, task: TuningTask) -> float:
        """True latency of the untuned schedule."""
        return self._default_ratio * task.flop_count / self._flop_per_sec

    def true_latency_secs(self, batch: CandidateBatch) -> NDArray[np.float64]:
        """True latency of each candidate, float64 (n,): what a search looks for, never below the floor."""
        penalty = np.zeros(len(batch))
        for v, variable in enumerate(batch.sketch.variables):
            # Variables differ in weight, so that a learner has something to find out.
            weight = 0.2 + (zlib.crc32(variable.name.encode()) % 97) / 97
            penalty += weight * _row_penalties(variable)[batch.indices[:, v]]
        floor_secs = batch.space.task.flop_count / self._flop_per_sec
        return floor_secs * (1 + 0.1 * batch.sketch.index) * (1 + penalty)

    def measure_defaults(self, tasks: Sequence[TuningTask]) -> Generator[tuple[TuningTask, MeasuredCandidate]]:
        """Measure untuned schedules in the order given."""
        for task in tasks:
            yield task, self.measure_default(task)

    def measure_default(self, task: TuningTask) -> MeasuredCandidate:
        """Measure the untuned schedule, never censored."""
        self._check_open()
        self._before(task, None)
        error = self._error(task, DEFAULT_CANDIDATE)
        latency_secs = self.default_latency_secs(task)
        measurement = self._measurement(task, DEFAULT_CANDIDATE, latency_secs, error, None)
        return MeasuredCandidate(None, measurement, trace_json=None if error else '{"decisions": null}')

    def fixed_sketch(self, space: DesignSpace, trace_json: str) -> Sketch:
        """The schedule that `rewritten` describes, whatever the space holds."""
        try:
            floors = float(json.loads(trace_json)["floors"])
        except (ValueError, KeyError, TypeError):
            raise SpaceError("is no rewritten schedule", who=space.task.name, got=trace_json) from None
        return Sketch(
            len(space.sketches), f"fixed-{floors:g}", (), payload=floors, opaque_reason="a rewritten schedule"
        )

    def schedule_text(self, space: DesignSpace, candidate: Candidate) -> str | None:
        """The text that measuring it would give; None if it was planted to be refused."""
        return None if self._refused(candidate) else _text(space, candidate)

    def refusal(self, space: DesignSpace, candidate: Candidate) -> str | None:  # noqa: ARG002 - the protocol's
        """What was planted."""
        return "refused (planted)" if self._refused(candidate) else None

    def measure(
        self,
        space: DesignSpace,
        candidates: Sequence[Candidate],
        incumbent_secs: float | None,
        known_ids: Set[str] = frozenset(),
    ) -> Iterator[MeasuredCandidate]:
        """Measure candidates in the order given, stopping early on what the incumbent beats."""
        self._check_open()
        done = set(known_ids)
        for asked in candidates:
            ran = self._repaired.get(asked.candidate_id, asked)
            if ran.candidate_id in done:
                continue
            done.add(ran.candidate_id)
            self._before(space.task, ran)
            error = self._error(space.task, ran.candidate_id)
            latency_secs = self._latency_secs(space, ran)
            measurement = self._measurement(space.task, ran.candidate_id, latency_secs, error, incumbent_secs)
            trace = None if error else _text(space, ran)
            yield MeasuredCandidate(ran, measurement, trace_json=trace)

    def compare(self, space: DesignSpace, candidates: Sequence[Candidate | None]) -> Comparison:
        """Re-time schedules; those that fail have an error and no latencies."""
        self._check_open()
        ids = [c.candidate_id if c else DEFAULT_CANDIDATE for c in candidates]
        errors = tuple(self._error(space.task, i) for i in ids)
        truth = [self._latency_secs(space, c) if c else self.default_latency_secs(space.task) for c in candidates]
        secs = tuple(
            () if error else self._repeats(space.task, i, latency, 9, "compare")
            for i, latency, error in zip(ids, truth, errors, strict=True)
        )
        return Comparison(tuple(ids), secs, errors)

    def close(self) -> None:
        """Refuse further work."""
        self.is_closed = True

    def _check_open(self) -> None:
        if self.is_closed:
            raise MeasureServerError("used after it was closed", who="fake workbench")

    def _before(self, task: TuningTask, candidate: Candidate | None) -> None:
        if self._on_measure:
            self._on_measure(candidate)
        if self._delay_secs:
            time.sleep(self._delay_secs)
        self.asked[task.task_id, candidate.candidate_id if candidate else DEFAULT_CANDIDATE] += 1

    def _latency_secs(self, space: DesignSpace, candidate: Candidate) -> float:
        sketch = space.sketches[candidate.sketch_index]
        if isinstance(sketch.payload, float):
            return sketch.payload * space.task.flop_count / self._flop_per_sec
        rows = [v.index_of(d) for v, d in zip(sketch.variables, candidate.decisions, strict=True)]
        indices = np.array([rows], dtype=np.int32).reshape(1, len(rows))
        return float(self.true_latency_secs(CandidateBatch(space, sketch, indices))[0])

    def _error(self, task: TuningTask, candidate_id: str) -> MeasureError | None:
        planted = self._planted.get(f"{task.task_id}/{candidate_id}", self._planted.get(candidate_id))
        if planted:
            return MeasureError(planted, f"planted {planted.value}")
        if candidate_id == DEFAULT_CANDIDATE:
            return None
        draw = self._rng(task, candidate_id, "failure").random()
        for kind, share in self._failures.items():
            if draw < share:
                return MeasureError(kind, f"planted {kind.value}")
            draw -= share
        return None

    def _measurement(
        self,
        task: TuningTask,
        candidate_id: str,
        latency_secs: float,
        error: MeasureError | None,
        incumbent_secs: float | None,
    ) -> Measurement:
        stage = 2
        if incumbent_secs is not None:
            stopped = [s for s, ratio in enumerate(STOP_RATIOS) if latency_secs > ratio * incumbent_secs]
            stage = min(stopped, default=2)
        run_secs = self._repeats(task, candidate_id, latency_secs, _STAGE_CALLS[stage], "measure")
        return Measurement(
            candidate_id=candidate_id,
            run_secs=() if error else run_secs,
            error=error,
            build_secs=0.05,
            device_name=self._device,
            n_threads=self._threads,
            profile_digest=self._profile_digest,
            measured_at=float(next(self._clock)),
            stage=stage,
            is_censored=error is None and stage < 2,
        )

    def _repeats(
        self, task: TuningTask, candidate_id: str, latency_secs: float, n: int, purpose: str
    ) -> tuple[float, ...]:
        factors = 1 + self._noise * np.abs(self._rng(task, candidate_id, purpose).standard_normal(n))
        return tuple(float(latency_secs * f) for f in factors)

    def _rng(self, task: TuningTask, candidate_id: str, purpose: str) -> np.random.Generator:
        text = f"{self._seed}|{task.task_id}|{candidate_id}|{purpose}"
        return np.random.default_rng(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big"))


def rewritten(floors: float) -> str:
    """The text of a schedule that no sketch of the fake's spaces holds; it takes so many floors of any task."""
    return json.dumps({"floors": floors})


def _text(space: DesignSpace, candidate: Candidate) -> str:
    payload = space.sketches[candidate.sketch_index].payload
    if isinstance(payload, float):
        return rewritten(payload)
    return json.dumps({"sketch": candidate.sketch_index, "decisions": candidate.decisions})


def _row_penalties(variable: Variable) -> NDArray[np.float64]:
    """Cost of each row of a choice table, float64 (m,), >= 0, 0 for the best row."""
    table = variable.table.astype(np.float64)
    if variable.kind is VariableKind.TILE:
        # An innermost factor near 8 and an outermost near 4 are best, as if for lanes and cores.
        penalty = np.abs(np.log2(table[:, -1]) - 3) + 0.5 * np.abs(np.log2(table[:, 0]) - 2)
    else:
        middle = table[len(table) // 2, 0]
        penalty = np.abs(np.sign(table[:, 0] - middle)) + 0.01 * np.abs(table[:, 0] - middle)
    return np.asarray(penalty - penalty.min(), dtype=np.float64)
