"""The winners of a run as an artefact keeps them: schedule and times, to be verified later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from prune_engine.errors import ArtifactError
from prune_engine.lifecycle import RunResult
from prune_engine.metaschedule.apply import Winner


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """A tuned kernel. ``trace_json`` is its schedule with post-processing, as TVM writes it.

    Times are seconds per call, of the kernel and of its untuned form, timed in turns; None where nobody timed it.
    ``candidate_id`` is None for a schedule that is not the best by itself but the best inside the model.
    """

    task_id: str
    name: str
    weight: int
    candidate_id: str | None
    trace_json: str
    default_secs: float | None
    best_secs: float | None

    @property
    def speedup(self) -> float | None:
        """Untuned time over tuned time."""
        return self.default_secs / self.best_secs if self.default_secs and self.best_secs else None

    def as_json(self) -> dict[str, Any]:
        """JSON values, which ``read_kernel_records`` takes."""
        return asdict(self)


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    task_id: str
    name: str
    weight: int = Field(ge=1)
    candidate_id: str | None
    trace_json: str
    default_secs: float | None = Field(gt=0)
    best_secs: float | None = Field(gt=0)


def kernel_records(run: RunResult, winners: Sequence[Winner]) -> list[KernelRecord]:
    """The winners of a run with what their tasks know of them."""
    by_id = {task.summary.task_id: task for task in run.tasks}
    records = []
    for winner in winners:
        task = by_id[winner.task_id]
        is_first = winner.trace_json == task.trace_json
        records.append(
            KernelRecord(
                winner.task_id,
                task.summary.name,
                task.summary.weight,
                task.summary.best_candidate_id if is_first else None,
                winner.trace_json,
                task.summary.default_secs,
                task.summary.best_secs if is_first else None,
            )
        )
    return records


def read_kernel_records(manifest: Mapping[str, Any], who: str) -> list[KernelRecord] | None:
    """The winners that an artefact's manifest keeps, None if it keeps none at all. Raises ArtifactError."""
    kept = manifest.get("kernels")
    if kept is None:
        return None
    try:
        if not isinstance(kept, list):
            raise TypeError("kernels is no list")
        return [KernelRecord(**_Kept.model_validate(record).model_dump()) for record in kept]
    except (ValidationError, TypeError) as error:
        raise ArtifactError(
            "the kernels in the metadata are damaged",
            who=who,
            got=str(error).splitlines()[0],
            remedy="Copy the whole folder again, or tune again.",
        ) from error
