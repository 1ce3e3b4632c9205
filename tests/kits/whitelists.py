"""Whitelist entries to test with."""

from __future__ import annotations

from typing import Any

from prune_engine.candidates import CandidateBatch
from prune_engine.library import Choice
from prune_engine.loop.harvest import compiler_version
from prune_engine.numeric_safety import SafetyCase
from prune_engine.store.base import Store
from prune_engine.testing import make_batch, make_space, make_task
from prune_engine.testing.workbench import rewritten
from prune_engine.whitelist.entries import Check, WhitelistEntry
from prune_engine.whitelist.events import added

#: What `FakeWorkbench` calls itself.
DEVICE = "fake-cpu"


def make_check(**changed: Any) -> Check:
    """A passed check on the fake workbench."""
    fields: dict[str, Any] = {
        "device_name": DEVICE,
        "n_threads": 2,
        "tvm_version": compiler_version(),
        "prune_engine_version": "0.1.0",
        "symbols_version": 1,
        "checked_at": 1000.0,
        "numeric": (SafetyCase("random", True, 1e-7, 1e-5), SafetyCase("zeros", True, 0.0, 0.0)),
        "run_secs": (1e-3, 1.1e-3, 0.9e-3),
        "default_secs": (4e-3, 4.4e-3, 3.6e-3),
    }
    return Check(**{**fields, **changed})


def make_listed(
    batch: CandidateBatch | None = None, row: int = 0, checks: tuple[Check, ...] = (), **changed: Any
) -> WhitelistEntry:
    """The entry of a candidate of a `make_space` batch."""
    batch = make_batch(4, space=make_space(make_task()), seed=3) if batch is None else batch
    task = batch.space.task
    assert task.kernel_class is not None
    decisions = batch.candidate(row).decisions
    fields: dict[str, Any] = {
        "kernel_class": task.kernel_class,
        "task_name": task.name,
        "target": task.target,
        "arg_shapes": task.arg_shapes,
        "arg_dtypes": task.arg_dtypes,
        "flop_count": task.flop_count,
        "sketch_id": batch.sketch.sketch_id,
        "choices": tuple(
            Choice(variable.name, variable.kind, decision, variable.subject)
            for variable, decision in zip(batch.sketch.variables, decisions, strict=True)
        ),
        "added_by": "ada",
        "added_at": 900.0,
        "note": "approved",
        "source": "a test",
        "checks": checks or (make_check(),),
        "trace_json": '[[["GetSBlock",[],["matmul","main"],["b0"]]],[]]',
        "workload": "",
    }
    return WhitelistEntry(**{**fields, **changed})


def fixed_listed(floors: float, **changed: Any) -> WhitelistEntry:
    """An entry that no generated sketch holds; the fake workbench takes so many floors for it."""
    return make_listed(sketch_id=f"fixed-{floors:g}", choices=(), trace_json=rewritten(floors), **changed)


def enlist(store: Store, *entries: WhitelistEntry) -> None:
    """Write entries to a store's whitelist."""
    store.add_whitelist_events([added(entry, at=entry.added_at, by="ada", reason="test") for entry in entries])
