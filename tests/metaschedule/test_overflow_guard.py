"""Integers that do not fit: in the kernel itself, and in a schedule that keeps them in a narrower type."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from prune_engine.candidates import CandidateBatch
from prune_engine.measurement import MeasureError
from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.intervals import Interval, overflows
from prune_engine.metaschedule.materialise import Materialiser
from prune_engine.metaschedule.overflow_guard import OverflowGuard, overflow_warnings
from prune_engine.metaschedule.targets import resolve_target
from prune_engine.metaschedule.workloads.loading import load_tasks

tvm = import_tvm()
te = tvm.te


def product(k: int, acc: str, dtype: str = "int8") -> Any:
    a, b = te.placeholder((8, k), dtype, name="a"), te.placeholder((k, 8), dtype, name="b")
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((8, 8), lambda i, j: te.sum(a[i, r].astype(acc) * b[r, j].astype(acc), axis=r), name="c")
    return tvm.IRModule({"main": te.create_prim_func([a, b, c])})


@pytest.mark.parametrize(
    ("k", "acc", "fits"),
    [
        (1, "int16", True),
        (2, "int16", False),
        (512, "int16", False),
        (512, "int32", True),
        (131071, "int32", True),
        (131072, "int32", False),
    ],
)
def test_an_accumulator_holds_as_many_products_as_fit(k: int, acc: str, fits: bool) -> None:
    assert (not overflows(product(k, acc))) == fits


def test_known_ranges_of_arguments_count() -> None:
    small = Interval(-8, 7)
    assert not overflows(product(511, "int16"), {0: small, 1: small})
    assert overflows(product(512, "int16"), {0: small, 1: small})


def test_a_split_and_a_partial_sum_have_no_more_terms() -> None:
    sch = tvm.s_tir.Schedule(product(131071 // 8 * 8, "int32"))
    *_, r = sch.get_loops(sch.get_sblock("c"))
    _, inner = sch.split(r, [None, 8])
    sch.rfactor(inner, 0)
    assert not overflows(sch.mod)


def test_a_narrower_copy_is_refused_and_the_kernel_itself_warned_of() -> None:
    guard = OverflowGuard(product(512, "int32"), ("int8", "int8", "int32"))
    assert guard.problem(product(512, "int32")) is None
    assert "int16" in str(guard.problem(product(512, "int16")))
    assert guard.warning() is None
    assert guard.max_integer() is None
    itself = OverflowGuard(product(512, "int16"), ("int8", "int8", "int16"))
    assert itself.problem(product(512, "int16")) is None  # no worse than the kernel
    assert "may overflow" in str(itself.warning())
    assert itself.max_integer() == 7


def test_tasks_are_warned_of() -> None:
    (task,) = load_tasks("gemm:8x8x8", resolve_target("llvm", 1))
    narrow = replace(task, mod=product(512, "int16"), arg_dtypes=("int8", "int8", "int16"))
    (said,) = overflow_warnings([task, narrow])
    assert "int16" in said


@pytest.mark.parametrize(("cpu", "is_refused"), [("skylake-avx512", True), ("cascadelake", False)])
def test_byte_products_that_saturate_in_16_bits_are_refused(cpu: str, is_refused: bool) -> None:
    (task,) = load_tasks("gemm:32x64x64:u8:packed", resolve_target(f"llvm -mcpu={cpu} -num-cores=4", 4))
    materialiser = Materialiser(task, 0)
    space = materialiser.design_space()
    sketch = space.sketches[0]
    first = CandidateBatch(space, sketch, np.array([[v.rows[0] for v in sketch.variables]], dtype=np.int32))
    made = materialiser.materialise(space, first.candidate(0))
    assert isinstance(made, MeasureError) == is_refused
    if isinstance(made, MeasureError):
        assert "int16" in made.message
