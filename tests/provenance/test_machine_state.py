"""What is recorded of the machine: read from a file system of the test's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prune_engine.config import EngineConfig
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.provenance import machine_state as module
from prune_engine.provenance.machine_state import load_state, machine_state
from prune_engine.provenance.manifest import manifest_of
from prune_engine.provenance.policy import Policy
from prune_engine.testing import FakeWorkbench


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "usable_cpus", lambda: frozenset({1, 3}))
    files = {
        "proc/cpuinfo": "processor: 1\nmodel name: Some CPU\ncpu MHz: 2000.5\n\nprocessor: 3\ncpu MHz: 1000\n",
        "proc/meminfo": "MemTotal: 16 kB\nMemAvailable: 8 kB\n",
        "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance\n",
        "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq": "3000000\n",
        "sys/devices/system/cpu/intel_pstate/no_turbo": "1\n",
        "sys/fs/cgroup/cpu.max": "200000 100000\n",
        "sys/fs/cgroup/memory.max": "max\n",
        "run/.containerenv": "",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


def test_what_the_kernel_tells_is_recorded(root: Path) -> None:
    state = machine_state(root, {})
    assert state["cpu_model"] == "Some CPU"
    assert state["affinity"] == [1, 3]
    assert (state["governor"], state["turbo"]) == ("performance", False)
    assert state["memory_bytes"] == 16 * 1024
    limits = {"cgroup_cpu": "200000 100000", "cgroup_memory_bytes": None, "is_container": True}
    assert state["limits"] == limits


def test_clocks_are_the_momentary_ones_of_usable_processors(root: Path) -> None:
    state = load_state(root)
    assert state["clocks_hz"] == {"1": 3e9, "3": 1e9}
    assert state["available_bytes"] == 8 * 1024


def test_what_it_does_not_tell_is_unknown(tmp_path: Path) -> None:
    state = machine_state(tmp_path, {})
    assert (state["governor"], state["turbo"], state["memory_bytes"]) == (None, None, None)
    assert load_state(tmp_path)["clocks_hz"] is None


def test_variables_that_matter_and_no_others(root: Path) -> None:
    environ = {"OMP_NUM_THREADS": "2", "TVM_HOME": "x", "HOME": "y", "PATH": "z", "PYTHONHASHSEED": "0"}
    secret = {"TVM_API_KEY": "1", "PRUNE_ENGINE_STORE": "postgresql://me:word@there/db"}
    kept = machine_state(root, {**environ, **secret})["environment"]
    assert kept == {"OMP_NUM_THREADS": "2", "PYTHONHASHSEED": "0", "TVM_HOME": "x"}


def test_a_manifest_has_all_that_made_a_run(profile: HardwareProfile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["prune-engine", "tune", "--store", "postgresql://me:word@there/db"])
    made: dict[str, Any] = manifest_of(
        EngineConfig.of(seed=7), FakeWorkbench(), profile, Policy({"rules": {}}), {"model": "m", "device": "d"}
    )
    assert made["seed"] == 7
    assert made["argv"][-1] == "postgresql://***@there/db"
    assert {"numpy", "apache-tvm", "lightgbm", "onnx", "onnxruntime"} <= set(made["versions"])
    assert made["policy"] == Policy({"rules": {}}).as_json()
    assert {"os", "cpu_model", "affinity", "governor", "limits", "environment"} <= set(made["machine"])
    assert {"load_average", "clocks_hz", "at"} <= set(made["load_before"])
    assert (made["model"], made["device"]) == ("m", "d")
    again = HardwareProfile.model_validate_json(json.dumps(made["profile_content"]))
    assert again.digest() == profile.digest() == made["profile_digest"]
