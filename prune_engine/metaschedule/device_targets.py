"""Targets by the name of a device: `cuda/a100` means TVM's tag for it, or what its hardware profile says."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from prune_engine.errors import TargetError
from prune_engine.hardware.levels import DeviceKind
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.metaschedule._compat import import_tvm

#: What a target begins with that names a device.
DEVICE_PREFIX = "cuda/"

#: Families that TVM's tags put before a device's own name.
_FAMILIES = ("", "nvidia-", "tesla-", "geforce-", "quadro-")

#: Where a processor's name is looked up, this machine's triple aside.
_TRIPLES = ("x86_64-linux-gnu", "aarch64-linux-gnu")

#: Prefix of a GPU's compiler name -> TVM's target kind and the attribute that takes the name.
_GPU_KINDS = {"sm_": ("cuda", "arch"), "gfx": ("rocm", "mcpu")}

#: Attributes of a GPU target and where a profile has them. A block gets the shared memory that no launch has to
#: ask for, as in TVM's tags.
_GPU_ATTRIBUTES = {
    "max_threads_per_block": "limits.threads_per_block",
    "max_shared_memory_per_block": "limits.shared_memory_per_block_bytes",
    "thread_warp_size": "limits.threads_per_warp",
}


def device_target(text: str) -> str | dict[str, object]:
    """What `cuda/NAME` stands for: a tag of TVM's, or a configuration made of a profile's limits.

    NAME is a tag's last part, with or without its family, or a GPU profile's name or alias.
    Raises TargetError, with names that are near, for anything else.
    """
    name = text.removeprefix(DEVICE_PREFIX).lower()
    if tag := _tag([name]):
        return tag
    profiles = [p for p in ProfileRegistry().profiles().values() if _gpu_kind(p) == "cuda"]
    for profile in profiles:
        if name in (profile.name, *profile.aliases):
            config = profile_target(profile)
            assert config is not None, "a CUDA profile has a target"
            return config
    own = [alias for profile in profiles for alias in (profile.name, *profile.aliases)]
    tags = [tag.removeprefix("nvidia/") for tag in _tags()]
    names = {*own, *tags, *(t.removeprefix(f) for t in tags for f in _FAMILIES if f)}
    close = difflib.get_close_matches(name, sorted(names), n=5, cutoff=0.5)
    shortest = sorted(min((p.name, *p.aliases), key=len) for p in profiles)
    shown = ", ".join(DEVICE_PREFIX + known for known in close or shortest)
    raise TargetError(
        "no such device",
        who=f"target {text}",
        got=repr(name),
        expected=f"the name of an NVIDIA GPU; {'near it are' if close else 'such as'} {shown}",
        remedy='Or give TVM\'s JSON: {"kind": "cuda", "arch": "sm_80", "max_threads_per_block": 1024, ...}.',
    )


def profile_target(profile: HardwareProfile) -> str | dict[str, object] | None:
    """The target that makes code for a profile's device; None where TVM has none.

    Raises TargetError for a GPU profile that does not say what a target must.
    """
    if profile.kind is DeviceKind.GPU:
        kind = _gpu_kind(profile)
        if kind is None:
            return None
        return (kind == "cuda" and _tag([profile.name, *profile.aliases])) or _from_limits(profile, kind)
    if profile.kind is DeviceKind.CPU and profile.compiler_cpu:
        codegen = import_tvm().target.codegen
        for triple in (str(codegen.llvm_get_system_triple()), *_TRIPLES):
            if codegen.llvm_is_valid_cpu(profile.compiler_cpu, triple):
                is_host = triple == codegen.llvm_get_system_triple()
                config: dict[str, object] = {"kind": "llvm", "mcpu": profile.compiler_cpu}
                return config if is_host else {**config, "mtriple": triple}
    return None


def profile_of_device(text: str, profiles: Mapping[str, HardwareProfile]) -> HardwareProfile | None:
    """The profile of the device that a target names (`cuda/a100`, or TVM's tag), if there is one."""
    name = text.lower().removeprefix(DEVICE_PREFIX).removeprefix("nvidia/")
    wanted = {name, *(name.removeprefix(family) for family in _FAMILIES if family)}
    for profile in profiles.values():
        if _gpu_kind(profile) == "cuda" and wanted & {profile.name, *profile.aliases}:
            return profile
    return None


def _from_limits(profile: HardwareProfile, kind: str) -> dict[str, object]:
    attributes: dict[str, object] = {name: profile.value(path) for name, path in _GPU_ATTRIBUTES.items()}
    if unknown := [_GPU_ATTRIBUTES[name] for name, value in attributes.items() if value is None]:
        raise TargetError(
            f"no target can be made of it, since it does not know {', '.join(unknown)}",
            who=f"profile {profile.name}",
            remedy="Give the target by --target.",
        )
    attribute = next(attribute for of_kind, attribute in _GPU_KINDS.values() if of_kind == kind)
    threads = attributes["max_threads_per_block"]
    return {"kind": kind, attribute: profile.compiler_cpu, "max_num_threads": threads, **attributes}


def _gpu_kind(profile: HardwareProfile) -> str | None:
    """TVM's kind of a GPU, None for other devices."""
    name = profile.compiler_cpu or ""
    if profile.kind is not DeviceKind.GPU:
        return None
    return next((kind for prefix, (kind, _) in _GPU_KINDS.items() if name.startswith(prefix)), None)


def _tag(names: Iterable[str]) -> str | None:
    """TVM's tag of a device that goes by these names."""
    known = set(_tags())
    found = (f"nvidia/{family}{name}" for name in names for family in _FAMILIES)
    return next((tag for tag in found if tag in known), None)


def _tags() -> list[str]:
    import_tvm()
    from tvm.target import list_tags

    return sorted(str(tag) for tag in list_tags() if str(tag).startswith("nvidia/"))
