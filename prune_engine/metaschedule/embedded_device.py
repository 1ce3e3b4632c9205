"""What somebody's own TuneContext is about: its kernel as a task, its target's profile."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError, PruneEngineError
from prune_engine.hardware.fit import check_fits
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.metaschedule._compat import import_tvm, load_intrinsics
from prune_engine.metaschedule.materialise import SCHEDULE_ERRORS, last_line
from prune_engine.metaschedule.relax_tasks import task_of
from prune_engine.metaschedule.study_device import StudyDevice, StudyRequest, chosen_device
from prune_engine.option_names import python_names
from prune_engine.plugin_host.blocked_names import check_blocked
from prune_engine.plugins import PluginHost
from prune_engine.task import TuningTask

_LOG = logging.getLogger("prune_engine.metaschedule")
#: All that TVM registers on its own before it makes the first design space.
_ARCHITECTURES = ("x86", "arm", "cuda", "rocm", "hexagon", "riscv")
#: Remarks of one kind that are kept; the log has all of them.
_MAX_REMARKS = 100


class Remarks:
    """Sentences on what could not be done as asked, in their order, each once. They go to the log as warnings."""

    def __init__(self) -> None:
        self._said: dict[str, None] = {}

    def say(self, sentence: str) -> None:
        """Note a sentence."""
        if sentence not in self._said:
            if len(self._said) < _MAX_REMARKS:
                self._said[sentence] = None
            _LOG.warning(sentence)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was said."""
        return tuple(self._said)


@dataclass(frozen=True, slots=True)
class EmbeddedOptions:
    """What the drop-ins have in common.

    ``profile`` is a hardware profile, the name or file of one, or None for that of the target's device.
    ``device_name`` is what measurements are filed under in a store.
    """

    config: EngineConfig
    profile: HardwareProfile | str | None = None
    device_name: str | None = None

    @classmethod
    def of(
        cls,
        who: str,
        profile: HardwareProfile | str | None,
        config: EngineConfig | Mapping[str, object] | None,
        device_name: str | None = None,
    ) -> EmbeddedOptions:
        """Check what a user gave ``who``. Raises ConfigError."""
        if profile is not None and not isinstance(profile, HardwareProfile | str):
            raise ConfigError(
                "profile is of the wrong type",
                who=who,
                got=type(profile).__name__,
                expected="a HardwareProfile, the name or file of one, or None",
            )
        if device_name is not None and not (isinstance(device_name, str) and device_name.strip()):
            raise ConfigError(
                "device_name is none",
                who=who,
                got=repr(device_name),
                expected="the name of what TVM's runner runs on, or None",
            )
        if isinstance(config, Mapping):
            config = EngineConfig.of(**config)
        if config is not None and not isinstance(config, EngineConfig):
            raise ConfigError(
                "config is of the wrong type",
                who=who,
                got=type(config).__name__,
                expected="an EngineConfig, its options in a mapping, or None",
            )
        chosen = config or EngineConfig()
        check_blocked(chosen.blocked_plugins, chosen.plugin_files, f"{who}, blocked_plugins")
        return cls(chosen, profile, device_name)

    def seeded(self, rand_state: int) -> EngineConfig:
        """The options, with a context's seed unless they name one."""
        if "seed" in self.config.model_fields_set:
            return self.config
        return self.config.model_copy(update={"seed": rand_state % 2**31})


def prepare_compiler() -> Any:
    """Import TVM with all that it would register by itself, in about two seconds instead of ten or twenty."""
    tvm = import_tvm()
    for architecture in _ARCHITECTURES:
        load_intrinsics(architecture)
    return tvm


def device_of(target: Any, options: EmbeddedOptions, host: PluginHost, remarks: Remarks) -> StudyDevice:
    """The canonical target and the profile that a context's target stands for.

    Raises ConfigError: no target, an unknown profile, or one of another kind of device.
    """
    if target is None:
        raise ConfigError(
            "the context has no target",
            who="prune_engine in MetaSchedule",
            expected='a TuneContext with target="llvm", "nvidia/nvidia-a100", ...',
        )
    given = options.profile
    name = given if isinstance(given, str) else None
    request = StudyRequest(what="", config=options.config, target=_text_of(target), profile=name)
    with python_names():
        device = chosen_device(request, host, remarks.say)
    if isinstance(given, HardwareProfile):
        check_fits(given, device.target, remedy="Leave out profile, or give one of the target's device.")
        device = StudyDevice(device.target, given, "given by the caller")
    _warn_of_generic_code(device, remarks)
    return device


def task_in(mod: Any, name: str, target: str, remarks: Remarks) -> TuningTask | None:
    """A context's kernel as a task for a canonical target; None, with a remark, for what cannot be one."""
    try:
        task = task_of(name, 1, single_kernel(mod), target)
        if task is None:
            remarks.say(f"{name}: its shapes are not all numbers, so schedules are drawn at random")
        return task
    except (*SCHEDULE_ERRORS, AttributeError, PruneEngineError) as error:
        remarks.say(f"{name}: no kernel can be read ({last_line(str(error))}), so schedules are drawn at random")
        return None


def single_kernel(mod: Any) -> Any:
    """A module whose kernel is called main: the form that tasks have."""
    from tvm.s_tir.meta_schedule.tune_context import _normalize_mod

    return _normalize_mod(mod)


def postprocs_of(space_generator: Any) -> list[Any]:
    """The post-processors of a context."""
    return list(getattr(space_generator, "postprocs", None) or ()) if space_generator is not None else []


def _text_of(target: Any) -> str:
    """A TVM target as text: its options as JSON. A tag is not told, as TVM forgets it."""
    config = json.loads(str(target))
    config.pop("tag", None)
    return json.dumps(config)


def _warn_of_generic_code(device: StudyDevice, remarks: Remarks) -> None:
    """TVM takes a processor target without a name for the least that any such processor can do."""
    config = json.loads(device.target)
    if config["kind"] == "llvm" and "mcpu" not in config and "mattr" not in config:
        remarks.say(
            f"the target names no processor (mcpu), so code is made for a generic one; profile "
            f"{device.profile.name} is held against it all the same"
        )
