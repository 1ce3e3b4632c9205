"""What strategies reach in Kernel Tuner's own loop, whose times are looked up in what was recorded."""

from __future__ import annotations

import contextlib
import io
import random
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from adapters_kernels import PROBLEM_SIZE, RecordedKernel
from numpy.typing import NDArray

#: Kernel Tuner's own, as they come: chance, what its users name most, and its newest.
RIVALS = (
    "random_sample",
    "genetic_algorithm",
    "diff_evo",
    "simulated_annealing",
    "greedy_ils",
    "pso",
    "bayes_opt",
    "hybrid_vndx",
)
TRIALS = 72
#: Trials at which the best so far is noted.
NOTED = (8, 24, TRIALS)
OURS = "prune-engine"


@dataclass(frozen=True)
class Runs:
    """What a strategy reached on a device, a run per seed.

    ``found`` is float64 (runs, len(NOTED)): best of all over the best measured so far. ``source`` is the device
    whose results it began with. ``processor_secs`` are those of one run, the median.
    """

    device: str
    strategy: str
    source: str | None
    found: NDArray[np.float64]
    processor_secs: float


def runs_of(kernel: RecordedKernel, device: str, n_bare: int, n_from_elsewhere: int) -> Iterator[Runs]:
    """Run every strategy on a device: Kernel Tuner's, ours from nothing and from each other device's results.

    Runs that begin with nothing have seeds below ``n_bare``, the others below ``n_from_elsewhere``.
    """
    best_secs = float(np.nanmin(kernel.table.run_secs[device]))
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache.json"
        kernel.write_cache(cache, device)
        sources = [None, *(other for other in kernel.devices if other != device)]
        for strategy, source in [*((one, None) for one in RIVALS), *((OURS, one) for one in sources)]:
            found, spent = [], []
            for seed in range(n_bare if source is None else n_from_elsewhere):
                began = time.process_time()
                millis = _run(kernel, device, strategy, source, cache, seed)
                spent.append(time.process_time() - began)
                found.append(found_after_trials(1e-3 * millis, best_secs, NOTED))
            yield Runs(device, strategy, source, np.array(found), float(np.median(spent)))


def found_after_trials(
    run_secs: NDArray[np.float64], best_secs: float, noted: Sequence[int]
) -> NDArray[np.float64]:
    """Best of all over the best of the first trials, float64 (len(noted),); 0 where none of them ran."""
    so_far = np.fmin.accumulate(np.where(np.isnan(run_secs), np.inf, run_secs))
    return np.array([best_secs / so_far[min(n, len(so_far)) - 1] for n in noted])


def in_order_of(kernel: RecordedKernel, device: str, source: str) -> NDArray[np.float64]:
    """The same for the other device's best, in its order: what its results are worth with nothing learnt."""
    order = np.argsort(kernel.table.run_secs[source], kind="stable")[:TRIALS]  # NaN comes last
    secs = kernel.table.run_secs[device]
    return found_after_trials(secs[order], float(np.nanmin(secs)), NOTED)


def _run(
    kernel: RecordedKernel, device: str, strategy: str, source: str | None, cache: Path, seed: int
) -> NDArray[np.float64]:
    """Milliseconds in the order of the trials, NaN for failures."""
    import kernel_tuner

    params, restrictions, chosen = kernel.params, [kernel.restriction()], strategy
    if strategy == OURS:
        space = kernel.space(device, source=source, seed=seed)
        params, restrictions, chosen = space.tune_params, space.restrictions, space.strategy()
    random.seed(seed)
    np.random.seed(seed)  # Kernel Tuner draws from both
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")  # the kernel has arguments, and nobody calls it
        results, _ = kernel_tuner.tune_kernel(
            "convolution",
            "__global__ void convolution(float *out) {}",
            PROBLEM_SIZE,
            [],
            params,
            restrictions=restrictions,
            cache=str(cache),
            simulation_mode=True,
            strategy=chosen,
            strategy_options={"max_fevals": TRIALS},
            lang="CUDA",
            quiet=True,
        )
    return np.array([_millis(result) for result in _in_order(results, kernel.table.names)])


def _in_order(results: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """Each configuration once, when it was first measured."""
    seen, kept = set(), []
    for result in results:
        key = tuple(result[name] for name in names)
        if key not in seen:
            seen.add(key)
            kept.append(result)
    return kept


def _millis(result: Any) -> float:
    value = result["time"]
    return float(value) if isinstance(value, int | float) else float("nan")
