"""The draft for GPUs: what is read of a nest, by hand, and what each cause does to the latency."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from kits import nests
from prune_engine_draft.gpu import gpu_terms
from prune_engine_draft.gpu_device import GpuDevice
from prune_engine_draft.gpu_kernel import PENALTIES, TERMS
from prune_engine_draft.gpu_memory import global_work, shared_work
from prune_engine_draft.gpu_nest import kernel_formulas
from prune_engine_draft.gpu_occupancy import occupancy
from prune_engine_draft.tensor_core import fragment_registers, matrix_work
from prune_engine_draft.terms import DraftTerms

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.space import Sketch
from prune_engine.symbols.bands import kernels
from prune_engine.symbols.evaluate import TableValues, evaluate
from prune_engine.symbols.loop_nest import Pipeline, Role

DEVICES = ("nvidia-a100-sxm-40gb", "nvidia-h200-sxm", "nvidia-t4", "nvidia-jetson-agx-orin", "amd-mi250x-gcd")
#: 1024^3: 64 blocks of 256 threads, 8 x 8 results each, the reduction in 64 steps of 16.
PUBLISHED = ((8, 1, 16, 8, 1), (8, 1, 16, 8, 1), (64, 16, 1), (4,), (4,), (512,))


@pytest.fixture(scope="module")
def gemm() -> Sketch:
    return nests.gemm_cuda(1024, 1024, 1024, limit=1024)


@cache
def profile_of(name: str = DEVICES[0]) -> HardwareProfile:
    return ProfileRegistry().resolve(name)


def rows_of(sketch: Sketch, *candidates: tuple[tuple[int, ...], ...]) -> np.ndarray:
    rows = [[v.index_of(d) for v, d in zip(sketch.variables, c, strict=True)] for c in candidates]
    assert all(None not in row for row in rows), rows
    return np.array(rows, dtype=np.int32)


def batch_of(sketch: Sketch, *candidates: tuple[tuple[int, ...], ...]) -> CandidateBatch:
    return nests.batch_of(sketch, rows_of(sketch, *candidates))


def columns_of(sketch: Sketch, *candidates: tuple[tuple[int, ...], ...]) -> dict[str, np.ndarray]:
    rows = rows_of(sketch, *candidates)
    assert sketch.nests is not None
    (group,) = sketch.nests.groups(rows)
    (kernel,) = kernels(group.nest)
    formulas = kernel_formulas(group.nest, kernel)
    found = evaluate(list(formulas.values()), TableValues(sketch), rows)
    return {name: values.astype(np.float64) for name, values in zip(formulas, found, strict=True)}


def candidate(**parts: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The published candidate with other parts: i, j, k, and fetch_a, fetch_b, unroll as one number each."""
    names = ("i", "j", "k", "fetch_a", "fetch_b", "unroll")
    return tuple(parts.get(name, known) for name, known in zip(names, PUBLISHED, strict=True))


def score(sketch: Sketch, *candidates: tuple[tuple[int, ...], ...], device: str = DEVICES[0]) -> DraftTerms:
    return gpu_terms(batch_of(sketch, *candidates), profile_of(device))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("blocks", 64),
        ("threads", 256),
        ("vthreads", 1),
        ("shared_bytes", 16_384),
        ("local_bytes", 256),
        ("flops", 2**31),
        ("matrix_flops", 0),
        ("tensor_bytes", 3 * 4 * 1024**2),
        ("steps", 64),
        ("serial", 65_536),
        # All 64 results of a thread in one step of the reduction; with the 16 steps it would be over the limit.
        ("needed", 64),
        ("bodies", 64),
        # Eight rows (columns) for each of the 1024 steps: the other side's loop is unrolled.
        ("s0.loads", 8 * 1024),
        ("s1.loads", 8 * 1024),
        ("s0.run", 1),
        ("s1.run", 8),
        # A warp holds two rows of threads of 16: rows lie 8 x 16 elements apart, columns 8.
        ("s0.distinct1", 1),
        ("s0.distinct0", 2),
        ("s0.stride0", 8 * 16),
        ("s1.distinct0", 16),
        ("s1.stride0", 8),
        # Every block fetches its rows of A, 16 in a run, and its columns of B, 128 in a run.
        ("g0.count", 8 * 1024 * 1024),
        ("g0.run", 16),
        ("g1.run", 128),
        ("g1.vector", 4),
        # Each thread writes eight results in a row, threads side by side do not.
        ("g2.is_write", 1),
        ("g2.own", 8),
    ],
)
def test_what_is_read_of_the_published_gemm(gemm: Sketch, name: str, value: int) -> None:
    found = columns_of(gemm, PUBLISHED)
    digits = sorted((found[f"s0.distinct{d}"][0], found[f"s0.stride{d}"][0]) for d in (0, 1))
    if name.startswith("s0.distinct") or name.startswith("s0.stride"):
        assert digits == [(1, 1), (2, 128)]
    elif name.startswith("s1.distinct") or name.startswith("s1.stride"):
        assert (16, 8) in {(found[f"s1.distinct{d}"][0], found[f"s1.stride{d}"][0]) for d in (0, 1)}
    else:
        assert found[name].tolist() == [value]


