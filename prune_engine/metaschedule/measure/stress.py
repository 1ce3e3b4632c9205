"""What a child does that tries a kernel on hard inputs, and one that makes what it is held against.

The untuned kernel gives what is expected of every case. The same kernel in float64 gives how far another order of
its sums may be from that: of a kernel that only adds and multiplies it computes the sum of the magnitudes, of any
other how much the result moves when the inputs move a little.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prune_engine.measurement import MeasureErrorKind
from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.measure import error_bounds as bounds
from prune_engine.metaschedule.measure.arguments import Array, is_float, numpy_dtype
from prune_engine.metaschedule.measure.children import JobFailedError, Link
from prune_engine.metaschedule.measure.error_bounds import Float64Array
from prune_engine.metaschedule.measure.jobs import BuildJob
from prune_engine.metaschedule.measure.numerics import accepted_difference
from prune_engine.metaschedule.measure.protocol import WIDE_FILE, Order
from prune_engine.metaschedule.measure.settings import MeasureSettings
from prune_engine.metaschedule.measure.stress_inputs import CASES, Case, Signature, make_inputs
from prune_engine.metaschedule.overflow_guard import OverflowGuard
from prune_engine.metaschedule.rounding import Rounding, rounding_of
from prune_engine.numeric_safety import FpPolicy, SafetyCase

_INDEX = "stress.json"
#: Relative size of the changes by which a kernel's condition is found, and how many of them are tried.
_CHANGE, _N_CHANGES = 2.0**-20, 2
#: Cases that are tried of a kernel however slow it is.
_FEWEST_CASES = 3
#: Results in float64 and in the kernel's own type that are further apart than this many bounds went different ways.
_SAME_WAY = 4.0
#: A statement with fewer roundings than that adds up nothing that comes in several orders.
_NO_SUM = 8
#: Share of rounded integers that may fall to the other side of a tie.
_TIES_SHARE = 1e-3

_Call = Callable[[Sequence[Array]], list[Array]]


@dataclass(frozen=True, slots=True)
class _Kernel:
    """The untuned kernel: as it is, and in float64 where that could be built."""

    rounding: Rounding
    signature: Signature
    call: _Call
    call_wide: _Call | None
    policy: FpPolicy


def make_stress_reference(order: Order, settings: MeasureSettings, library: Path, link: Link) -> None:
    """Run the untuned kernel on every case and keep what a schedule is held against in the task's folder.

    Of a kernel that is slow only the first cases are tried. Raises JobFailedError, OSError or whatever TVM raises.
    """
    assert isinstance(order.job, BuildJob)
    mod = import_tvm().ir.load_json(order.job.module_json)
    rounding = rounding_of(mod)
    wide = library.with_name(WIDE_FILE)
    kernel = _Kernel(
        rounding,
        _signature(order, rounding, OverflowGuard(mod, order.arg_dtypes).max_integer()),
        _caller(library),
        _caller(wide) if wide.exists() else None,
        order.policy,
    )
    folder = Path(order.task_folder)
    folder.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    done: list[str] = []
    waiting = list(CASES)
    while waiting:
        if len(done) >= _FEWEST_CASES and time.perf_counter() - begun > order.stress_budget_secs:
            break
        case = waiting.pop(0)
        is_finite = _keep_case(kernel, case, settings.seed, folder)
        done.append(case.name)
        if not is_finite and case.is_random:  # roots and logarithms: of positive numbers they say more
            waiting.sort(key=lambda other: not other.is_random)
    index = {"cases": done, "signature": asdict(kernel.signature), "has_floats": bool(rounding.steps)}
    partial = folder / f"{_INDEX}.part"
    partial.write_text(json.dumps(index))
    partial.replace(folder / _INDEX)
    link.send("report", cases=[])


def run_stress(order: Order, settings: MeasureSettings, library: Path, link: Link) -> None:
    """Run a schedule on every case of the reference and report how it fared. Raises JobFailedError."""
    folder = Path(order.task_folder)
    try:
        index = json.loads((folder / _INDEX).read_text())
    except OSError as error:
        raise JobFailedError(
            MeasureErrorKind.RUN_ERROR, "the untuned kernel left nothing to check this one against"
        ) from error
    known = index["signature"]
    signature = Signature(**{n: _tuples(v) for n, v in known.items()})
    call, chosen = _caller(library), set(index["cases"])
    cases = []
    for case in CASES:
        if case.name in chosen:
            inputs = make_inputs(case, signature, settings.seed)
            after = call(inputs)
            cases.append(asdict(_judged(case.name, signature, inputs, after, folder, index["has_floats"])))
    link.send("report", cases=cases)


def _signature(order: Order, rounding: Rounding, max_integer: int | None) -> Signature:
    return Signature(
        order.arg_shapes,
        order.arg_dtypes,
        rounding.index_arguments,
        rounding.output_arguments,
        rounding.n_sum,
        max_integer,
    )


def _caller(library: Path) -> _Call:
    """A function that calls the kernel on arrays and returns all of them as they are then."""
    tvm = import_tvm()
    function = tvm.runtime.load_module(str(library))["main"]

    def call(arrays: Sequence[Array]) -> list[Array]:
        tensors = [tvm.runtime.tensor(array) for array in arrays]
        function(*tensors)
        return [tensor.numpy() for tensor in tensors]

    return call


def _keep_case(kernel: _Kernel, case: Case, seed: int, folder: Path) -> bool:
    """Keep one case's results and bounds. Returns whether all results are finite."""
    inputs = make_inputs(case, kernel.signature, seed)
    after = kernel.call(inputs)
    kept: dict[str, NDArray[Any]] = {}
    rng = np.random.default_rng([seed, 1])
    wide = _Wide(kernel, inputs, rng, may_overflow=case.may_overflow) if _has_float_output(kernel) else None
    is_finite = True
    for position in kernel.signature.output_arguments:
        expected = after[position]
        kept[f"expected{position}"] = _bytes(expected)
        if wide is not None and is_float(expected.dtype):
            bound, is_decided = wide.bound(case, position, expected)
            kept[f"bound{position}"], kept[f"decided{position}"] = bound, is_decided
            is_finite &= bool(np.isfinite(expected.astype(np.float64)).all())
    np.savez(folder / _file(case.name), **kept)  # type: ignore[arg-type]  # the stub takes flags by name too
    return is_finite


