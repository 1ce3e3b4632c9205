"""Which target and which hardware profile a study is about: what is not given follows from the other."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError, TargetError
from prune_engine.hardware.fit import check_fits
from prune_engine.hardware.host import usable_cpus
from prune_engine.hardware.levels import DeviceKind
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.hardware.schema import Count, HardwareProfile, Limits
from prune_engine.metaschedule.device_targets import profile_of_device, profile_target
from prune_engine.metaschedule.targets import gpu_limits, make_target, resolve_target
from prune_engine.plugins import PluginHost

_AUTO = "auto"
_OF_TARGET = "the target's limits"


@dataclass(frozen=True, slots=True)
class StudyRequest:
    """What is looked at. ``target`` None is the profile's; ``profile`` None is that of the target's device.

    ``n_threads`` None is the profile's cores, or this machine's for a target without a profile.
    """

    what: str
    config: EngineConfig
    target: str | None = None
    profile: str | None = None
    n_threads: int | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StudyDevice:
    """A canonical target and the profile of its device; ``reason`` says where the profile came from."""

    target: str
    profile: HardwareProfile
    reason: str


def chosen_device(request: StudyRequest, host: PluginHost, say: Callable[[str], None]) -> StudyDevice:
    """The device that is asked for; ``say`` is told what it stands in for. Raises ConfigError."""
    if (request.target or "").strip() == "cuda":
        raise TargetError("which GPU? Name it, such as cuda/a100", who="target cuda")
    device = _device(request, host, say)
    kind = make_target(device.target).kind.name
    if request.n_threads is not None and kind != "llvm":
        raise ConfigError(f"without effect on target {kind}", who="--threads", remedy="Leave it out.")
    if request.target:
        check_fits(device.profile, device.target, remedy="Leave out --profile, or name one of the target's device.")
    return device


def _device(request: StudyRequest, host: PluginHost, say: Callable[[str], None]) -> StudyDevice:
    collected = host.collect("register_hardware_profiles")
    registry = ProfileRegistry([(name, item) for name, item in collected if isinstance(item, HardwareProfile)])
    if request.profile is not None and request.profile != _AUTO:
        choice = registry.choose(request.profile, n_threads=_threads(request))
        text = request.target or _text_of(profile_target(choice.profile))
        if text is None:
            say(
                f"the compiler has no target for profile {choice.profile.name}: "
                "its rules judge the spaces of this machine's processor"
            )
        target = _resolved(text or "native", _threads(request, choice.profile if text else None), request)
        return StudyDevice(target, choice.profile, choice.reason)
    text = request.target or "native"
    target = _resolved(text, _threads(request), request)
    profiles = registry.profiles()
    chosen = host.first("resolve_hardware_profile", target=target, profiles=profiles)
    if isinstance(chosen, HardwareProfile):
        return StudyDevice(target, chosen, "chosen by a plugin")
    if request.profile == _AUTO or make_target(target).kind.name == "llvm":
        choice = registry.choose(_AUTO, n_threads=_threads(request))
        return StudyDevice(target, choice.profile, choice.reason)
    if named := profile_of_device(text, profiles):
        return StudyDevice(target, named, f"named by target {text}")
    return StudyDevice(target, _profile_of_target(text, target), f"made of {_OF_TARGET}: no profile has its name")


def _threads(request: StudyRequest, profile: HardwareProfile | None = None) -> int:
    cores = profile.core_count if profile and profile.kind is DeviceKind.CPU else None
    return request.n_threads or (cores.value if cores else len(usable_cpus()))


def _resolved(text: str, n_threads: int, request: StudyRequest) -> str:
    if request.n_threads is not None:
        return resolve_target(text, n_threads)
    with warnings.catch_warnings():  # nothing runs here, so what the target says of its cores is right
        warnings.simplefilter("ignore")
        return resolve_target(text, n_threads)


def _text_of(target: str | Mapping[str, object] | None) -> str | None:
    return target if target is None or isinstance(target, str) else json.dumps(target)


def _profile_of_target(text: str, target: str) -> HardwareProfile:
    """A profile that knows what the target says, and nothing else."""
    limits = gpu_limits(target)

    def count(value: int | None) -> Count | None:
        return Count(value=value, source="target") if value else None

    return HardwareProfile(
        schema_version=1,
        name="target",
        kind=DeviceKind.GPU,
        description=text,
        core_count=None,
        clock_hz=None,
        memory=(),
        compute=(),
        limits=Limits(
            vector_bytes=None,
            threads_per_warp=count(limits.thread_warp_size if limits else None),
            threads_per_block=count(limits.max_threads_per_block if limits else None),
            threads_per_core=None,
            registers_per_block=None,
            shared_memory_per_block_bytes=count(limits.max_shared_memory_per_block_bytes if limits else None),
        ),
        transaction_bytes=None,
        launch_secs=None,
        combine="max",
        sources={"target": f"{_OF_TARGET}: {text}"},
    )