@pytest.mark.parametrize("device", DEVICES)
def test_all_numbers_are_sound(gemm: Sketch, device: str) -> None:
    for sketch in (gemm, nests.gemm_cuda(96, 70, 33), nests.softmax_cuda(64, 96)):
        batch = nests.batch_of(sketch, nests.random_rows(sketch, 300))
        found = gpu_terms(batch, profile_of(device))
        assert np.isfinite(found.latency_secs).all()
        assert (found.latency_secs > 0).all()
        assert set(found.terms) == set(TERMS)
        assert set(found.penalties) == set(PENALTIES)
        for name, value in found.penalties.items():
            assert ((value > 0) & (value <= 1)).all(), name
        for name, value in found.terms.items():
            assert value.shape == (300,), name
            assert (np.isfinite(value) & (value >= 0)).all(), name


def test_a_profile_that_knows_nothing_still_ranks(gemm: Sketch) -> None:
    limits = type(profile_of().limits)()
    bare = profile_of().model_copy(
        update={"memory": (), "compute": (), "limits": limits, "core_count": None, "clock_hz": None}
    )
    found = gpu_terms(batch_of(gemm, PUBLISHED, candidate(k=(1024, 1, 1))), bare)
    assert np.isfinite(found.latency_secs).all()
    assert found.latency_secs[1] > found.latency_secs[0]


def test_the_latency_is_made_of_its_terms(gemm: Sketch) -> None:
    found = score(gemm, PUBLISHED)
    overlapping = [found.terms[n][0] for n in TERMS if n not in ("latency", "launch")]
    on_top = found.terms["latency"][0] + found.terms["launch"][0]
    together = sum(term**3 for term in overlapping) ** (1 / 3)
    assert found.latency_secs[0] == pytest.approx(together + on_top)
    added = gpu_terms(batch_of(gemm, PUBLISHED), profile_of().model_copy(update={"combine": "sum"}))
    assert added.latency_secs[0] == pytest.approx(sum(overlapping) + on_top)


def test_cores_without_blocks_and_lanes_without_threads_are_lost(gemm: Sketch) -> None:
    few_threads = candidate(i=(8, 1, 2, 64, 1), j=(8, 1, 8, 16, 1))
    found = score(gemm, PUBLISHED, few_threads)
    assert found.penalties["wave"][0] == pytest.approx(64 / 108)
    assert found.penalties["lanes"].tolist() == [1, 0.5]
    at_full_use = found.terms["compute"] * found.penalties["busy"]
    assert at_full_use[1] == pytest.approx(2 * at_full_use[0])


def test_results_that_no_register_can_hold_cost_memory_accesses(gemm: Sketch) -> None:
    # 16 x 16 = 256 results are more than the 255 registers of a thread.
    large = candidate(i=(8, 1, 8, 16, 1), j=(8, 1, 8, 16, 1))
    found = score(gemm, PUBLISHED, large)
    assert found.penalties["registers"].tolist() == [1, pytest.approx(1 / 3)]
    assert found.terms["l1"][1] > found.terms["l1"][0]
    # 64 results in registers only if no step of the reduction (16 inside them) must be unrolled as well.
    rolled = candidate(k=(64, 1, 16), unroll=(0,))
    assert score(gemm, rolled).penalties["registers"][0] < 1
    assert score(gemm, candidate(k=(64, 16, 1), unroll=(0,))).penalties["registers"][0] == 1


def test_registers_and_shared_memory_limit_what_is_resident(gemm: Sketch) -> None:
    device = GpuDevice.of(profile_of(), "float32")
    many = columns_of(gemm, candidate(i=(32, 1, 16, 2, 1), j=(32, 1, 16, 2, 1)))
    many["blocks"] = np.array([1e6])
    free = occupancy(many, device)
    # 4 + 40 registers by 256 threads: five blocks; 40 KiB of shared memory: four.
    assert free.rounds.tolist() == [np.ceil(np.ceil(1e6 / 108) / 5)]
    tight = occupancy({**many, "shared_bytes": np.array([40_000.0])}, device)
    assert tight.rounds.tolist() == [np.ceil(np.ceil(1e6 / 108) / 4)]
    assert tight.busy < free.busy


