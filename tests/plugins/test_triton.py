"""The adapter for Triton, against its own autotuner and what its compiler allocated; no GPU is needed."""

from __future__ import annotations

import csv
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prune_engine_triton import Footprint, elementwise, matmul, prune_configs_by

from prune_engine.errors import ConfigError, ProfileError, SpaceError
from prune_engine.hardware import DeviceKind
from prune_engine.testing import make_profile

autotuner = pytest.importorskip("triton.runtime.autotuner", reason="the optional extra triton")

RESOURCES = Path(__file__).with_name("data") / "triton_matmul_resources.tsv"
ARGUMENTS = ["a", "b", "c", "M", "N", "K", "BLOCK_M", "BLOCK_N", "BLOCK_K"]
SIZES = {"M": 4096, "N": 4096, "K": 4096}
#: Bytes of shared memory that a block can have: A100 and H100, by compute capability.
PROFILES = {80: ("a100", 166912), 90: ("h100", 232448)}


def config(m: int, n: int, k: int, *, warps: int = 4, stages: int = 3) -> Any:
    return autotuner.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, num_warps=warps, num_stages=stages)


class Kernel:
    """Stands where a compiled kernel would be: it notes its launches."""

    def __init__(self) -> None:
        self.launched: list[dict[str, Any]] = []
        self.fn: Callable[..., None] = _kernel

    def run(self, *_: Any, **meta: Any) -> None:
        self.launched.append(meta)


def _kernel(a: Any, b: Any, c: Any, M: int, N: int, K: int, BLOCK_M: int, BLOCK_N: int, BLOCK_K: int) -> None:  # noqa: N803
    """What the autotuner reads names of."""


def tuner_of(kernel: Kernel, configs: list[Any], by: dict[str, Any]) -> Any:
    """Triton's own autotuner; what it measures is invented: smaller tiles are slower."""

    def do_bench(call: Callable[[], None], quantiles: Any) -> list[float]:
        call()
        meta = kernel.launched[-1]
        return [1.0 / (meta["BLOCK_M"] * meta["BLOCK_N"])] * len(quantiles)

    return autotuner.Autotuner(
        kernel, ARGUMENTS, configs, ["M", "N", "K"], None, None, prune_configs_by=by, do_bench=do_bench
    )


