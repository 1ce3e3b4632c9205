"""Targets by the name of a device, and devices of targets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prune_engine.errors import TargetError
from prune_engine.hardware import load_profile
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.metaschedule.device_targets import device_target, profile_of_device, profile_target
from prune_engine.metaschedule.targets import architecture_of, gpu_limits, resolve_target

FOLDER = Path(__file__).parents[2] / "hardware_profiles"


def limits(text: str) -> tuple[str, int, int, int]:
    target = resolve_target(text, 2)
    found = gpu_limits(target)
    assert found is not None
    arch = json.loads(target)["arch"]
    return arch, found.max_threads_per_block, found.max_shared_memory_per_block_bytes, found.thread_warp_size


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("cuda/a100", "nvidia/nvidia-a100"),
        ("cuda/nvidia-a100", "nvidia/nvidia-a100"),
        ("cuda/A100", "nvidia/nvidia-a100"),
        ("cuda/t4", "nvidia/nvidia-t4"),
        ("cuda/h100", "nvidia/nvidia-h100"),
        ("cuda/k80", "nvidia/tesla-k80"),
        ("cuda/rtx-3090", "nvidia/geforce-rtx-3090"),
        ("cuda/titan-v", "nvidia/nvidia-titan-v"),
    ],
)
def test_tags_of_tvm_come_first(text: str, tag: str) -> None:
    assert device_target(text) == tag
    assert resolve_target(text, 2) == resolve_target(tag, 2)


@pytest.mark.parametrize(
    ("text", "arch"),
    [("cuda/h200", "sm_90a"), ("cuda/orin", "sm_87"), ("cuda/jetson-orin", "sm_87"), ("cuda/a100-40gb", "sm_80")],
)
def test_without_a_tag_the_profile_says_the_limits(text: str, arch: str) -> None:
    # 48 KiB, as in TVM's tags, not the larger size that a launch must ask for.
    assert limits(text) == (arch, 1024, 49152, 32)
    target = resolve_target(text, 2)
    assert resolve_target(target, 2) == target


def test_limits_are_those_of_tvms_tags() -> None:
    assert limits("cuda/a100-40gb") == limits("cuda/a100")


def test_user_profile_is_a_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (FOLDER / "nvidia-h200-sxm.yaml").read_text()
    text = text.replace("name: nvidia-h200-sxm", "name: my-gpu").replace(
        "aliases: [h200, nvidia-h200]", "aliases: []"
    )
    text = text.replace("threads_per_block: {value: 1024", "threads_per_block: {value: 512")
    (tmp_path / "mine.yaml").write_text(text)
    monkeypatch.setenv("PRUNE_ENGINE_PROFILE_PATH", str(tmp_path))
    assert limits("cuda/my-gpu") == ("sm_90a", 512, 49152, 32)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cuda/a10000", r"near it are .*cuda/a100\b"),
        ("cuda/rtx-30900", "near it are .*cuda/rtx-3090"),
        ("cuda/qqqq", "such as .*cuda/a100.*cuda/h200.*cuda/t4"),
        ("cuda/", "no such device"),
        ("cuda/mi250x", "no such device"),
    ],
)
def test_unknown_device_names_those_that_are_near(text: str, says: str) -> None:
    with pytest.raises(TargetError, match=says):
        resolve_target(text, 2)


@pytest.mark.parametrize(
    ("name", "kind", "architecture"),
    [
        ("a100", "cuda", "cuda"),
        ("h200", "cuda", "cuda"),
        ("mi250x", "rocm", "rocm"),
        ("xeon-8272cl", "llvm", "x86"),
        ("graviton2", "llvm", "arm"),
        ("m2", "llvm", "arm"),
    ],
)
def test_every_profile_with_a_compiler_name_has_a_target(name: str, kind: str, architecture: str) -> None:
    given = profile_target(ProfileRegistry().resolve(name))
    target = resolve_target(given if isinstance(given, str) else json.dumps(given), 2)
    assert json.loads(target)["kind"] == kind
    assert architecture_of(target) == architecture


def test_profiles_that_no_compiler_here_serves() -> None:
    assert profile_target(ProfileRegistry().resolve("ascend-910b")) is None


def test_profile_that_lacks_a_limit_says_which(tmp_path: Path) -> None:
    text = (FOLDER / "nvidia-h200-sxm.yaml").read_text()
    text = text.replace("threads_per_block: {value: 1024, source: CCCL}", "threads_per_block: null")
    file = tmp_path / "mine.yaml"
    file.write_text(text.replace("nvidia-h200", "mine").replace("aliases: [h200, mine]", "aliases: []"))
    with pytest.raises(TargetError, match=r"does not know limits\.threads_per_block.*--target"):
        profile_target(load_profile(file))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cuda/a100", "nvidia-a100-sxm-80gb"),
        ("nvidia/nvidia-a100", "nvidia-a100-sxm-80gb"),
        ("cuda/a100-40gb", "nvidia-a100-sxm-40gb"),
        ("nvidia/tesla-k80", "nvidia-tesla-k80"),
        ("cuda/rtx-3080", None),
        ("llvm", None),
    ],
)
def test_profile_of_a_device(text: str, name: str | None) -> None:
    found = profile_of_device(text, ProfileRegistry().profiles())
    assert (found.name if found else None) == name
