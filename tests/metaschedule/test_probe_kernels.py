"""The measuring kernels compute what they claim, and their rates are possible ones."""

from __future__ import annotations

import statistics
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from prune_engine.hardware import host_profile
from prune_engine.metaschedule import probe_kernels
from prune_engine.metaschedule.probe_kernels import ProbeKernels


@pytest.fixture
def kernels(tvm: Any, monkeypatch: pytest.MonkeyPatch) -> ProbeKernels:
    """One thread, short samples: these tests look at results, not at speed."""
    monkeypatch.setattr(probe_kernels, "use_threads", lambda n_threads: True)
    limits = host_profile(1).limits
    vector_bytes = limits.vector_bytes.value if limits.vector_bytes else 16
    return ProbeKernels(2, vector_bytes=vector_bytes, vector_registers=8, sample_secs=0.001)


def run(kernels: ProbeKernels, function: Any, *arguments: Any) -> None:
    kernels._compile(function)["main"](*arguments)


def test_chains_multiply_and_add(tvm: Any, kernels: ProbeKernels) -> None:
    """x = x / 2 + 1, three times from 4: 3, 2.5, 2.25; in every lane of every chain of every thread."""
    function = kernels._chain_kernel("float32", 4, lambda acc, x, y: acc * x + y)
    operands = tvm.runtime.tensor(np.array([0.5] * 4 + [1.0] * 4, "float32"))
    ends = tvm.runtime.tensor(np.full((2, 4 * 4), 4.0, "float32"))
    run(kernels, function, operands, ends, 3)
    assert (ends.numpy() == 2.25).all()


def test_chains_are_independent_and_stay_in_registers(kernels: ProbeKernels) -> None:
    """As many vector multiply-adds in the loop as there are chains, or the rate would be that of something else."""
    if not kernels._target.attrs.get("mcpu") or sys.platform != "linux":
        pytest.skip("needs the assembly of a known processor")
    lanes = kernels._vector_bytes // 4
    assembly = kernels._compile(
        kernels._chain_kernel("float32", lanes, lambda acc, x, y: acc * x + y)
    ).inspect_source("asm")
    if "vfmadd" not in assembly and "fmla" not in assembly:
        pytest.skip("a processor without fused multiply-add")
    n_fused = assembly.count("vfmadd") + assembly.count("fmla")
    assert n_fused >= kernels._chains


def test_reader_reads_all_of_it(tvm: Any, kernels: ProbeKernels) -> None:
    n_blocks, lanes = 5, 4
    width = kernels._chains * lanes
    data = tvm.runtime.tensor(np.arange(2 * n_blocks * width, dtype="float32").reshape(2, n_blocks, width))
    sums = tvm.runtime.tensor(np.zeros((2, width), "float32"))
    run(kernels, kernels._read_kernel(lanes, n_blocks), data, sums, 3)
    np.testing.assert_array_equal(sums.numpy(), 3 * data.numpy().sum(axis=1))


def test_fill_touches_every_page(tvm: Any, kernels: ProbeKernels) -> None:
    data = tvm.runtime.tensor(np.zeros((2, 3, kernels._chains * 4), "float32"))
    run(kernels, kernels._fill_kernel(4, 3), data)
    assert (data.numpy() == 1).all()


def test_cells_count_the_threads(tvm: Any, kernels: ProbeKernels) -> None:
    for is_parallel, expected in ((True, [1, 1]), (False, [1, 0])):
        cells = tvm.runtime.tensor(np.zeros((2, 64), "float32"))
        run(kernels, kernels._cell_kernel(is_parallel=is_parallel), cells)
        assert cells.numpy()[:, 0].tolist() == expected


def test_dot_products_add_four_products_per_lane(tvm: Any, kernels: ProbeKernels) -> None:
    """What int8 operations are counted by: 4 multiply-adds per lane of 32 bits."""
    made: list[tuple[Any, int, int]] = []

    def keep(kernel: Any, dtype: str, lanes: int, flop_per_lane: int) -> list[float]:
        made.append((kernel, lanes, flop_per_lane))
        return [1.0]

    kernels._chain_rates = keep  # type: ignore[method-assign]
    if not kernels.flop_rates("int8"):
        pytest.skip("this processor has no 8-bit dot product that we know")
    kernel, lanes, flop_per_lane = made[0]
    operands = np.concatenate([np.full(4 * lanes, 3, "int8"), np.full(4 * lanes, -2, "int8")]).view("int32")
    ends = tvm.runtime.tensor(np.full((2, kernels._chains * lanes), 100, "int32"))
    run(kernels, kernel, tvm.runtime.tensor(operands), ends, 5)
    assert (ends.numpy() == 100 + 5 * 4 * 3 * -2).all()
    assert flop_per_lane == 2 * 4


def test_rates_count_all_threads_and_steps(kernels: ProbeKernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that says 0.01 s per call, the rate is the work over that."""
    monkeypatch.setattr(kernels, "_time", lambda main, number, repeat, *arguments: [0.01] * repeat)
    lanes = kernels._vector_bytes // 4
    rates = kernels.flop_rates("float32")
    assert rates == [2 * kernels._chains * lanes * 2 / 0.01] * len(rates)
    block_bytes = kernels._chains * lanes * 4
    assert kernels.read_rates(10 * block_bytes + 1)[0] == pytest.approx(2 * 10 * block_bytes / 0.01)


def test_measured_rates_are_possible(kernels: ProbeKernels) -> None:
    """Between a slow scalar and ten times what any core of today does, once nothing else has the cores."""
    assert 1e7 < max(statistics.median(kernels.flop_rates("float32")) for _ in range(3)) < 2e13
    assert 1e6 < statistics.median(kernels.read_rates(16 << 10)) < 2e13


def test_one_thread_has_no_parallel_region(tvm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_kernels, "use_threads", lambda n_threads: True)
    assert list(ProbeKernels(1).fork_join_secs()) == []


def test_threads_are_set_as_asked() -> None:
    """In a process of its own: the pool's size is final."""
    code = (
        "from prune_engine.metaschedule.probe_kernels import ProbeKernels\n"
        "from prune_engine.metaschedule._compat import import_tvm\n"
        "ProbeKernels(2)\n"
        "print(import_tvm().get_global_func('runtime.NumThreads')())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "2"