def meta_of(one: dict[str, Any]) -> tuple[int, ...]:
    return tuple(one[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages"))


def test_the_autotuner_measures_only_what_fits() -> None:
    fits, too_much = config(128, 128, 64, warps=8), config(256, 256, 128, warps=8, stages=4)
    kernel = Kernel()
    tuner = tuner_of(kernel, [too_much, fits, config(64, 64, 64)], prune_configs_by("a100", matmul()))
    tuner.run("a", "b", "c", *SIZES.values())
    assert meta_of(too_much.all_kwargs()) not in {meta_of(one) for one in kernel.launched}
    assert len(kernel.launched) == 3  # two are measured, the better one runs
    assert tuner.best_config is fits


def test_the_autotuner_measures_the_top_k_by_the_model() -> None:
    configs = [
        config(m, n, 32, warps=w, stages=s)
        for m in (16, 64, 128)
        for n in (32, 128)
        for w in (4, 8)
        for s in (2, 4)
    ]
    by = prune_configs_by("a100", matmul(), top_k=5)
    kernel = Kernel()
    tuner = tuner_of(kernel, configs, by)
    tuner.run("a", "b", "c", *SIZES.values())
    measured = {meta_of(one) for one in kernel.launched}
    estimates = {meta_of(one.all_kwargs()): by["perf_model"](**SIZES, **one.all_kwargs()) for one in configs}
    assert len(measured) == 5
    assert max(estimates[one] for one in measured) <= sorted(estimates.values())[4]
    assert max(estimates.values()) > 2 * min(estimates.values())


def test_estimates_do_not_depend_on_what_was_pruned_before() -> None:
    configs = [config(64, 64, 32), config(128, 128, 32)]
    by = prune_configs_by("a100", matmul())
    before = [by["perf_model"](**SIZES, **one.all_kwargs()) for one in configs]
    left = by["early_config_prune"](configs, {**SIZES, "a": object()}, grid=(1,))
    assert left == [configs[1], configs[0]]
    assert [by["perf_model"](**SIZES, **one.all_kwargs(), a=object()) for one in configs] == before
    small = {**SIZES, "K": 32}
    assert by["perf_model"](**small, **configs[0].all_kwargs()) < before[0] / 10
    # 137 Gflop at no more than 312 Tflop/s, and within the order of it.
    assert 0.44 < before[1] < 5


def test_the_problems_size_decides_the_order() -> None:
    large, small = config(128, 128, 64, warps=8), config(16, 32, 64)
    by = prune_configs_by("a100", matmul())
    assert by["early_config_prune"]([small, large], SIZES)[0] is large
    assert by["early_config_prune"]([large, small], {"M": 16, "N": 1024, "K": 8192})[0] is small


def test_a_set_that_is_pruned_whole_names_the_limits() -> None:
    configs = [config(256, 256, 256, warps=8, stages=s) for s in (3, 4)] + [config(64, 64, 32, warps=64)]
    tuner = tuner_of(Kernel(), configs, prune_configs_by("a100", matmul(), name="product"))
    with pytest.raises(SpaceError) as caught:
        tuner.run("a", "b", "c", *SIZES.values())
    message = str(caught.value)
    assert "'product' on nvidia-a100-sxm-80gb: not one configuration can be used; got 3 configurations" in message
    assert "2 dropped by rules.shared-memory: bytes of shared memory per block: 524288, more than 166912" in message
    assert "1 dropped by rules.threads-per-block: threads per block: 2048, more than 1024" in message


def resources() -> list[dict[str, Any]]:
    with RESOURCES.open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [{name: value if name == "dtype" else int(value) for name, value in row.items()} for row in rows]


def judged(arch: int, dtype: str, rows: list[dict[str, Any]], shared_limit: int) -> list[bool]:
    profile = make_profile(DeviceKind.GPU, shared_memory_per_block_opt_in_bytes=shared_limit)
    footprint = matmul(dtype=dtype, has_async_products=arch >= 90)
    by = prune_configs_by(profile, footprint, disabled_rules=("rules.register-pressure",))
    configs = [
        config(r["BLOCK_M"], r["BLOCK_N"], r["BLOCK_K"], warps=r["num_warps"], stages=r["num_stages"]) for r in rows
    ]
    try:
        left = by["early_config_prune"](configs, SIZES)
    except SpaceError:
        return [False] * len(rows)
    return [one in left for one in configs]


@pytest.mark.parametrize(("arch", "dtype"), [(80, "float16"), (80, "float32"), (90, "float16")])
@pytest.mark.parametrize("limit", ["device", 49152, 65536, 100352])
def test_nothing_is_dropped_that_triton_could_allocate(arch: int, dtype: str, limit: Any) -> None:
    rows = [r for r in resources() if (r["arch"], r["dtype"]) == (arch, dtype)]
    shared_limit = PROFILES[arch][1] if limit == "device" else limit
    kept = np.array(judged(arch, dtype, rows, shared_limit))
    fits = np.array([r["shared_bytes"] <= shared_limit for r in rows])
    assert len(rows) >= 24
    assert (~kept & fits).sum() == 0, "a false prune"
    assert (kept & ~fits).sum() <= 0.05 * len(rows)
    assert fits.any()


def test_shared_memory_is_what_the_compiler_allocates() -> None:
    """Exact in most cases: small tiles and the store of the result may need a little more."""
    exact = 0
    for row in resources():
        footprint = matmul(dtype=row["dtype"], has_async_products=row["arch"] >= 90)
        function: Any = footprint.symbols["shared_bytes_per_block"]
        told = float(function({name: np.array([value]) for name, value in row.items() if name != "dtype"})[0])
        assert told <= row["shared_bytes"], row
        exact += told == row["shared_bytes"]
    assert exact >= 0.6 * len(resources())


def test_what_spills_much_is_taken_for_register_pressure() -> None:
    rows = [r for r in resources() if r["arch"] == 80]
    by = prune_configs_by("a100", matmul(dtype="float16"), disabled_rules=("rules.shared-memory",))
    configs = [config(r["BLOCK_M"], r["BLOCK_N"], r["BLOCK_K"], warps=r["num_warps"]) for r in rows]
    left = by["early_config_prune"](configs, SIZES)
    dropped = [r for r, one in zip(rows, configs, strict=True) if one not in left]
    assert dropped
    assert all(r["spilled_bytes"] > 0 for r in dropped)


def test_a_footprint_of_ones_own() -> None:
    footprint = Footprint({"threads_per_block": lambda c: c["num_warps"] * 32, "shared_bytes_per_block": "BYTES"})
    by = prune_configs_by(make_profile(DeviceKind.GPU), footprint)
    assert set(by) == {"early_config_prune"}
    configs = [autotuner.Config({"BYTES": n}) for n in (167936, 167937)]
    assert by["early_config_prune"](configs, {}) == configs[:1]


def test_symbols_of_a_preset_can_be_replaced() -> None:
    padded = matmul().with_symbols(shared_bytes_per_block=2**30)
    with pytest.raises(SpaceError, match=r"rules\.shared-memory"):
        prune_configs_by("a100", padded)["early_config_prune"]([config(64, 64, 32)], SIZES)


def test_elementwise_kernels_are_limited_by_memory() -> None:
    by = prune_configs_by("a100", elementwise(n_tensors=3))
    configs = [autotuner.Config({"BLOCK_SIZE": n}, num_warps=w) for n in (64, 1024) for w in (2, 4, 64)]
    left = by["early_config_prune"](configs, {"n_elements": 1 << 28, "x_ptr": object()})
    assert {one.num_warps for one in left} == {2, 4}
    millis = by["perf_model"](n_elements=1 << 28, **left[0].all_kwargs())
    # 3.2 GB at 2.04 TB/s.
    assert 1.5 < millis < 4


def test_products_in_a_batch_take_as_often_as_long() -> None:
    one, many = (prune_configs_by("a100", matmul(batch=batch))["perf_model"] for batch in (None, "B"))
    meta = config(128, 128, 64, warps=8).all_kwargs()
    assert 12 < many(**SIZES, B=16, **meta) / one(**SIZES, B=16, **meta) < 17


BAD = {
    "arguments": (lambda by: by["early_config_prune"]([config(64, 64, 32)], {"M": 5}), "no N, K among"),
    "no configurations": (lambda by: by["early_config_prune"]([], SIZES), "there are no configurations"),
    "different": (
        lambda by: by["early_config_prune"]([config(64, 64, 32), autotuner.Config({"BLOCK_M": 64})], SIZES),
        "configuration 1 without BLOCK_N, BLOCK_K",
    ),
    "other names": (
        lambda by: by["early_config_prune"]([autotuner.Config({"BM": 64})], SIZES),
        "asks for a variable that there is not; got 'BLOCK_[MN]'.*BM",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_judged_is_told(case: str) -> None:
    call, message = BAD[case]
    with pytest.raises(ConfigError, match=message):
        call(prune_configs_by("a100", matmul()))


def test_options_of_some_configurations_only_are_no_obstacle() -> None:
    some = autotuner.Config(config(64, 64, 32).kwargs, num_warps=4, num_stages=3, maxnreg=128)
    other = autotuner.Config({**config(64, 64, 32).kwargs, "SPLIT": None}, num_warps=4, num_stages=3)
    by = prune_configs_by("a100", matmul())
    assert len(by["early_config_prune"]([config(64, 64, 32), some, other], SIZES)) == 3
    assert 0 < by["perf_model"](**SIZES, **some.all_kwargs()) < math.inf


@pytest.mark.parametrize("value", [None, math.nan, np.float32("nan"), math.inf, 2**70, object()])
def test_arguments_that_say_nothing_are_no_obstacle(value: object) -> None:
    by = prune_configs_by("a100", matmul())
    configs = [config(64, 64, 32), config(128, 64, 32)]
    assert len(by["early_config_prune"](configs, {**SIZES, "alpha": value})) == 2
    assert 0 < by["perf_model"](**SIZES, alpha=value, **configs[0].all_kwargs()) < math.inf


@pytest.mark.parametrize("top_k", [0, -1, 0.0, 1.5, math.nan, "5", True])
def test_a_top_k_that_means_nothing_is_refused(top_k: Any) -> None:
    with pytest.raises(ConfigError, match="top_k: is no number of configurations"):
        prune_configs_by("a100", matmul(), top_k=top_k)


def test_without_a_draft_there_is_no_model() -> None:
    assert "perf_model" not in prune_configs_by("a100", matmul(), draft_scorer=None)
    with pytest.raises(ConfigError, match="top_k: there is nothing to choose them by"):
        prune_configs_by("a100", matmul(), top_k=3, draft_scorer=None)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: prune_configs_by("a100", {"threads_per_block": 32}), "footprint: is of the wrong type; got dict"),
        (lambda: prune_configs_by(None, matmul()), "profile: is of the wrong type; got NoneType"),
        (lambda: matmul(dtype="half"), "dtype: is no type whose size is known; got 'half'"),
        (lambda: matmul(dtype=16), "dtype: is no type whose size is known; got 16"),
    ],
    ids=["footprint", "profile", "name of a type", "no type"],
)
def test_wrong_arguments_are_told(call: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call()


def test_top_k_needs_a_model() -> None:
    with pytest.raises(ConfigError, match="top_k: there is nothing to choose them by; got 3"):
        prune_configs_by("a100", Footprint({"threads_per_block": 32}), top_k=3)


def test_tritons_names_of_targets_are_known() -> None:
    limit = config(256, 128, 128, warps=8, stages=3)
    with pytest.raises(SpaceError, match="nvidia-a100"):
        prune_configs_by("cuda:80", matmul(dtype="float32"))["early_config_prune"]([limit], SIZES)
    with pytest.raises(ProfileError, match="unknown hardware profile"):
        prune_configs_by("cuda:12", matmul())


def test_triton_itself_is_never_imported() -> None:
    program = """
import sys
sys.modules["triton"] = None
from prune_engine_triton import matmul, prune_configs_by
class Config:
    kwargs = {}
    def all_kwargs(self):
        return {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}
print(len(prune_configs_by("a100", matmul())["early_config_prune"]([Config()], {"M": 64, "N": 64, "K": 64})))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.strip() == "1"
