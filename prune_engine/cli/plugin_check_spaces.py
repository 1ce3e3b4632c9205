"""What rules, drafts and explorers are checked on: the kernel of a matrix product on a CPU and on a GPU.

Only real spaces have all symbols. They are made by the compiler, without a device; where that cannot be done the
testing kit's own space, which has none, is all there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial

from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.hardware.schema import DeviceKind, HardwareProfile, Limits
from prune_engine.space import DesignSpace
from prune_engine.symbols.table import SymbolDef
from prune_engine.testing.registered_contract import OPAQUE, Setting

_WORKLOAD = "gemm:64x64x64"
#: Devices of either kind that many people know, by the name of the profile that ships.
_CPU, _GPU = "intel-xeon-8272cl", "nvidia-t4"


def settings(symbols: Mapping[str, SymbolDef]) -> list[Setting]:
    """The settings of a check. ``symbols`` are the plugin's own; those that ship are there anyway."""
    registry = ProfileRegistry()
    cpu, gpu = registry.resolve(_CPU), registry.resolve(_GPU)
    on_cpu, on_gpu = (partial(_space, name, tuple(symbols.values())) for name in (_CPU, _GPU))
    return [
        OPAQUE,
        Setting("cpu", on_cpu, cpu),
        Setting("gpu", on_gpu, gpu),
        # Every number of a profile may be unknown.
        Setting("unknown-device", on_cpu, _knowing_nothing()),
    ]


@cache
def _space(profile: str, symbols: tuple[SymbolDef, ...]) -> DesignSpace:
    from prune_engine.config import EngineConfig
    from prune_engine.metaschedule.study import Study
    from prune_engine.metaschedule.study_device import StudyRequest
    from prune_engine.plugin_host.loading import OWN_DISTRIBUTION, find_plugins

    strangers = tuple({s.name for s in find_plugins(()) if s.distribution != OWN_DISTRIBUTION})
    config = EngineConfig(blocked_plugins=strangers, draft_scorer=None, verifier=None)
    study = Study(StudyRequest(_WORKLOAD, config, profile=profile), say=print)
    space = study.space(study.tasks[0])
    return replace(space, symbols={**space.symbols, **{symbol.name: symbol for symbol in symbols}})


def _knowing_nothing() -> HardwareProfile:
    unknown = dict.fromkeys(Limits.model_fields, None)
    return HardwareProfile(
        schema_version=1,
        name="unknown-device",
        kind=DeviceKind.CPU,
        core_count=None,
        clock_hz=None,
        memory=(),
        compute=(),
        limits=Limits(**unknown),
        transaction_bytes=None,
        launch_secs=None,
        combine="max",
        sources={},
    )
