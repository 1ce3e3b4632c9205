"""Wrong schedules planted, each of which is right on plain random inputs or nearly so; right ones pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.measure import BuildJob, DefaultJob, MeasurePool, MeasureSettings
from prune_engine.metaschedule.numeric_check import check_in_pool
from prune_engine.metaschedule.workloads.loading import load_tasks
from prune_engine.numeric_safety import FpPolicy, SafetyReport

tvm = import_tvm()
te = tvm.te

M, N, K = 4, 8, 64
#: Smallest normal float32.
NORMAL = 1.1754944e-38

Product = Callable[[Any, Any, Any, Any, Any], Any]


def product(
    dtype: str = "float32", acc: str = "float32", step: Product | None = None, k: int = K, out: str | None = None
) -> Any:
    """C[i, j] = sum of A[i, r] * B[r, j] in ``acc``, stored as ``out``; ``step`` makes a term another one."""
    a, b = te.placeholder((M, K), dtype, name="a"), te.placeholder((K, N), dtype, name="b")
    r = te.reduce_axis((0, k), name="r")

    def term(i: Any, j: Any) -> Any:
        value = step(a, b, i, j, r) if step else a[i, r].astype(acc) * b[r, j].astype(acc)
        return te.sum(value, axis=r)

    c = te.compute((M, N), term, name="c")
    if out is None or out == acc:
        return tvm.IRModule({"main": te.create_prim_func([a, b, c])})
    d = te.compute((M, N), lambda i, j: c[i, j].astype(out), name="d")
    return tvm.IRModule({"main": te.create_prim_func([a, b, d])})


def flushing(a: Any, b: Any, i: Any, j: Any, r: Any) -> Any:
    x = a[i, r]
    return (
        te.if_then_else(te.abs(x) < tvm.tirx.const(NORMAL, "float32"), tvm.tirx.const(0.0, "float32"), x) * b[r, j]
    )


def reordered() -> Any:
    """Partial sums by rfactor, with the reduction split."""
    sch = tvm.s_tir.Schedule(product())
    *_, r = sch.get_loops(sch.get_sblock("c"))
    _, inner = sch.split(r, [None, 8])
    sch.rfactor(inner, 0)
    return sch.mod


def crashing() -> Any:
    from tvm.script import tirx

    @tirx.prim_func
    def main(x: tirx.handle, y: tirx.handle, z: tirx.handle) -> None:
        a = tirx.match_buffer(x, (M, K), "float32")  # noqa: F841
        b = tirx.match_buffer(y, (K, N), "float32")  # noqa: F841
        c = tirx.match_buffer(z, (M, N), "float32")  # noqa: F841
        tirx.evaluate(tirx.call_extern("int32", "abort"))

    return tvm.IRModule({"main": main})


SETTINGS = MeasureSettings(
    target='{"kind": "llvm"}', n_threads=1, n_builders=1, hold_against_pace=False, stress_budget_secs=60
)


@pytest.fixture(scope="module")
def pool() -> Iterator[MeasurePool]:
    with MeasurePool(SETTINGS) as pool:
        yield pool


def stressed(
    pool: MeasurePool,
    untuned: Any,
    *others: Any,
    dtype: str = "float32",
    out: str = "float32",
    policy: Any = None,
    shapes: tuple[tuple[int, ...], ...] = ((M, K), (K, N), (M, N)),
) -> list[SafetyReport]:
    save = tvm.ir.save_json
    default = DefaultJob(f"{dtype} {out} {shapes}", save(untuned), shapes, (dtype, dtype, out))
    jobs = [BuildJob(str(number), save(mod)) for number, mod in enumerate(others)]
    results = list(pool.stress(default, jobs, policy or FpPolicy()))
    assert results[0].error is None
    by_id = {result.job_id: result for result in results[1:]}
    return [
        SafetyReport.of(r.cases) if r.error is None else SafetyReport.failure(r.error.kind.value, r.error.message)
        for r in (by_id[job.job_id] for job in jobs)
    ]


def test_what_is_right_passes_and_what_is_wrong_is_caught(pool: MeasurePool) -> None:
    same, other_order, flushed, dropped, crashed = stressed(
        pool, product(), product(), reordered(), product(step=flushing), product(k=K - 1), crashing()
    )
    assert (same.problem, other_order.problem) == ("", "")
    assert len(same.cases) == 10
    assert other_order.cases[0].max_error  # it is another order indeed
    wrong = {case.name for case in flushed.cases if not case.is_ok}
    assert wrong == {"subnormal"}
    assert "last of a sum" in {case.name for case in dropped.cases if not case.is_ok}
    assert not crashed.is_safe
    assert "crash" in crashed.problem


def test_a_kernel_that_takes_long_is_tried_on_the_first_inputs() -> None:
    with MeasurePool(replace(SETTINGS, stress_budget_secs=0.0)) as pool:
        (same,) = stressed(pool, product(), product())
    assert [case.name for case in same.cases][:2] == ["random", "last of a sum"]
    assert len(same.cases) == 3


def test_a_narrower_accumulator_is_caught(pool: MeasurePool) -> None:
    right = product("float16", "float32", out="float16")
    same, narrow = stressed(pool, right, right, product("float16", "float16"), dtype="float16", out="float16")
    assert same.is_safe, same.problem
    assert not narrow.is_safe


def test_integers_that_overflow_are_caught(pool: MeasurePool) -> None:
    right = product("int8", "int32")
    same, narrow = stressed(pool, right, right, product("int8", "int16", out="int32"), dtype="int8", out="int32")
    assert same.is_safe, same.problem
    wrong = {case.name for case in narrow.cases if not case.is_ok}
    assert wrong >= {"large", "extreme"}


def test_a_kernel_that_overflows_itself_is_tried_with_what_fits(pool: MeasurePool) -> None:
    both = product("int8", "int16")
    (same,) = stressed(pool, both, both, dtype="int8", out="int16")
    assert same.is_safe, same.problem


def test_a_stated_tolerance_takes_the_place_of_the_bound(pool: MeasurePool) -> None:
    (strict,) = stressed(pool, product(), reordered(), policy=FpPolicy(tolerance=0.0))
    assert not strict.is_safe
    (loose,) = stressed(pool, product(), product(k=K - 1), policy=FpPolicy(tolerance=0.9))
    assert loose.cases[0].is_ok


@pytest.mark.parametrize("text", ["conv2d:1x4x6x6,4x3x3,p1+bias+relu", "softmax:2x8x16", "layer_norm:4x32"])
def test_schedules_of_a_space_pass(
    pool: MeasurePool, target: str, schedule_of: Callable[..., str], text: str
) -> None:
    (task,) = load_tasks(text, target)
    reports = check_in_pool(pool, task, [schedule_of(task, seed) for seed in (1, 2)], FpPolicy())
    assert [report.problem for report in reports] == ["", ""]


def test_what_does_not_replay_is_a_report(pool: MeasurePool, target: str, schedule_of: Callable[..., str]) -> None:
    gemm, other = (load_tasks(text, target)[0] for text in ("gemm:8x8x8", "softmax:2x8x16"))
    (report,) = check_in_pool(pool, other, [schedule_of(gemm)], FpPolicy())
    assert not report.is_safe
    assert "does not replay" in report.problem


def of_sums(after: Callable[[Any, Any], Any]) -> Any:
    """Rows of 224 numbers added up, and what becomes of the sums with another argument's number for each."""
    x, scale = te.placeholder((512, 224), "float32", name="x"), te.placeholder((512,), "float32", name="scale")
    r = te.reduce_axis((0, 224), name="r")
    sums = te.compute((512,), lambda i: te.sum(x[i, r], axis=r), name="c")
    made = te.compute((512,), lambda i: after(sums[i], scale[i]), name="d")
    return tvm.IRModule({"main": te.create_prim_func([x, scale, made])})


@pytest.mark.parametrize(
    "after",
    [
        lambda total, scale: total / tvm.tirx.const(224.0, "float32") + scale,
        lambda total, scale: total * tvm.tirx.const(1e-3, "float32") + scale,
        lambda total, scale: total * (scale * tvm.tirx.const(1e-3, "float32")),
    ],
    ids=["mean", "constant", "scaled"],
)
def test_sums_that_overflow_in_one_order_and_not_in_another_tell_nothing(
    pool: MeasurePool, after: Callable[[Any, Any], Any]
) -> None:
    mod = of_sums(after)
    sch = tvm.s_tir.Schedule(mod)
    *_, r = sch.get_loops(sch.get_sblock("c"))
    _, inner = sch.split(r, [None, 8])
    sch.rfactor(inner, 0)
    (other_order,) = stressed(pool, mod, sch.mod, shapes=((512, 224), (512,), (512,)))
    assert other_order.problem == ""
