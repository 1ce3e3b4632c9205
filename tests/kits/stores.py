"""Stores as `tune` leaves them, without its measuring: schedules of a tiny kernel with run times by a formula."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kits.recordings import Schedules

from prune_engine.measurement import (
    DEFAULT_CANDIDATE,
    MeasuredCandidate,
    MeasureError,
    MeasureErrorKind,
    Measurement,
)
from prune_engine.store.base import Store

DEVICE = "Acme 9000"


def add_run(
    store: Store,
    some: Schedules,
    *,
    device: str = DEVICE,
    n_threads: int = 2,
    failed: Sequence[int] = (),
    censored: Sequence[int] = (),
    manifest: Mapping[str, object] | None = None,
) -> str:
    """A run that measured some schedules and the untuned kernel on a device. Returns its id."""
    run_id = store.start_run({"device": device, "n_threads": n_threads, **(manifest or {})})
    store.add_tasks(run_id, [some.task])

    def measured(identity: str, secs: float, number: int) -> Measurement:
        whole = Measurement(identity, (secs,), None, 0.1, device, n_threads, "digest", 1.0e9)
        if number in failed:
            return replace(whole, run_secs=(), error=MeasureError(MeasureErrorKind.RUN_ERROR, "planted"))
        return replace(whole, is_censored=number in censored)

    numbered = enumerate(zip(some.candidates, some.secs, some.traces, strict=True))
    rows = [
        MeasuredCandidate(one, measured(one.candidate_id, secs, n), trace) for n, (one, secs, trace) in numbered
    ]
    default = MeasuredCandidate(None, measured(DEFAULT_CANDIDATE, 5e-3, -1))
    store.add_measured(run_id, some.task.task_id, [s.sketch_id for s in some.space.sketches], [default, *rows])
    store.finish_run(run_id)
    return run_id
