"""The adapter for Kernel Tuner, against the real package on recorded (invented) results."""

from __future__ import annotations

import gzip
import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kits import synthetic_kernels as synthetic
from kits.synthetic_kernels import stencil_space as space
from prune_engine_kernel_tuner import KernelSpace, Results, kernel_space, read_results

from prune_engine.errors import ConfigError

kernel_tuner = pytest.importorskip("kernel_tuner", reason="the optional extra kernel-tuner")


@pytest.fixture(scope="module")
def pruned() -> KernelSpace:
    return space()


@pytest.fixture(scope="module")
def configurations(pruned: KernelSpace) -> list[tuple[Any, ...]]:
    return pruned.configurations(range(len(pruned.pruned)))


@pytest.fixture(scope="module")
def secs(configurations: list[tuple[Any, ...]]) -> Any:
    """Of the device whose limits are those of the profile."""
    return 1e-3 * synthetic.millis(configurations, "fast")


@pytest.fixture(scope="module")
def files(configurations: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    for device in synthetic.DEVICES:
        synthetic.write_cache(folder / f"{device}.json", configurations, device)
        synthetic.write_t4(folder / f"{device}-t4.json", configurations, device)
    return folder


def tuned(cache: Path, tune_params: Any, restrictions: Any, **more: Any) -> tuple[list[Any], Any]:
    """Kernel Tuner's own loop in simulation mode: it looks times up."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the kernel has arguments, and nobody calls it
        results, env = kernel_tuner.tune_kernel(
            synthetic.KERNEL,
            synthetic.SOURCE,
            (synthetic.SIZE, synthetic.SIZE),
            [],
            tune_params,
            restrictions=restrictions,
            cache=str(cache),
            simulation_mode=True,
            lang="CUDA",
            quiet=True,
            **more,
        )
    return results, env


def test_what_restrictions_allow_is_judged(pruned: KernelSpace, configurations: Any) -> None:
    named = [dict(zip(synthetic.TUNE_PARAMS, c, strict=True)) for c in configurations]
    allowed = [
        c for c in named if c["block_size_x"] * c["block_size_y"] >= 32 and c["unroll"] <= c["tile_x"] * c["tile_y"]
    ]
    n = sum(
        x * y >= 32 and u <= tx * ty
        for x in synthetic.TUNE_PARAMS["block_size_x"]
        for y in synthetic.TUNE_PARAMS["block_size_y"]
        for tx in synthetic.TUNE_PARAMS["tile_x"]
        for ty in synthetic.TUNE_PARAMS["tile_y"]
        for u in synthetic.TUNE_PARAMS["unroll"]
    )
    assert named == allowed
    assert len(pruned.pruned) == 2 * n
    assert len(set(configurations)) == len(configurations)


def test_legality_drops_nothing_that_ran_and_all_that_did_not(pruned: KernelSpace, secs: Any) -> None:
    failed = np.isnan(secs)
    assert failed.sum() > 100
    assert (~pruned.pruned.legal & ~failed).sum() == 0
    assert (pruned.pruned.legal & failed).sum() == 0
    assert pruned.pruned.failures == {}
    assert pruned.pruned.unread == ()


def test_the_order_is_of_all_that_is_kept(pruned: KernelSpace, secs: Any, configurations: Any) -> None:
    assert pruned.pruned.ranked_by == "draft.symbols"
    assert sorted(pruned.order) == sorted(
        c for c, kept in zip(configurations, pruned.pruned.kept, strict=True) if kept
    )
    assert np.nanmin(secs[pruned.pruned.kept]) == np.nanmin(secs)
    half = len(pruned.order) // 2
    by = dict(zip(configurations, secs.tolist(), strict=True))
    first, second = (np.nanmedian([by[c] for c in part]) for part in (pruned.order[:half], pruned.order[half:]))
    assert first < second


def test_kernel_tuner_searches_only_what_is_kept(pruned: KernelSpace, files: Path) -> None:
    results, env = tuned(files / "fast.json", pruned.tune_params, pruned.restrictions)
    found = {tuple(r[name] for name in synthetic.TUNE_PARAMS) for r in results}
    assert found == set(pruned.order)
    everything, best = tuned(files / "fast.json", synthetic.TUNE_PARAMS, synthetic.RESTRICTIONS)
    assert len(everything) == len(pruned.pruned) > len(results)
    assert env["best_config"]["time"] == best["best_config"]["time"]


@pytest.mark.parametrize(
    "restrictions",
    [
        synthetic.RESTRICTIONS[0],
        lambda p: p["block_size_x"] * p["block_size_y"] >= 32,
        [lambda p: p["unroll"] <= p["tile_x"] * p["tile_y"]],
        None,
    ],
    ids=["string", "lambda", "lambda in a list", "none"],
)
def test_restrictions_of_every_form_go_through(restrictions: Any, files: Path) -> None:
    params = {**synthetic.TUNE_PARAMS, "tile_x": [1], "tile_y": [1, 2], "unroll": [1]}
    own = kernel_space(params, restrictions, profile="nvidia-a100-sxm-40gb", symbols=synthetic.SYMBOLS)
    from kernel_tuner.searchspace import Searchspace

    searched = Searchspace(own.tune_params, own.restrictions, 2**31 - 1)
    assert set(searched.list) == set(own.order)


def test_true_and_false_are_different_values() -> None:
    params = {"a": [True, False], "b": [0, 2], "c": [False, True]}
    own = kernel_space(params, profile="nvidia-a100-sxm-40gb")
    assert set(own.order) == set(itertools.product(*params.values()))
    own = kernel_space(params, "a and not c", profile="nvidia-a100-sxm-40gb")
    assert set(own.order) == {(True, 0, False), (True, 2, False)}


def test_values_that_nothing_kept_has_are_left_out() -> None:
    params = {"block_size_x": [32, 1024, 2048], "vector": [1, 2.0], "layout": ["row", "column"]}
    own = kernel_space(params, profile="nvidia-a100-sxm-40gb")
    assert own.tune_params == {"block_size_x": [32, 1024], "vector": [1, 2.0], "layout": ["row", "column"]}
    assert [type(v) for v in own.tune_params["vector"]] == [int, float]
    assert {v.strategy: v.count for v in own.pruned.verdicts} == {"rules.threads-per-block": 4}


def test_blocks_of_other_names_are_counted() -> None:
    own = kernel_space({"bx": [32, 2048], "by": [1]}, profile="a100", block_size_names=["bx", "by"])
    assert own.order == [(32, 1)]


def test_the_strategy_measures_in_the_engines_order_within_the_budget(files: Path, secs: Any) -> None:
    own = space()
    first = set(own.order[:200])
    results, env = tuned(
        files / "fast.json",
        own.tune_params,
        own.restrictions,
        strategy=own.strategy(),
        strategy_options={"max_fevals": 40},
    )
    assert len(results) == 40
    found = [tuple(r[name] for name in synthetic.TUNE_PARAMS) for r in results]
    assert len(set(found)) == 40
    assert set(found) <= set(own.order)
    assert len(first & set(found[:8])) >= 2  # the rest of a first batch is drawn for what it teaches
    # After 40 of 1 260, within 10 % of the best; 40 at random find 0.8 of it.
    assert np.nanmin(secs) / (1e-3 * env["best_config"]["time"]) > 0.9


def test_the_strategy_ends_when_everything_was_measured(files: Path) -> None:
    params = {**synthetic.TUNE_PARAMS, "block_size_x": [32], "tile_x": [1], "use_shared": [0]}
    own = kernel_space(params, synthetic.RESTRICTIONS, profile="a100", symbols=synthetic.SYMBOLS)
    results, _ = tuned(files / "fast.json", params, synthetic.RESTRICTIONS, strategy=own.strategy())
    assert len(results) == own.pruned.n_kept


def test_the_strategy_maximises_what_should_be_large(files: Path, secs: Any) -> None:
    own = space()
    results, env = tuned(
        files / "fast.json",
        own.tune_params,
        own.restrictions,
        strategy=own.strategy(),
        strategy_options={"max_fevals": 48},
        metrics={"rate": lambda p: 1 / p["time"]},
        objective="rate",
        objective_higher_is_better=True,
    )
    assert len(results) == 48
    assert env["best_config"]["rate"] * 1e3 * np.nanmin(secs) > 0.85


@pytest.mark.parametrize("name", ["fast.json", "fast-t4.json"])
def test_files_are_read_and_learnt_from(name: str, files: Path, secs: Any) -> None:
    found = read_results(files / name)
    assert np.allclose(np.sort(found.run_secs), np.sort(secs), equal_nan=True)
    assert found.device_name == ("synthetic fast" if name == "fast.json" else None)
    own = space()
    assert own.learn(files / name) == len(secs)
    assert own.pruned.ranked_by == "lightgbm.residual"
    assert np.nanmin(secs) / np.nanmin(secs[own.pruned.order[:4]]) > 0.85  # 0.61 of it before


def test_results_of_a_run_are_learnt_from(files: Path) -> None:
    results, _ = tuned(
        files / "fast.json",
        synthetic.TUNE_PARAMS,
        synthetic.RESTRICTIONS,
        strategy="random_sample",
        strategy_options={"max_fevals": 64},
    )
    own = space()
    assert own.learn(results) == 64
    assert own.pruned.ranked_by == "lightgbm.residual"


def test_a_cache_that_was_not_closed_or_is_gzipped_is_read(files: Path, tmp_path: Path, secs: Any) -> None:
    text = (files / "fast.json").read_text()
    (tmp_path / "open.json").write_text(text.rstrip().removesuffix("}\n}") + ",")
    with gzip.open(tmp_path / "packed.json.gz", "wt") as file:
        file.write(text)
    for name in ("open.json", "packed.json.gz"):
        assert len(read_results(tmp_path / name).run_secs) == len(secs)


def test_order_is_carried_over_from_another_device(files: Path, secs: Any) -> None:
    told = space(elsewhere=(files / "slow.json", "nvidia-t4"))
    assert told.pruned.ranked_by == "lightgbm.residual"

    def found(own: KernelSpace) -> float:
        return float(np.nanmin(secs) / np.nanmin(secs[own.pruned.order[:4]]))

    assert found(told) > 0.95 > 0.8 > found(space())
    # What ran on the other device only, or there not, is judged by the limits of this one.
    assert told.pruned.legal.tolist() == space().pruned.legal.tolist()


def test_results_of_another_kernel_are_refused(pruned: KernelSpace) -> None:
    other = Results(({"block_size_x": 17},), np.array([1e-3]))
    with pytest.raises(ConfigError, match=r"no result is of this space; got 1 results, such as .*17"):
        pruned.learn(other)


def test_results_that_are_partly_of_this_space_are_learnt_from_in_part(configurations: Any) -> None:
    own = space()
    here = [dict(zip(synthetic.TUNE_PARAMS, c, strict=True)) for c in configurations[:3]]
    told = Results((*here, {**here[0], "unroll": 64}, {**here[0], "unroll": [1]}), np.full(5, 1e-3))
    assert own.learn(told) == 3


def test_without_a_verifier_nothing_comes_from_elsewhere(files: Path) -> None:
    with pytest.raises(ConfigError, match="no verifier that learns from another device"):
        space(elsewhere=(files / "slow.json", "nvidia-t4"), verifier=None)
