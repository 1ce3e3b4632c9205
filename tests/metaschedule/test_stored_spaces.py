"""Recorded spaces of a store: what was measured there, found again in the spaces generated here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kits.recordings import schedules
from kits.stores import DEVICE, add_run

from prune_engine.errors import PruneEngineError
from prune_engine.measurement import REPLAY_DEVICE
from prune_engine.metaschedule.stored_spaces import Programs, devices_of, read_stored
from prune_engine.store.base import Store

GEMM = Programs(("gemm:32x16x16",))


def test_what_was_measured_is_found_again(store: Store) -> None:
    some = schedules()
    add_run(store, some, failed=(3,), censored=(4, 5))
    (device,) = devices_of(store)
    assert str(device) == f"{DEVICE} with 2 threads"
    recording = read_stored(store, device, GEMM)
    assert recording.remarks == ()
    (space,) = recording.spaces
    assert (space.n_candidates, space.n_failed, space.n_unmatched) == (len(some.secs), 1, 0)
    assert space.default_secs == 5e-3
    secs = dict(zip(some.candidate_ids, some.secs, strict=True))
    for batch, run_secs, marks in zip(space.batches, space.run_secs, space.is_censored, strict=True):
        for row in range(len(batch)):
            number = some.candidate_ids.index(batch.candidate(row).candidate_id)
            expected = np.nan if number == 3 else secs[some.candidate_ids[number]]
            assert run_secs[row] == pytest.approx(expected, nan_ok=True)
            assert marks[row] == (number in (4, 5))


def test_devices_are_told_apart(store: Store) -> None:
    for device, n_threads in ((DEVICE, 2), ("Other", 2), (DEVICE, 1), (REPLAY_DEVICE, 1), (DEVICE, 2)):
        add_run(store, schedules(), device=device, n_threads=n_threads)
    found = devices_of(store)
    assert [(one.device_name, one.n_threads, len(one.runs)) for one in found] == [
        (DEVICE, 2, 2),
        (DEVICE, 1, 1),
        ("Other", 2, 1),
    ]
    assert found[0].runs[0].run_id == store.runs()[0].run_id


def test_runs_say_what_they_tuned(store: Store) -> None:
    add_run(store, schedules(), manifest={"model": "gemm:32x16x16"})
    add_run(store, schedules(), manifest={"model": "/no/such.onnx"})
    recording = read_stored(store, devices_of(store)[0], Programs())
    assert [space.n_candidates for space in recording.spaces] == [len(schedules().secs)]
    assert recording.remarks == (
        "the model /no/such.onnx, which runs tuned, is not there: name it, where it is, by --workload",
    )


def test_kernels_without_a_program_are_left_out(store: Store) -> None:
    add_run(store, schedules())
    (device,) = devices_of(store)
    n = len(schedules().secs) + 1
    left_out = f"{n} measurements of gemm:32x16x16 are left out: its program is in none of the models read"
    for programs in (Programs(), Programs(("gemm:8x8x8",))):
        recording = read_stored(store, device, programs)
        assert (recording.spaces, recording.remarks) == ((), (left_out,))
    with pytest.raises(PruneEngineError, match=r"no/such\.onnx"):
        read_stored(store, device, Programs(("no/such.onnx",)))


def test_what_fits_no_space_is_counted(store: Store) -> None:
    some = schedules()
    first, second, *others = some.candidates
    elsewhere = replace(second, decisions=((7,) * len(second.decisions[0]), *second.decisions[1:]))
    space = replace(
        some.space, sketches=(replace(some.space.sketches[0], sketch_id="a fixed one"), *some.space.sketches[1:])
    )
    n_of_first = sum(one.sketch_index == 0 for one in some.candidates)
    assert first.sketch_index == 0
    add_run(store, replace(some, space=space))
    add_run(store, replace(some, candidates=(first, elsewhere, *others)), device="Other")
    other, device = devices_of(store)
    (found,) = read_stored(store, device, GEMM).spaces
    assert found.n_candidates == len(some.secs) - n_of_first
    assert list(found.unmatched.values()) == [n_of_first]
    (reason,) = found.unmatched
    assert reason.startswith("its structure is no sketch of the generated space")
    assert dict(read_stored(store, other, GEMM).spaces[0].unmatched) == {"a decision is in no choice table": 1}
