"""The draft for scratchpads: what does not fit scores 0, whole tiles and full pipes are faster."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from kits import nests
from prune_engine_draft.npu import npu_terms
from prune_engine_draft.terms import DraftTerms

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.hardware.schema import HardwareProfile

DEVICES = ("huawei-ascend-910b2", "cambricon-mlu370-x4")


@cache
def profile_of(name: str) -> HardwareProfile:
    return ProfileRegistry().resolve(name)


def gemm(*decisions: tuple[tuple[int, ...], ...], size: int = 1024) -> CandidateBatch:
    """Products of size^3: per candidate the parts of i, j (four each) and k (two)."""
    sketch = nests.gemm_cpu(size, size, size, limit=256)
    rows = []
    for i, j, k in decisions:
        wanted = zip(sketch.variables, (i, j, k, (0,)), strict=True)
        found = [v.index_of(d) for v, d in wanted]
        assert None not in found, found
        rows.append(found)
    return nests.batch_of(sketch, np.array(rows, dtype=np.int32))


def terms(device: str, *decisions: tuple[tuple[int, ...], ...], size: int = 1024) -> DraftTerms:
    return npu_terms(gemm(*decisions, size=size), profile_of(device))


@pytest.mark.parametrize("device", DEVICES)
def test_all_numbers_are_sound(device: str) -> None:
    sketch = nests.gemm_cpu(96, 1000, 77, limit=256)
    batch = nests.batch_of(sketch, nests.random_rows(sketch, 500))
    found = npu_terms(batch, profile_of(device))
    assert np.isfinite(found.latency_secs).all()
    assert (found.latency_secs > 0).all()
    for name, value in found.penalties.items():
        assert ((value > 0) & (value <= 1)).all(), name
    for name, value in found.terms.items():
        assert value.shape == (500,), name
        assert (np.isfinite(value) & (value >= 0)).all(), name


def test_a_tile_too_large_for_a_scratchpad_does_not_fit() -> None:
    # fp32: A's tile is 64 x 256 x 4 bytes = 64 KiB, all of L0A; with 128 rows it is twice that.
    small, large = ((16, 1, 1, 64), (16, 1, 1, 64), (4, 256)), ((8, 1, 1, 128), (16, 1, 1, 64), (4, 256))
    found = terms(DEVICES[0], small, large)
    assert found.fits is not None
    assert found.fits.tolist() == [True, False]
    assert np.isfinite(found.latency_secs).all()


def test_tiles_that_are_no_multiple_of_the_instruction_lose() -> None:
    whole, broken = ((8, 8, 1, 16), (8, 8, 1, 16), (64, 16)), ((8, 16, 1, 8), (8, 8, 1, 16), (64, 16))
    batch, profile = gemm(whole, broken), profile_of(DEVICES[0])
    # The profile has no tile for fp32; fp16 is what the unit multiplies.
    assert "alignment" not in npu_terms(batch, profile).penalties
    halves = npu_terms(as_halves(batch), profile)
    assert halves.penalties["alignment"].tolist() == [1, 0.5]
    assert halves.terms["matrix"][1] > halves.terms["matrix"][0]


def test_cores_left_idle_lose() -> None:
    one, many = ((1, 16, 1, 64), (1, 16, 1, 64), (16, 64)), ((8, 2, 1, 64), (16, 1, 1, 64), (16, 64))
    found = terms(DEVICES[0], one, many)
    assert found.penalties["cores"][0] < found.penalties["cores"][1]
    assert found.latency_secs[0] > found.latency_secs[1]


def test_pipes_overlap_unless_the_profile_adds_up() -> None:
    profile = profile_of(DEVICES[0])
    batch = gemm(((8, 2, 1, 64), (16, 1, 1, 64), (16, 64)))
    pipe, added = npu_terms(batch, profile), npu_terms(batch, profile.model_copy(update={"combine": "sum"}))
    assert added.latency_secs > pipe.latency_secs
    slowest = max(pipe.terms[name][0] for name in ("matrix", "vector", "transfer", "feed"))
    rest = pipe.terms["fill"][0] + pipe.terms["launch"][0]
    assert pipe.latency_secs[0] == pytest.approx(slowest + rest)


def test_no_room_for_a_second_tile_stops_the_overlap() -> None:
    # 64 KiB of L0A: 32 rows leave room for two tiles, 64 do not.
    roomy, full = ((32, 1, 1, 32), (16, 1, 1, 64), (4, 256)), ((16, 1, 1, 64), (16, 1, 1, 64), (4, 256))
    found = terms(DEVICES[0], roomy, full)
    assert found.penalties["l0a_room"].tolist() == [1, 0.5]


def test_unknown_numbers_leave_their_terms_out() -> None:
    bare = profile_of(DEVICES[1]).model_copy(update={"memory": (), "compute": profile_of(DEVICES[1]).compute})
    found = npu_terms(gemm(((8, 2, 1, 64), (16, 1, 1, 64), (16, 64))), bare)
    assert set(found.terms) == {"matrix", "vector", "fill", "launch"}
    assert found.fits is not None
    assert found.fits.all()


def as_halves(batch: CandidateBatch) -> CandidateBatch:
    task = replace(batch.space.task, arg_dtypes=("float16",) * len(batch.space.task.arg_dtypes))
    return CandidateBatch(replace(batch.space, task=task), batch.sketch, batch.indices)
