"""Where the strategy for Kernel Tuner looks: one step from the best that were measured."""

from __future__ import annotations

import itertools
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

kernel_tuner = pytest.importorskip("kernel_tuner", reason="the optional extra kernel-tuner")

from prune_engine_kernel_tuner import KernelSpace, kernel_space  # noqa: E402
from prune_engine_kernel_tuner.neighbourhood import near_the_best  # noqa: E402

from prune_engine.errors import ConfigError  # noqa: E402

#: Positions (a, b), a of 4 and b of 3: row 3 a + b.
GRID = np.array(list(itertools.product(range(4), range(3))), dtype=np.int32)


def near(measured: list[int], run_secs: list[float], n: int, closed: tuple[int, ...] = ()) -> list[int]:
    is_open = np.ones(len(GRID), dtype=np.bool_)
    is_open[[*measured, *closed]] = False
    found = near_the_best(GRID, is_open, np.array(measured, dtype=np.int64), np.array(run_secs), n)
    return np.flatnonzero(found).tolist()


@pytest.mark.parametrize(
    ("measured", "run_secs", "n", "closed", "expected"),
    [
        ([0], [1.0], 1, (), [1, 2, 3, 6, 9]),
        ([0, 11], [2.0, 1.0], 1, (), [2, 5, 8, 9, 10]),
        ([0, 11], [np.nan, 1.0], 99, (), [2, 5, 8, 9, 10]),
        ([0, 1], [1.0, 2.0], 4, (), [2, 3, 6, 9]),
        ([0, 1], [1.0, 2.0], 5, (), [2, 3, 4, 6, 7, 9, 10]),
        ([0], [1.0], 1, (1, 9), [2, 3, 6]),
        ([0], [np.nan], 1, (), []),
        ([], [], 1, (), []),
    ],
    ids=["one step", "of the best", "failures", "enough", "too few", "closed", "nothing ran", "nothing measured"],
)
def test_near_is_one_step_from_the_best(
    measured: list[int], run_secs: list[float], n: int, closed: tuple[int, ...], expected: list[int]
) -> None:
    assert near(measured, run_secs, n, closed) == expected


PARAMS = {"block_size_x": [16, 32, 64, 128, 256, 512], "a": list(range(6)), "b": list(range(6)), "c": [0, 1]}


def own_space() -> KernelSpace:
    return kernel_space(PARAMS, profile="a100")


def test_choosing_among_some_leaves_out_the_others_and_the_measured() -> None:
    own = own_space()
    among = np.zeros(len(own.pruned), dtype=np.bool_)
    among[[3, 40, 41]] = True
    assert set(own.choose(10, [0, 40], among=among).tolist()) == {3, 41}


def test_what_was_measured_is_closed_or_pruned_is_not_near() -> None:
    own = kernel_space({"block_size_x": [256, 512, 1024, 2048], "a": [0, 1, 2]}, profile="a100")
    at = {one: row for row, one in enumerate(own.configurations(range(12)))}
    near = own.near_the_best([at[512, 0], at[512, 1]], np.array([1e-3, 2e-3]), 1, closed=[at[256, 0]])
    assert np.flatnonzero(near).tolist() == sorted((at[1024, 0], at[512, 2]))


def measured_by(own: KernelSpace, tmp_path: Path, **options: Any) -> list[tuple[Any, ...]]:
    """What the strategy measures in 24 trials, in order: a valley that the symbols know nothing of."""
    lines = {}
    for values in itertools.product(*PARAMS.values()):
        millis = 1 + 2 * abs(values[1] - 4) + abs(values[2] - 1) + values[3] + abs(np.log2(values[0]) - 7)
        lines[",".join(map(str, values))] = {**dict(zip(PARAMS, values, strict=True)), "time": float(millis)}
    cache = {"device_name": "invented", "kernel_name": "k", "problem_size": 64, "objective": "time"}
    cache |= {"tune_params_keys": list(PARAMS), "tune_params": PARAMS, "cache": lines}
    (tmp_path / "cache.json").write_text(json.dumps(cache, indent=""))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the kernel has an argument, and nobody calls it
        results, _ = kernel_tuner.tune_kernel(
            "k",
            "__global__ void k(float *a) {}",
            64,
            [],
            own.tune_params,
            restrictions=own.restrictions,
            cache=str(tmp_path / "cache.json"),
            simulation_mode=True,
            strategy=own.strategy(**options),
            strategy_options={"max_fevals": 24},
            lang="CUDA",
            quiet=True,
        )
    return [(*(one[name] for name in PARAMS), one["time"]) for one in results]


def test_most_of_a_batch_is_one_step_from_the_best(tmp_path: Path) -> None:
    found = measured_by(own_space(), tmp_path)
    best = min(found[:8], key=lambda one: one[-1])
    steps = [sum(a != b for a, b in zip(one[:-1], best[:-1], strict=True)) for one in found[8:16]]
    assert len(set(found)) == 24
    assert steps.count(1) >= 6
    assert max(steps) > 1


def test_without_a_local_share_the_order_alone_counts(tmp_path: Path) -> None:
    found = measured_by(own_space(), tmp_path, local_share=0)
    best = min(found[:8], key=lambda one: one[-1])
    steps = [sum(a != b for a, b in zip(one[:-1], best[:-1], strict=True)) for one in found[8:16]]
    assert steps.count(1) < 6


@pytest.mark.parametrize("share", [-0.1, 1.5, "all", True, None])
def test_what_is_no_share_is_told(share: Any) -> None:
    with pytest.raises(ConfigError, match="local_share: is no share; got"):
        own_space().strategy(local_share=share)
