"""Columns of a loop nest, held against numbers worked out by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from kits.nests import batch_of, gemm_cpu, random_rows
from prune_engine_lightgbm.columns import columns_of, is_portable
from prune_engine_lightgbm.device import Device, device_of
from prune_engine_lightgbm.nest_columns import nest_feature_columns
from prune_engine_lightgbm.remembered import RememberedColumns
from prune_engine_lightgbm.rows import matrix

from prune_engine.candidates import CandidateBatch, rows_of
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.hardware.schema import DeviceKind
from prune_engine.testing import make_batch, make_profile

M, N, K = 64, 48, 32
SKETCH = gemm_cpu(M, N, K)
#: Tiles 4 x 2 x 4 x 2 of i, 3 x 1 x 1 x 16 of j, 8 x 4 of k: an innermost tile of 8 x 16, 12 chunks.
DECISIONS = ((4, 2, 4, 2), (3, 1, 1, 16), (8, 4), (16,))


@pytest.fixture(scope="module")
def device() -> Device:
    return dataclasses.replace(device_of(make_profile(cores=8)), simd_lanes=16.0, l1_bytes=32768.0)


def one(device: Device) -> dict[str, float]:
    rows = rows_of(SKETCH, DECISIONS)
    assert rows is not None
    columns = nest_feature_columns(batch_of(SKETCH, rows[None, :]), device)
    return {name: float(column[0]) for name, column in columns.items()}


def test_at_least_38_columns_differ_between_candidates(device: Device) -> None:
    columns = columns_of(batch_of(SKETCH, random_rows(SKETCH, 2000)), device)
    assert sum(np.ptp(column) > 0 for column in columns.values() if not np.isnan(column).any()) >= 38
    assert all(column.dtype == np.float32 and column.shape == (2000,) for column in columns.values())


def test_remembered_columns_are_those_worked_out(device: Device) -> None:
    remembered, rows = RememberedColumns(), random_rows(SKETCH, 300)
    for some in (rows[:200], rows[100:], rows[::-1].copy()):
        batch = batch_of(SKETCH, some)
        found, fresh = remembered(batch, device), nest_feature_columns(batch, device)
        assert list(found) == list(fresh)
        assert all(np.array_equal(found[name], fresh[name], equal_nan=True) for name in fresh)
        assert all(column.dtype == np.float32 for column in found.values())


def test_tile_shape(device: Device) -> None:
    found = one(device)
    assert (found["tile_m"], found["tile_n"], found["tile_k"]) == (1.0, 4.0, 2.0)  # i3 = 2, j3 = 16, k1 = 4
    assert found["tile_aspect"] == 3.0
    assert found["tile_area"] == 5.0


def test_chunks_and_lanes_are_held_against_the_device(device: Device) -> None:
    found = one(device)
    # 4 x 3 outer turns, times 2 x 1 as long as that gives no more jobs than the limit.
    assert found["chunks/cores"] == pytest.approx(np.log2(24 / 8))
    assert found["chunk_waste"] == 0.0
    assert found["lanes/simd"] == 0.0
    assert found["lane_waste"] == 0.0
    fewer = one(dataclasses.replace(device, cores=16.0, simd_lanes=32.0))
    assert fewer["chunk_waste"] == pytest.approx(1 - 24 / 32)
    assert fewer["lane_waste"] == pytest.approx(0.5)


def test_working_sets_are_held_against_caches(device: Device) -> None:
    once, twice = one(device), one(dataclasses.replace(device, l1_bytes=65536.0))
    assert once["set_l1_bytes/l1_bytes"] - twice["set_l1_bytes/l1_bytes"] == pytest.approx(1.0)
    assert twice["double_buffers"] >= once["double_buffers"]


def test_what_a_profile_does_not_know_is_missing(device: Device) -> None:
    found = one(dataclasses.replace(device, l2_bytes=float("nan"), cores=float("nan")))
    assert np.isnan(found["set_l2_bytes/l2_bytes"])
    assert np.isnan(found["chunk_waste"])
    assert not np.isnan(found["tile_m"])


def test_dataflow_rows(device: Device) -> None:
    """Init C, read A, read B, update C, copy C back: bytes of each band and what moves."""
    found = one(device)
    instances = np.log2(M * N * K)
    assert found["flow.init.instances"] == pytest.approx(np.log2(M * N) - instances)
    assert found["flow.copy.instances"] == pytest.approx(np.log2(M * N) - instances)
    # Innermost band: k1 = 4 steps of i3 = 2 rows and j3 = 16 columns.
    assert found["flow.a.l1_bytes"] == pytest.approx(np.log2(2 * 4 * 4 / 32768))
    assert found["flow.b.l1_bytes"] == pytest.approx(np.log2(4 * 16 * 4 / 32768))
    assert found["flow.c.l1_bytes"] == pytest.approx(np.log2(2 * 16 * 4 / 32768))
    # Each of 24 chunks brings its own rows of A and columns of B.
    assert found["flow.a.dram_traffic"] == pytest.approx(np.log2(24 * 8 * 32 * 4) - instances)
    assert found["flow.b.dram_traffic"] == pytest.approx(np.log2(24 * 32 * 16 * 4) - instances)


def test_intensity_grows_with_the_tile(device: Device) -> None:
    found = one(device)
    curve = [found[f"intensity{point}"] for point in range(10)]
    assert curve[0] == max(curve)
    # One instance touches an element each of A, B and C.
    assert curve[9] == pytest.approx(-np.log2(3 * 4))
    assert curve[0] == pytest.approx(np.log2(M * N * K / (4 * (M * K + K * N + M * N))))


def test_opaque_sketches_have_decisions_and_their_products(device: Device) -> None:
    batch = make_batch(20)
    columns = columns_of(batch, device)
    assert not any(is_portable(name) for name in columns if not name.startswith("device."))
    np.testing.assert_array_equal(columns["decision.unroll"], batch.column(3)[:, 0])


@pytest.mark.parametrize("name", ["nvidia-a100-sxm-40gb", "huawei-ascend-910b2", "cambricon-mlu370-x4", "apple-m2"])
def test_every_kind_of_device_has_columns(name: str) -> None:
    found = device_of(ProfileRegistry().resolve(name))
    assert found.vendor == name.partition("-")[0]
    columns = nest_feature_columns(batch_of(SKETCH, random_rows(SKETCH, 50)), found)
    assert len(columns) > 38
    assert not any(np.isinf(column).any() for column in columns.values())


def test_no_candidates_no_columns(device: Device) -> None:
    empty = batch_of(SKETCH, np.empty((0, len(SKETCH.variables)), dtype=np.int32))
    assert all(column.shape == (0,) for column in columns_of(empty, device).values())


def test_a_device_that_knows_nothing_is_the_same_as_itself() -> None:
    gpu = device_of(make_profile(DeviceKind.GPU, threads_per_block=None))
    assert np.isnan(gpu.block_threads)
    assert gpu.is_same(device_of(make_profile(DeviceKind.GPU, threads_per_block=None)))
    assert gpu.is_same(dataclasses.replace(gpu, block_threads=float("nan")))  # as read from a file
    assert not gpu.is_same(device_of(make_profile()))


def test_matrix_has_the_columns_in_order(device: Device) -> None:
    batch: CandidateBatch = make_batch(5)
    columns = columns_of(batch, device)
    table = matrix(columns, ["decision.unroll", "absent"], 5)
    np.testing.assert_array_equal(table[:, 0], columns["decision.unroll"])
    assert np.isnan(table[:, 1]).all()