def _has_float_output(kernel: _Kernel) -> bool:
    signature = kernel.signature
    return any(is_float(numpy_dtype(signature.dtypes[position])) for position in signature.output_arguments)


class _Wide:
    """The kernel in float64 on one case, and the bounds that follow."""

    def __init__(
        self, kernel: _Kernel, inputs: Sequence[Array], rng: np.random.Generator, *, may_overflow: bool
    ) -> None:
        self._kernel = kernel
        self._may_overflow = may_overflow
        self._magnitudes: list[Array] | None = None
        self._reach: list[Array] = []
        self._results: list[Array] | None = None
        self._changed: list[list[Array]] = []
        call = kernel.call_wide
        if call is None:
            return
        if kernel.rounding.is_linear:
            self._magnitudes = call([_magnitude(array) for array in inputs])
            self._reach = self._magnitudes
            if may_overflow:
                scaling = kernel.rounding.scaling_arguments
                self._reach = call(_raised([_magnitude(array) for array in inputs], scaling))
            return
        self._results = call([_as_wide(array) for array in inputs])
        for _ in range(_N_CHANGES):
            moved = [_moved(array, rng) for array in inputs]
            self._changed.append(call(moved))

    def bound(self, case: Case, position: int, expected: Array) -> tuple[Float64Array, NDArray[np.bool_]]:
        """How far a result may be from ``expected``, and where that is decided: float64 and bool of its shape."""
        steps, policy = self._kernel.rounding.steps, self._kernel.policy
        form = bounds.format_of(expected.dtype.name)
        relative = bounds.relative_bound(steps, is_random=case.is_random)
        if policy.tolerance is not None:
            relative = policy.tolerance
        floor = bounds.absolute_floor(steps, expected.dtype.name)
        own = expected.astype(np.float64)
        everywhere = np.ones(expected.shape, dtype=np.bool_)
        with np.errstate(over="ignore", invalid="ignore"):
            if self._magnitudes is not None:
                magnitude = self._magnitudes[position]
                largest = min([form.largest, *(bounds.format_of(step.dtype).largest for step in steps)])
                # What is added up may overflow where the result, which is a part of it, does not.
                reach = magnitude
                if self._may_overflow:
                    reach = self._reach[position] * self._kernel.rounding.shrinks
                return bounds.linear_bound(magnitude, relative) + floor, reach < largest / 2
            if self._results is not None:
                wide = self._results[position]
                changes = [(changed[position] - wide) / _CHANGE for changed in self._changed]
                if policy.tolerance is not None:
                    changes = []
                bound = bounds.normwise_bound(wide, changes, relative) + floor
                if case.is_random:
                    return bound, everywhere
                is_same = np.abs(own - wide) <= _SAME_WAY * bound
                # Sums of the largest numbers overflow in one order and not in another, and nothing tells in which.
                is_told = not self._may_overflow or self._kernel.rounding.n_sum <= _NO_SUM
                return bound, is_same & np.isfinite(wide) & is_told
        finite = np.abs(own[np.isfinite(own)])
        scale = float(finite.max()) if finite.size else 0.0
        accepted = accepted_difference(expected.dtype.name, policy.tolerance)
        return np.full(expected.shape, accepted * scale + floor), everywhere


