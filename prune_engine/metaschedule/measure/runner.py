"""What a run child does: load a kernel, time it, check what it computed, report.

The child times only between asking for the machine (``window``) and giving it back (``window_done``). All
that costs processor time and is not to be timed (loading, making arguments, checking) happens outside.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from prune_engine.measurement import MeasureErrorKind
from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.measure import numerics, stress
from prune_engine.metaschedule.measure.arguments import Array, is_float, make_arguments
from prune_engine.metaschedule.measure.children import JobFailedError, Link
from prune_engine.metaschedule.measure.load import ProcLoadWatch
from prune_engine.metaschedule.measure.pace import Pace
from prune_engine.metaschedule.measure.protocol import Order, RunMode
from prune_engine.metaschedule.measure.settings import MeasureSettings
from prune_engine.metaschedule.measure.timing import (
    Timing,
    TimingPlan,
    look,
    time_paired,
    time_repeat,
    time_staged,
)

#: Below this many seconds per call the loop runs in C++: Python's costs about a microsecond per call.
_PYTHON_LOOP_SECS = 0.0005


class Kernel:
    """A loaded kernel with its arguments in place."""

    def __init__(self, library: Path, initial: list[Array], *, flush_cache: bool) -> None:
        tvm = import_tvm()
        self._device = tvm.cpu()
        self._module = tvm.runtime.load_module(str(library))
        self._function = self._module["main"]
        self.tensors = [tvm.runtime.tensor(array) for array in initial]
        self._estimate_secs: float | None = None
        # Writes back and drops the cache lines of every argument but its first, hence one argument twice.
        self._flush = tvm.get_global_func("cache_flush_cpu_non_first_arg") if flush_cache else None

    def time_calls(self, n_calls: int) -> float:
        """Call the kernel ``n_calls`` times; seconds of one call."""
        if self._flush is not None:
            self._estimate_secs = self._time_cold_calls(n_calls)
        elif n_calls > 4 and self._estimate_secs is not None and self._estimate_secs < _PYTHON_LOOP_SECS:
            evaluator = self._module.time_evaluator("main", self._device, number=n_calls)
            self._estimate_secs = float(evaluator(*self.tensors).results[0])
        else:
            begun = time.perf_counter()
            for _ in range(n_calls):
                self._function(*self.tensors)
            self._estimate_secs = (time.perf_counter() - begun) / n_calls
        return self._estimate_secs

    def _time_cold_calls(self, n_calls: int) -> float:
        assert self._flush is not None
        total_secs = 0.0
        # Flushing costs as much as the arguments are large, so a short kernel gets fewer calls than asked for.
        n_calls = min(n_calls, 10)
        for _ in range(n_calls):
            self._flush(self.tensors[0], *self.tensors)
            begun = time.perf_counter()
            self._function(*self.tensors)
            total_secs += time.perf_counter() - begun
        return total_secs / n_calls

    def snapshot(self) -> list[Array]:
        """Copies of all arguments as they are now."""
        return [tensor.numpy() for tensor in self.tensors]


class Window:
    """The right to use the whole machine, asked for and given back."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def __enter__(self) -> None:
        self._link.send("window")
        self._link.receive()

    def __exit__(self, *_: object) -> None:
        self._link.send("window_done")


def run(order: Order, settings: MeasureSettings, library: Path, pace: Pace, link: Link) -> None:
    """Run one order and send its report. Raises JobFailedError or whatever TVM raises.

    Kernels that are timed in turns are compared as they ran; all others are held against the ``pace``.
    """
    cpus = pinned_cpus(settings.n_threads) if settings.pin_cpus else sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cpus)
    task_folder = Path(order.task_folder)
    if order.mode is RunMode.STRESS_REFERENCE:
        stress.make_stress_reference(order, settings, library, link)
        return
    if order.mode is RunMode.STRESS:
        stress.run_stress(order, settings, library, link)
        return
    watch = ProcLoadWatch(settings.n_threads, len(cpus))
    if order.mode is RunMode.REFERENCE:
        _run_reference(order, settings, library, task_folder, watch, pace, link)
        return
    try:
        is_positive, _ = numerics.load_index(task_folder)
    except OSError as error:
        raise JobFailedError(
            MeasureErrorKind.RUN_ERROR,
            "the task's default schedule left no outputs, so there is nothing to check this one against",
        ) from error
    initial = _arguments(order, settings, is_positive)
    kernel = Kernel(library, initial, flush_cache=settings.flush_cache)
    after: list[Array] = []
    keep: Callable[[], None] = lambda: after.extend(kernel.snapshot())  # noqa: E731
    if order.mode is RunMode.PAIRED:
        with Window(link):
            estimate_secs = look(kernel.time_calls, settings.timing, keep)
        _check(task_folder, initial, after, settings)
        _report(link, _run_paired(order, settings.timing, kernel, estimate_secs, watch, link))
        return
    plan = _plan_within_timeout(settings.timing, order)
    with Window(link):
        time_calls = _timed(kernel, settings, pace)
        timing = time_staged(time_calls, plan, order.incumbent_secs, watch, time.perf_counter, keep)
    _check(task_folder, initial, after, settings)
    _report(link, timing)


