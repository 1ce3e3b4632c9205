"""The adapter for Kernel Tuner told nonsense, on devices of many names, and without the package."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from kits.synthetic_kernels import stencil_space as space
from prune_engine_kernel_tuner import kernel_space
from prune_engine_kernel_tuner.devices import profile_of_device

from prune_engine.errors import ConfigError, SpaceError
from prune_engine.hardware.registry import ProfileRegistry

kernel_tuner = pytest.importorskip("kernel_tuner", reason="the optional extra kernel-tuner")


def test_nothing_left_says_what_dropped_it() -> None:
    with pytest.raises(
        SpaceError, match=r"no configuration is left; got 2 .* 2 dropped by rules.threads-per-block: .* 1024"
    ):
        kernel_space({"block_size_x": [2048, 4096]}, profile="a100")


def test_restrictions_that_allow_nothing_are_told() -> None:
    with pytest.raises(SpaceError, match=r"its restrictions leave no configuration.*block_size_x > 64"):
        kernel_space({"block_size_x": [32, 64]}, ["block_size_x > 64"], profile="a100")


def test_a_restriction_that_cannot_be_read_is_told() -> None:
    with pytest.raises(ConfigError, match="Kernel Tuner cannot make a search space of it"):
        kernel_space({"block_size_x": [32, 64]}, ["block_size_x >"], profile="a100")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kernel_space(None, profile="a100"), "tune_params: is of the wrong type; got None"),
        (lambda: kernel_space({"a": 5}, profile="a100"), "'a'.*values of the wrong type; got int 5"),
        (lambda: kernel_space({"a": [5]}, profile=None), "profile: is of the wrong type"),
        (
            lambda: kernel_space({"a": [5]}, profile="a100", block_size_names="a"),
            "block_size_names: is of the wrong",
        ),
        (
            lambda: kernel_space({"a": [5]}, profile="a100", elsewhere="x"),
            "elsewhere: is of the wrong type; got 'x'",
        ),
        (lambda: space().learn(None), "no file of Kernel Tuner's results; got NoneType"),
        (lambda: space().learn({"a": 1}), "no file of Kernel Tuner's results; got dict"),
        (lambda: space().choose(-1), "k: is no number of candidates; got -1"),
        (lambda: space().choose(1, [10**6]), "measured: is no configuration of the space; got 1000000"),
        (lambda: space().strategy(batch_size=0), "batch_size: is no size; got 0"),
        (lambda: space().strategy(first_batch_size="8"), "first_batch_size: is no size; got '8'"),
    ],
    ids=[
        *("parameters", "values", "profile", "blocks", "elsewhere", "no results", "no list"),
        *("negative", "row", "empty batch", "no size"),
    ],
)
def test_wrong_arguments_are_told(call: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call()


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("NVIDIA A100-SXM4-40GB", "nvidia-a100-sxm-40gb"),
        ("NVIDIA A100-SXM4-80GB", "nvidia-a100-sxm-80gb"),
        ("NVIDIA GeForce RTX 3090", "nvidia-rtx-3090"),
        ("NVIDIA GeForce RTX 2080 Ti", "nvidia-rtx-2080-ti"),
        ("Tesla T4", "nvidia-t4"),
        ("NVIDIA H100 80GB HBM3", "nvidia-h100-sxm"),
        ("NVIDIA RTX A4000", "nvidia-rtx-a4000"),
        ("NVIDIA GeForce RTX 3090 Ti", None),
        ("NVIDIA H100 PCIe", None),
        ("NVIDIA GeForce RTX 2080", None),
        ("NVIDIA", None),
        ("a100", None),
        ('{"kind": "cuda", "model": "nvidia a100"}', None),
    ],
)
def test_devices_are_known_by_their_runtimes_names(name: str, profile: str | None) -> None:
    found = profile_of_device(name, ProfileRegistry().profiles())
    assert (found.name if found else None) == profile


def test_without_kernel_tuner_it_loads_and_says_what_to_install() -> None:
    program = """
import sys
sys.modules["kernel_tuner"] = sys.modules["kernel_tuner.searchspace"] = None
from prune_engine.config import EngineConfig
from prune_engine.plugins import PluginHost
host = PluginHost(EngineConfig())
host.load()
print([record.name for record in host.failed])
from prune_engine_kernel_tuner import kernel_space
kernel_space({"block_size_x": [32]}, profile="a100")
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert run.stdout.strip() == "[]"
    assert "Kernel Tuner cannot be imported" in run.stderr
    assert 'pip install "prune-engine[kernel-tuner]"' in run.stderr


def test_nothing_of_it_is_imported_before_it_is_used() -> None:
    program = """
import sys, prune_engine_kernel_tuner, prune_engine_triton
print([m for m in ("kernel_tuner", "triton", "prune_engine.own_kernels.pruner", "tvm") if m in sys.modules])
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.strip() == "[]"
