"""What a search is about: a task, its space, the device, and who loads plugins for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from prune_engine.api.model_sources import Model, named
from prune_engine.api.requests import PathLike, at_least_one, path_text, study_request
from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError
from prune_engine.loop.elsewhere import ElsewhereBench
from prune_engine.plugins import PluginHost
from prune_engine.space import DesignSpace

if TYPE_CHECKING:
    from prune_engine.hardware.schema import HardwareProfile
    from prune_engine.own_kernels.own_spaces import Value
    from prune_engine.task import TuningTask

#: Kernels that an error names.
_MOST_NAMED = 12


@dataclass(frozen=True, slots=True)
class Place:
    """``is_tvm`` says that ``bench`` is a `TvmElsewhere`."""

    task: TuningTask
    space: DesignSpace
    profile: HardwareProfile
    host: PluginHost
    bench: ElsewhereBench
    is_tvm: bool


def place_of_space(
    what: DesignSpace | Mapping[str, Sequence[Value]],
    config: EngineConfig,
    given: Mapping[str, object],
    profile: PathLike | None,
    threads: int | None,
    name: str,
    symbols: Mapping[str, Any] | None,
    device: str | None,
) -> Place:
    """A space of one's own. ``given`` are options that change nothing here, None each. Raises ConfigError."""
    from prune_engine.hardware.host import usable_cpus
    from prune_engine.hardware.registry import ProfileRegistry
    from prune_engine.hardware.schema import HardwareProfile
    from prune_engine.own_kernels.given import with_symbols
    from prune_engine.own_kernels.own_spaces import own_space

    if idle := [option for option, value in given.items() if value is not None]:
        raise ConfigError(
            "without effect on a space of one's own", who=", ".join(sorted(idle)), remedy="Leave it out."
        )
    n_threads = len(usable_cpus()) if threads is None else at_least_one("threads", threads)
    if isinstance(what, DesignSpace):
        space = with_symbols(what, symbols) if symbols else what
    else:
        space = own_space(name, what, symbols)
    host = PluginHost(config)
    host.load()
    collected = host.collect("register_hardware_profiles")
    registry = ProfileRegistry([(plugin, item) for plugin, item in collected if isinstance(item, HardwareProfile)])
    chosen = registry.choose(
        "auto" if profile is None else path_text("profile", profile), n_threads=n_threads
    ).profile
    bench = ElsewhereBench(space, _device(device, chosen), n_threads)
    return Place(space.task, space, chosen, host, bench, is_tvm=False)


def place_of_model(
    what: Model,
    config: EngineConfig,
    say: Callable[[str], None],
    *,
    target: str | None,
    profile: PathLike | None,
    threads: int | None,
    shape: Mapping[str, Sequence[int]] | None,
    dim: Mapping[str, int] | None,
    task: str | None,
    symbols: Mapping[str, Any] | None,
    device: str | None,
) -> Place:
    """A kernel of TVM's. Raises ConfigError for several without ``task``, and what `Study` raises."""
    from prune_engine.hardware.host import usable_cpus
    from prune_engine.metaschedule.elsewhere import TvmElsewhere
    from prune_engine.metaschedule.study import Study
    from prune_engine.metaschedule.targets import threads_of

    with named(what) as source:
        request = study_request(
            source, config, target=target, profile=profile, threads=threads, shape=shape, dim=dim
        )
        study = Study(request, say=say)
    tasks = study.tasks_named(task)
    if len(tasks) > 1:
        listed = ", ".join(f"{number} ({one.name})" for number, one in tasks[:_MOST_NAMED])
        more = f" and {len(tasks) - _MOST_NAMED} more" if len(tasks) > _MOST_NAMED else ""
        raise ConfigError(
            "a search is about one kernel",
            who="task",
            got=f"{len(tasks)} kernels",
            expected=f"one of: {listed}{more}",
        )
    (_, one), chosen = tasks[0], study.device.profile
    space = study.space(one)
    if symbols:
        from prune_engine.own_kernels.given import with_symbols

        space = with_symbols(space, symbols)
    space = replace(space, task=one)
    n_threads = threads or threads_of(study.device.target) or len(usable_cpus())
    bench = TvmElsewhere(study.materialiser(one), space, _device(device, chosen), n_threads)
    return Place(one, space, chosen, study.host, bench, is_tvm=True)


def _device(device: str | None, profile: HardwareProfile) -> str:
    if device is not None and (not isinstance(device, str) or not device.strip()):
        raise ConfigError(
            "cannot be used", who="device", got=repr(device), expected="the name of what you measure on"
        )
    return device or profile.name