def _magnitude(array: Array) -> Array:
    if is_float(array.dtype):
        return np.abs(array.astype(np.float64))
    if array.dtype.kind != "i":
        return array
    # The magnitude of the least integer is no integer of its type; one less makes no difference to a bound.
    return np.maximum(np.abs(np.maximum(array, np.iinfo(array.dtype).min + 1)), 0).astype(array.dtype)


def _raised(magnitudes: list[Array], positions: Sequence[int]) -> list[Array]:
    """With factors of at least one, so that no product is smaller than what is multiplied."""
    return [
        np.maximum(array, 1) if number in positions and is_float(array.dtype) else array
        for number, array in enumerate(magnitudes)
    ]


def _as_wide(array: Array) -> Array:
    return array.astype(np.float64) if is_float(array.dtype) else array


def _moved(array: Array, rng: np.random.Generator) -> Array:
    if not is_float(array.dtype):
        return array
    signs = rng.integers(0, 2, array.shape) * 2.0 - 1
    return array.astype(np.float64) * (1 + _CHANGE * signs)


def _judged(
    name: str, signature: Signature, before: Sequence[Array], after: Sequence[Array], folder: Path, has_floats: bool
) -> SafetyCase:
    worst: bounds.Comparison | None = None
    with np.load(folder / _file(name)) as kept:
        for position, (old, new) in enumerate(zip(before, after, strict=True)):
            if position not in signature.output_arguments:
                if not np.array_equal(_bytes(old), _bytes(new)):
                    problem = f"argument {position} ({new.dtype.name}) is an input and was overwritten"
                    return SafetyCase(name, is_ok=False, problem=problem)
                continue
            expected = kept[f"expected{position}"].view(new.dtype).reshape(new.shape)
            if f"bound{position}" in kept:
                found = bounds.compare(new, expected, kept[f"bound{position}"], kept[f"decided{position}"])
            else:
                found = _integers_compared(new, expected, has_floats=has_floats)
            if found.problem is not None:
                where = f"output argument {position} ({new.dtype.name} {list(new.shape)})"
                return SafetyCase(name, False, found.max_error, found.bound, f"{where}: {found.problem}")
            if worst is None or (found.max_error or 0) > (worst.max_error or 0):
                worst = found
    return SafetyCase(name, True, worst.max_error if worst else None, worst.bound if worst else None)


def _integers_compared(got: Array, expected: Array, *, has_floats: bool) -> bounds.Comparison:
    """Equal, but for rounded floats that lie on a tie."""
    difference = np.abs(got.astype(np.int64) - expected.astype(np.int64))
    n_wrong, largest = int(np.count_nonzero(difference)), int(difference.max(initial=0))
    if not n_wrong or (has_floats and largest == 1 and n_wrong <= _TIES_SHARE * got.size):
        return bounds.Comparison(None, float(largest), float(largest))
    problem = f"{n_wrong} of {expected.size} values differ, by up to {largest}"
    return bounds.Comparison(problem, float(largest), 0.0)


def _file(case: str) -> str:
    return f"stress-{case.replace(' ', '-')}.npz"


def _bytes(array: Array) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def results_of(cases: Sequence[dict[str, Any]]) -> Iterator[SafetyCase]:
    """The cases of a child's report."""
    return (SafetyCase(**case) for case in cases)
