"""Times kernels by themselves as they run inside a model: activations in the caches, weights that are not.

Between two calls of a kernel a model reads the weights of all its others, which are more than a core's own caches
hold. So the constant arguments exist several times, and each call gets the next of them. Beside that the usual way,
with the same arguments in every call. ``python gap_timing.py REQUEST.json ANSWER.json`` is the process for it.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

#: Kernels take turns of so many calls. The first is not counted: it finds the data of another in the caches.
_N_TURNS, _CALLS_PER_TURN = 12, 11
#: Copies of the constants together are so many times the core's own caches, but at least two and not too many.
_TIMES_CACHE, _MAX_COPIES = 4, 512
_FEWEST_WHOLE = 3
#: Where the profile does not know the caches.
_USUAL_CACHE_BYTES = 4 << 20


@dataclass(frozen=True)
class TimingJob:
    """A kernel in a shared library with the entry ``main``; ``constants`` are positions of arguments."""

    name: str
    library: str
    arg_shapes: tuple[tuple[int, ...], ...]
    arg_dtypes: tuple[str, ...]
    constants: tuple[int, ...]


@dataclass(frozen=True)
class KernelTiming:
    """Typical seconds of single calls in turns: with weights from further away, and with all in the caches."""

    streamed_secs: float
    cached_secs: float


def typical(secs: Sequence[float]) -> float:
    """The first quartile: what a call takes that nothing disturbs, also where half of them are disturbed."""
    return float(np.quantile(secs, 0.25))


def whole_clock(n_threads: int) -> Callable[[], float]:
    """What whole calls are timed with: they last so long that other programs disturb each.

    On one thread the processor's time says what they would take alone; on several nothing but the wall's does.
    """
    return time.process_time if n_threads == 1 else time.perf_counter


def timed_whole(call: Callable[[], object], n_threads: int, budget_secs: float) -> list[float]:
    """Seconds of each of some whole calls: as many as ``budget_secs`` of the wall have room for, at least three."""
    clock, secs, began = whole_clock(n_threads), list[float](), time.perf_counter()
    call()
    while len(secs) < _FEWEST_WHOLE or time.perf_counter() - began < budget_secs:
        started = clock()
        call()
        secs.append(clock() - started)
    return secs


def own_cache_bytes(profile: Any) -> int:
    """What the largest cache of one core holds."""
    sizes = [
        level.capacity_bytes.value for level in profile.memory if level.scope == "core" and level.capacity_bytes
    ]
    return int(max(sizes, default=_USUAL_CACHE_BYTES))


def time_kernels(
    jobs: Sequence[TimingJob], n_threads: int, cache_bytes: int, timeout_secs: float = 600.0
) -> dict[str, KernelTiming]:
    """Time kernels in turns in a process of its own. Raises subprocess.CalledProcessError if that dies."""
    from prune_engine.metaschedule.threads import thread_variables

    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        request = {"jobs": [asdict(job) for job in jobs], "n_threads": n_threads, "cache_bytes": cache_bytes}
        answer = answer_of(__file__, folder, request, timeout_secs, thread_variables(n_threads))
    return {name: KernelTiming(**secs) for name, secs in answer.items()}


def answer_of(
    script: str,
    folder: Path,
    request: Mapping[str, Any],
    timeout_secs: float,
    variables: Mapping[str, str] | None = None,
) -> Any:
    """What ``script REQUEST.json ANSWER.json`` answers in a process of its own, its files in ``folder``.

    Raises subprocess.CalledProcessError if it fails, subprocess.TimeoutExpired if it takes too long.
    """
    asked, told = folder / "request.json", folder / "answer.json"
    asked.write_text(json.dumps(request))
    subprocess.run(
        [sys.executable, script, str(asked), str(told)],
        check=True,
        capture_output=True,
        text=True,
        timeout=timeout_secs,
        env={**os.environ, **(variables or {})},
    )
    return json.loads(told.read_text())


def n_copies(constant_bytes: int, cache_bytes: int) -> int:
    """How often constants of so many bytes must exist for a call to find none of them in the cache."""
    if constant_bytes == 0:
        return 1
    return min(_MAX_COPIES, max(2, math.ceil(_TIMES_CACHE * cache_bytes / constant_bytes)))


def main(request_file: Path, answer_file: Path) -> None:
    """Answer a request."""
    from prune_engine.metaschedule._compat import import_tvm
    from prune_engine.metaschedule.threads import use_threads

    request = json.loads(request_file.read_text())
    use_threads(request["n_threads"])
    import_tvm()
    calls = {}
    for entry in request["jobs"]:
        job = TimingJob(**entry)
        calls[job.name] = _calls_of(job, request["cache_bytes"])
    secs: dict[str, dict[str, list[float]]] = {name: {"streamed_secs": [], "cached_secs": []} for name in calls}
    for _ in range(_N_TURNS):
        for name, (streamed, cached) in calls.items():
            for how, call in (("streamed_secs", streamed), ("cached_secs", cached)):
                secs[name][how] += [_timed(call) for _ in range(_CALLS_PER_TURN)][1:]
    found = {name: {how: typical(told) for how, told in of.items()} for name, of in secs.items()}
    answer_file.write_text(json.dumps(found))


def _timed(call: Callable[[], None]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def _calls_of(job: TimingJob, cache_bytes: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """A call with the next constants, and one with always the same."""
    from prune_engine.metaschedule._compat import import_tvm
    from prune_engine.metaschedule.measure.arguments import make_arguments

    tvm = import_tvm()
    main_function = tvm.runtime.load_module(job.library)["main"]
    arrays = make_arguments(job.arg_shapes, job.arg_dtypes, 0, is_positive=True)
    constant_bytes = sum(arrays[position].nbytes for position in job.constants)
    shared = [tvm.runtime.tensor(array) for array in arrays]
    sets = [
        [tvm.runtime.tensor(np.copy(array)) if i in job.constants else shared[i] for i, array in enumerate(arrays)]
        for _ in range(n_copies(constant_bytes, cache_bytes))
    ]
    number = 0

    def streamed() -> None:
        nonlocal number
        number = (number + 1) % len(sets)
        main_function(*sets[number])

    def cached() -> None:
        main_function(*shared)

    return streamed, cached


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