def _timed(kernel: Kernel, settings: MeasureSettings, pace: Pace) -> Callable[[int], float]:
    return pace.paced(kernel.time_calls) if settings.hold_against_pace else kernel.time_calls


def _check(task_folder: Path, initial: list[Array], after: list[Array], settings: MeasureSettings) -> None:
    difference = numerics.find_difference(task_folder, initial, after, settings.fp_tolerance)
    if difference is not None:
        raise JobFailedError(MeasureErrorKind.WRONG_RESULT, difference)


def _plan_within_timeout(plan: TimingPlan, order: Order) -> TimingPlan:
    """A full timing takes up to four times its hard budget; it must not run into the timeout by itself."""
    return replace(plan, hard_budget_secs=min(plan.hard_budget_secs, order.run_timeout_secs / 6))


def _run_reference(
    order: Order,
    settings: MeasureSettings,
    library: Path,
    task_folder: Path,
    watch: ProcLoadWatch,
    pace: Pace,
    link: Link,
) -> None:
    for is_positive in (False, True):
        initial = _arguments(order, settings, is_positive)
        kernel = Kernel(library, initial, flush_cache=settings.flush_cache)
        after: list[Array] = []
        keep: Callable[[], None] = lambda kernel=kernel, after=after: after.extend(kernel.snapshot())  # type: ignore[misc]  # noqa: E731
        with Window(link):
            plan = _plan_within_timeout(settings.timing, order)
            timing = time_staged(_timed(kernel, settings, pace), plan, None, watch, time.perf_counter, keep)
        # Roots and logarithms of negative numbers would make every comparison one of NaN with NaN.
        if is_positive or all(np.isfinite(array).all() for array in after if is_float(array.dtype)):
            break
    numerics.save_reference(task_folder, is_positive, initial, after)
    _report(link, timing)


def _run_paired(
    order: Order, plan: TimingPlan, kernel: Kernel, estimate_secs: float, watch: ProcLoadWatch, link: Link
) -> Timing:
    n_noisy = 0

    def repeat() -> float:
        nonlocal n_noisy
        with Window(link):
            watch.start()
            secs = time_repeat(kernel.time_calls, plan, estimate_secs)
            n_noisy += watch.is_noisy()
        return secs

    run_secs = time_paired(repeat, plan, order.n_repeats)
    return Timing(run_secs, stage=2, is_noisy=2 * n_noisy > len(run_secs))


def _arguments(order: Order, settings: MeasureSettings, is_positive: bool) -> list[Array]:
    return make_arguments(order.arg_shapes, order.arg_dtypes, settings.seed, is_positive=is_positive)


def _report(link: Link, timing: Timing) -> None:
    link.send(
        "report",
        run_secs=timing.run_secs,
        stage=timing.stage,
        is_censored=timing.is_censored,
        is_noisy=timing.is_noisy,
        load_average=os.getloadavg()[0],
    )


def pinned_cpus(n_threads: int) -> list[int]:
    """The processors a kernel of ``n_threads`` runs on: of different cores as long as there are any."""
    usable = sorted(os.sched_getaffinity(0))
    by_core: dict[str, int] = {}
    for cpu in usable:
        by_core.setdefault(_siblings(cpu), cpu)
    first_of_each = list(by_core.values())
    rest = [cpu for cpu in usable if cpu not in first_of_each]
    return (first_of_each + rest)[:n_threads]


def _siblings(cpu: int) -> str:
    try:
        return Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(cpu)