def test_lanes_that_hit_one_bank_wait_for_each_other(gemm: Sketch) -> None:
    device = GpuDevice.of(profile_of(), "float32")
    access = {"loads": 64.0, "run": 1.0, "item_bytes": 4.0, "distinct1": 1.0, "stride1": 1.0}

    def passes(distinct: float, stride: float, run: float = 1.0) -> float:
        own = {**access, "distinct0": distinct, "stride0": stride, "run": run}
        c = {"threads": np.array([32.0]), **{f"s0.{name}": np.array([v]) for name, v in own.items()}}
        return float(shared_work(c, np.array([1.0]), device).passes[0])

    assert passes(32, 1) == 64
    assert passes(32, 2) == 128
    assert passes(32, 33) == 64
    assert passes(1, 32) == 64
    # Four elements per instruction: a quarter of the instructions, four passes each, without conflicts.
    assert passes(32, 4, run=4) == 64
    assert passes(32, 8, run=4) == 128


def test_runs_shorter_than_a_sector_waste_the_rest_of_it() -> None:
    device = GpuDevice.of(profile_of(), "float32")
    access = {"count": 3200.0, "vector": 1.0, "own": 1.0, "item_bytes": 4.0, "is_write": 0.0, "is_padded": 0.0}

    def moved(run: float, **other: float) -> float:
        own = {**access, "run": run, **other}
        c = {"threads": np.array([32.0]), "blocks": np.array([1.0])}
        found = global_work({**c, **{f"g0.{name}": np.array([v]) for name, v in own.items()}}, device)
        return float(found.moved_bytes[0])

    assert moved(32) == 3200 * 4
    assert moved(8) == 3200 * 4
    assert moved(2) == 3200 * 4 * 4
    assert moved(1) == 3200 * 32
    # A thread's own four results in a row leave in one instruction, half a sector.
    assert moved(1, own=4, is_write=1) == 3200 * 8
    assert moved(1, own=4) == 3200 * 32


def test_pipelined_stages_wait_less(gemm: Sketch) -> None:
    batch = batch_of(gemm, PUBLISHED)
    assert isinstance(gemm.nests, nests.FixedNest)
    piped = replace(gemm.nests.nest, pipelines=(Pipeline("k0", (0, 0, 2), (0, 1, 2), (0,)),), formulas={})
    sketch = replace(gemm, nests=nests.FixedNest(piped, TableValues(gemm)))
    plain, overlapped = gpu_terms(batch, profile_of()), gpu_terms(batch_of(sketch, PUBLISHED), profile_of())
    assert overlapped.terms["latency"] == pytest.approx(0.75 * plain.terms["latency"])


def test_copies_that_pad_wait_for_their_values(gemm: Sketch) -> None:
    assert isinstance(gemm.nests, nests.FixedNest)
    plain = gemm.nests.nest
    statements = tuple(replace(s, role=Role.COMPUTE) if s.name == "A_shared" else s for s in plain.statements)
    padding = replace(
        gemm, nests=nests.FixedNest(replace(plain, statements=statements, formulas={}), gemm.nests.tables)
    )
    rolled, unrolled = candidate(unroll=(0,), fetch_a=(1,)), candidate(unroll=(512,), fetch_a=(1,))
    before = score(gemm, rolled, unrolled).terms["chain"]
    waits = score(padding, rolled, unrolled).terms["chain"] - before
    assert waits[0] > 0
    assert waits[1] == pytest.approx(waits[0] / 4)


def test_each_kernel_is_launched() -> None:
    sketch = nests.softmax_cuda(64, 96)
    batch = nests.batch_of(sketch, nests.random_rows(sketch, 20))
    profile = profile_of()
    assert sketch.nests is not None
    (group,) = sketch.nests.groups(batch.indices)
    launched = gpu_terms(batch, profile).terms["launch"]
    assert launched == pytest.approx(len(kernels(group.nest)) * GpuDevice.of(profile, "float32").launch_secs)


def test_matrix_instructions_by_hand() -> None:
    device = GpuDevice.of(profile_of(), "float16")
    # 312e12 operations per second on 108 cores at 1.41 GHz.
    assert device.matrix_fma_per_cycle == pytest.approx(1024, rel=1e-3)
    c = {
        "blocks": np.array([2.0, 2.0]),
        "serial": np.array([10.0, 10.0]),
        "fragment_bytes": np.array([4096.0, 0.0]),
        "fragment_bytes_loaded": np.array([8192.0, 0.0]),
        "matrix_flops": np.array([2.0**22, 0.0]),
        "useful_flops": np.array([2.0**21, 0.0]),
    }
    found = matrix_work(c, np.array([4.0, 4.0]), device)
    assert found.alignment.tolist() == [0.5, 1]
    assert found.product_cycles == pytest.approx([2**20 / (1024 * 0.6), 0], rel=1e-3)
    # 4096 bytes per block: 32 passes of 128 bytes, half as many again for conflicts.
    assert found.shared_passes.tolist() == [48, 0]
    assert found.waiting_cycles[1] == 0
    assert fragment_registers(c, device).tolist() == [48, 0]


def test_operations_in_another_type_have_their_own_peak() -> None:
    profile = profile_of()
    assert GpuDevice.of(profile, "float32").fma_per_cycle == pytest.approx(64)
    assert GpuDevice.of(profile, "float32").matrix_fma_per_cycle is None
