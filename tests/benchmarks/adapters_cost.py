"""What judging a million candidates of anyone's kernel costs, beside calling the symbols for one at a time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prune_engine import Pruner, own_space
from prune_engine.own_kernels.own_spaces import decisions_of, whole

_RUNS = 5
#: Candidates for which the symbols are called one by one.
_ONE_BY_ONE = 20_000
_PROFILE = "a100"
_CHOICES: dict[str, list[Any]] = {
    "x": [8, 16, 24, 32, 48, 64, 96, 128, 192, 256],
    "y": [1, 2, 3, 4, 6, 8, 10, 12, 14, 16],
    "tile_x": list(range(1, 11)),
    "tile_y": list(range(1, 11)),
    "unroll": list(range(1, 11)),
    "padding": list(range(10)),
}
SYMBOLS: dict[str, Callable[[Any], Any]] = {
    "threads_per_block": lambda c: c["x"] * c["y"],
    "shared_bytes_per_block": lambda c: (c["x"] * c["tile_x"] + 8 + c["padding"]) * (c["y"] * c["tile_y"] + 8) * 4,
    "grid_blocks": lambda c: np.ceil(4096 / (c["x"] * c["tile_x"])) * np.ceil(4096 / (c["y"] * c["tile_y"])),
    "flops_total": lambda c: 34 * 4096 * 4096 * (1 + 0.1 / c["unroll"]),
    "traffic_dram_bytes": lambda c: 4 * 4096 * 4096 * (2 + 8 / c["tile_x"] + 8 / c["tile_y"]),
}


@dataclass(frozen=True)
class Cost:
    """Seconds of processor time for ``n`` candidates, medians of runs.

    ``making_secs`` lists them, ``rules_secs`` asks the rules, ``whole_secs`` the rules and, about the ``n_kept``,
    the draft. ``one_by_one_secs`` calls the symbols alone for one candidate at a time, reckoned up from a part.
    """

    n: int
    n_kept: int
    n_runs: int
    making_secs: float
    rules_secs: float
    whole_secs: float
    one_by_one_secs: float


def cost() -> Cost:
    """Measure; the first run of each, which loads what it needs, does not count."""
    space = own_space("stencil", _CHOICES, SYMBOLS, n_results=4096 * 4096)
    batch = whole(space)
    rules = Pruner(_PROFILE, options={"draft_scorer": None, "verifier": None})
    all_of_it = Pruner(_PROFILE)
    some = decisions_of(batch, range(0, len(batch), len(batch) // _ONE_BY_ONE))
    return Cost(
        n=len(batch),
        n_kept=all_of_it.prune(space).n_kept,
        n_runs=_RUNS,
        making_secs=_median_secs(lambda: whole(space)),
        rules_secs=_median_secs(lambda: rules.prune(space, batch)),
        whole_secs=_median_secs(lambda: all_of_it.prune(space, batch)),
        one_by_one_secs=_median_secs(lambda: _one_by_one(some)) * len(batch) / len(some),
    )


def _one_by_one(candidates: Sequence[Mapping[str, Any]]) -> None:
    for one in candidates:
        for symbol in SYMBOLS.values():
            symbol(one)


def _median_secs(call: Callable[[], object]) -> float:
    call()
    spent = []
    for _ in range(_RUNS):
        began = time.process_time()
        call()
        spent.append(time.process_time() - began)
    return statistics.median(spent)
