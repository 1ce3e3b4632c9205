"""The unit of tuning: one kernel of one model for one target."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prune_engine.library.entries import KernelClass


@dataclass(frozen=True, slots=True)
class TuningTask:
    """A kernel to be tuned.

    ``task_id`` is a hash of the workload and the target: the same kernel for the same target has the same
    id in every model and every run. ``weight`` counts the calls per inference. ``mod`` belongs to the
    adapter that made the task (an IRModule for MetaSchedule); nothing outside that adapter looks into it.
    """

    task_id: str
    name: str
    target: str
    weight: int
    flop_count: int
    arg_shapes: tuple[tuple[int, ...], ...]
    arg_dtypes: tuple[str, ...]
    mod: object = field(repr=False, compare=False, default=None)
    #: Which kernels it can exchange schedules with, where the adapter could tell.
    kernel_class: KernelClass | None = field(repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        if self.weight < 1:
            raise ValueError(f"task {self.name}: weight is the calls per inference, >= 1, got {self.weight}")
        if len(self.arg_shapes) != len(self.arg_dtypes):
            raise ValueError(f"task {self.name}: {len(self.arg_shapes)} shapes for {len(self.arg_dtypes)} dtypes")
