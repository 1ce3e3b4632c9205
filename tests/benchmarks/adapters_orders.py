"""What pruning by the adapter for Kernel Tuner would have lost, and what the first of its order find."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from adapters_kernels import RecordedKernel
from kits import synthetic_kernels as synthetic
from kits.synthetic_kernels import stencil_space
from numpy.typing import NDArray
from prune_engine_kernel_tuner import KernelSpace

from prune_engine.recorded.ranking import found_in_order, rank_correlation

PICKS = (1, 4, 8, 16, 64)
_SHUFFLES = 200


@dataclass(frozen=True)
class Order:
    """A pruned and ordered space, held against the times of all of it.

    ``source`` is what the order was taught by, None for the profile alone. ``n_illegal`` legality rules drop, and
    ``n_illegal_ran`` of them ran; ``n_guessed`` heuristics drop beside them, and ``n_guessed_ran`` ran.
    ``kept_best`` is the best of all over the best of what is kept. ``found`` and ``by_chance`` are the best of all
    over the best of the first configurations, by `PICKS`: in this order, and in the mean of random ones.
    ``correlation`` is Spearman's, None where there is none.
    """

    device: str
    source: str | None
    n: int
    n_failed: int
    n_illegal: int
    n_illegal_ran: int
    n_guessed: int
    n_guessed_ran: int
    kept_best: float
    correlation: float | None
    found: tuple[float, ...]
    by_chance: tuple[float, ...]


def judged(device: str, source: str | None, space: KernelSpace, run_secs: NDArray[np.float64]) -> Order:
    """Hold a space against the times of its configurations, float64 (n,), NaN for failures."""
    pruned, ran = space.pruned, ~np.isnan(run_secs)
    kept_ran = pruned.kept & ran
    best_secs = float(np.nanmin(run_secs))
    scores = np.where(pruned.kept, pruned.scores, -1.0)
    found = found_in_order(scores, run_secs, picks=PICKS)
    equal = np.ones(len(scores))
    shuffled = [found_in_order(equal, run_secs, seed=seed, picks=PICKS) for seed in range(_SHUFFLES)]
    guessed = ~pruned.kept & pruned.legal
    return Order(
        device=device,
        source=source,
        n=len(pruned),
        n_failed=int((~ran).sum()),
        n_illegal=int((~pruned.legal).sum()),
        n_illegal_ran=int((~pruned.legal & ran).sum()),
        n_guessed=int(guessed.sum()),
        n_guessed_ran=int((guessed & ran).sum()),
        kept_best=best_secs / float(np.nanmin(run_secs[pruned.kept])) if kept_ran.any() else 0.0,
        correlation=rank_correlation(scores[pruned.kept], run_secs[pruned.kept]),
        found=tuple(found[k] for k in PICKS),
        by_chance=tuple(float(np.mean([one[k] for one in shuffled])) for k in PICKS),
    )


def of_invented_kernel() -> Iterator[Order]:
    """A stencil with invented times, ordered from nothing and from an invented slower device."""
    plain = stencil_space()
    configurations = plain.configurations(range(len(plain.pruned)))
    secs = 1e-3 * synthetic.millis(configurations, "fast")
    yield judged("fast", None, plain, secs)
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder) / "slow.json"
        synthetic.write_cache(there, configurations, "slow")
        yield judged("fast", "slow", stencil_space(elsewhere=(there, "nvidia-t4")), secs)


def of_recorded_kernel(kernel: RecordedKernel) -> Iterator[Order]:
    """A real kernel on each device, ordered by the profile alone and from each other device's results."""
    for device in kernel.devices:
        for source in (None, *(other for other in kernel.devices if other != device)):
            space = kernel.space(device, source=source)
            order = space.configurations(range(len(space.pruned)))
            yield judged(device, source, space, kernel.run_secs(device, order))
