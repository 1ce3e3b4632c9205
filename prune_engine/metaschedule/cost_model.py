"""A MetaSchedule cost model that scores by prune_engine's draft and verifier. Importing it imports TVM."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prune_engine.candidates import rows_of
from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.measurement import MeasureError, MeasureErrorKind, Measurement
from prune_engine.metaschedule.cost_model_files import Lesson, read_lessons, write_lessons
from prune_engine.metaschedule.embedded_device import EmbeddedOptions, Remarks, postprocs_of, prepare_compiler
from prune_engine.metaschedule.embedded_judge import Judge, JudgedTask
from prune_engine.metaschedule.ffi_errors import register_errors
from prune_engine.metaschedule.record_rows import run_secs_of
from prune_engine.space import Sketch
from prune_engine.verdicts import Float64Array

prepare_compiler()
register_errors()

from tvm.ir.utils import derived_object  # noqa: E402 - TVM is prepared before it is looked into
from tvm.s_tir import meta_schedule as ms  # noqa: E402

_WHO = "PruneEngineCostModel"


@dataclass(slots=True)
class PredictionCounts:
    """Candidates that were scored, those of them that got the neutral score, and those that were learnt."""

    n_scored: int = 0
    n_neutral: int = 0
    n_learnt: int = 0


@derived_object
class PruneEngineCostModel(ms.cost_model.PyCostModel):  # type: ignore[misc]  # untyped base
    """Scores MetaSchedule's candidates by the engine's draft, and by its verifier once that has learnt enough.

    It takes the place of ``"xgb"`` in ``tune_tir(cost_model=...)``: TVM's own evolutionary search then ranks by it,
    and works without a single sample. Scores are float64, finite and >= 0, and in proportion to throughput. Traces
    are read as rows of choice tables, about 0.1 ms each, and scored in batches.

    A candidate whose trace cannot be read (a sampling instruction that we do not know, shapes that are not all
    numbers) gets the neutral score: the median of those of the same call that could be read, else that of the last
    call for the task, else 1. ``counts`` says how many, ``remarks()`` why.

    Args:
        profile: a `HardwareProfile`, the name or file of one, or None for that of the target's device.
        config: options of the engine, an `EngineConfig` or a mapping of its options.

    Raises ConfigError, on construction or at the first call, for what cannot be used.
    """

    def __init__(
        self,
        profile: HardwareProfile | str | None = None,
        config: EngineConfig | Mapping[str, object] | None = None,
    ) -> None:
        super().__init__()
        self._options = EmbeddedOptions.of(_WHO, profile, config)
        self._remarks = Remarks()
        self._judges: dict[str, Judge] = {}
        self._lessons: list[Lesson] = []
        #: What a file taught of sketches that were not met since, by target, task and structure.
        self._waiting: dict[tuple[str, str, str], list[Lesson]] = {}
        self._neutral: dict[str, float] = {}
        self.counts = PredictionCounts()

    def remarks(self) -> tuple[str, ...]:
        """What could not be done as asked, in sentences."""
        return self._remarks.sentences

    def predict(self, context: Any, candidates: Sequence[Any]) -> Float64Array:
        """Score candidates, float64 (n,): finite, >= 0, higher is better."""
        scores = np.full(len(candidates), np.nan)
        judge = self._judge(context)
        with judge.lock:
            judged = self._task(judge, context)
            if judged is not None:
                for part in judged.read([candidate.sch.trace for candidate in candidates]):
                    scores[part.positions] = judge.pipeline.scoring.fitness(part.batch)
                judge.pipeline.scoring.forget()
            is_read = ~np.isnan(scores)
            name = judged.task.task_id if judged is not None else ""
            if is_read.any():
                self._neutral[name] = float(np.median(scores[is_read]))
            scores[~is_read] = self._neutral.get(name, 1.0)
            self.counts.n_scored += len(scores)
            self.counts.n_neutral += int((~is_read).sum())
        return scores

    def update(self, context: Any, candidates: Sequence[Any], results: Sequence[Any]) -> None:
        """Learn what TVM measured. What cannot be read is passed over."""
        if len(candidates) != len(results):
            raise ConfigError(
                "not as many results as candidates", who=_WHO, got=len(results), expected=str(len(candidates))
            )
        judge = self._judge(context)
        with judge.lock:
            judged = self._task(judge, context)
            if judged is None:
                return
            for part in judged.read([candidate.sch.trace for candidate in candidates]):
                lessons = [
                    Lesson.of(judge.device.target, part.batch.candidate(row), judged.task, part.batch.sketch, secs)
                    for row, position in enumerate(part.positions.tolist())
                    for secs in [_run_secs(results[position])]
                ]
                self._lessons += lessons
                self._teach(judge, judged, part.batch.sketch, lessons)

    def save(self, path: str) -> None:
        """Write what was learnt to a file of JSON, in place of an earlier one. Raises OutputError."""
        unmet = [lesson for waiting in self._waiting.values() for lesson in waiting]
        write_lessons(Path(path), [*self._lessons, *unmet])

    def load(self, path: str) -> None:
        """Read what ``save`` wrote, in place of what was learnt. Raises ConfigError for anything else.

        It is learnt anew as the kernels that it is about are met.
        """
        lessons = read_lessons(Path(path))
        self._judges.clear()
        self._neutral.clear()
        self._lessons.clear()
        self._waiting.clear()
        for lesson in lessons:
            key = lesson.target, lesson.task_id, lesson.sketch_id
            self._waiting.setdefault(key, []).append(lesson)

    def _judge(self, context: Any) -> Judge:
        key = str(context.target)
        if key not in self._judges:
            self._judges[key] = Judge(context.target, self._options, self._remarks, on_sketch=self._met)
        return self._judges[key]

    def _task(self, judge: Judge, context: Any) -> JudgedTask | None:
        return judge.task(context.mod, str(context.task_name or "main"), postprocs_of(context.space_generator))

    def _met(self, judged: JudgedTask, sketch: Sketch) -> None:
        """Learn what a file has of a sketch that is met for the first time."""
        key = judged.task.target, judged.task.task_id, sketch.sketch_id
        lessons = self._waiting.pop(key, [])
        if lessons:
            self._lessons += lessons
            judge = next(one for one in self._judges.values() if one.device.target == judged.task.target)
            self._teach(judge, judged, sketch, lessons)

    def _teach(self, judge: Judge, judged: JudgedTask, sketch: Sketch, lessons: Sequence[Lesson]) -> None:
        rows = [rows_of(sketch, lesson.decisions) for lesson in lessons]
        known = [(row, lesson) for row, lesson in zip(rows, lessons, strict=True) if row is not None]
        if not known:
            return
        batch = judged.batch(sketch.index, np.stack([row for row, _ in known]))
        measurements = [
            _measurement(batch.candidate(i).candidate_id, one, judge) for i, (_, one) in enumerate(known)
        ]
        judge.teacher.teach([(batch, measurements)])
        self.counts.n_learnt += len(known)


def _run_secs(result: Any) -> tuple[float, ...]:
    """The seconds of a result's repeats, none where it failed."""
    return () if result.error_msg is not None else run_secs_of(result.run_secs)


def _measurement(candidate_id: str, lesson: Lesson, judge: Judge) -> Measurement:
    failure = MeasureError(MeasureErrorKind.RUN_ERROR, "failed, by MetaSchedule")
    return Measurement(
        candidate_id=candidate_id,
        run_secs=lesson.run_secs,
        error=None if lesson.run_secs else failure,
        build_secs=0.0,
        device_name=judge.device.profile.name,
        n_threads=1,
        profile_digest=judge.device.profile.digest(),
        measured_at=time.time(),
    )
