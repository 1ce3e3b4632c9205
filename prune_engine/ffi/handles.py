"""What other languages hold: a design space, and a profile with the strategies that judge by it.

Both are Python objects behind handles, which live as long as anyone holds them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from prune_engine.candidates import CandidateBatch
from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError
from prune_engine.ffi.options import checked
from prune_engine.ffi.sessions import Session
from prune_engine.ffi.table_spaces import table_space
from prune_engine.ffi.tensors import RowLimits
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.plugin_host.blocked_names import check_blocked
from prune_engine.plugins import PluginHost
from prune_engine.space import DesignSpace
from prune_engine.strategy_set import Strategies, load_strategies

if TYPE_CHECKING:
    from prune_engine.metaschedule.embedding import TraceTexts

#: Strategies and TVM's contexts are not thread-safe, and Python runs one thread at a time anyway.
LOCK = threading.RLock()
_KINDS = ("workload", "module", "sketches")


class ProfileOptions(BaseModel):
    """Which strategies judge by a profile. ``threads`` cuts the profile ``auto`` to as many cores."""

    model_config = ConfigDict(extra="forbid", strict=True)

    threads: int | None = Field(default=None, ge=1)
    draft_scorer: str | None = "draft.symbols"
    disabled_rules: list[str] = Field(default_factory=list)
    blocked_plugins: list[str] = Field(default_factory=list)
    plugin_files: list[str] = Field(default_factory=list)


class WorkloadSource(BaseModel):
    """A kernel by name, ``gemm:512x512x512``, or of a file; ``task`` is one of several."""

    model_config = ConfigDict(extra="forbid", strict=True)

    workload: str
    target: str = "native"
    threads: int | None = Field(default=None, ge=1)
    task: str | None = None


class ModuleSource(BaseModel):
    """A kernel as an IRModule, or its text; see `prune_engine.metaschedule.embedding.module_space`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    module: Any
    target: Any = "native"
    name: str = Field(default="kernel", min_length=1)
    threads: int | None = Field(default=None, ge=1)
    traces: list[Any] | None = None
    candidates: list[Any] | None = None


class Space:
    """A design space, whoever made it. ``is_own`` is one of choice tables, whose symbols are ``declared``."""

    def __init__(
        self,
        space: DesignSpace,
        *,
        is_own: bool,
        declared: frozenset[str] = frozenset(),
        candidates: tuple[CandidateBatch, ...] = (),
        positions: tuple[tuple[int, ...], ...] = (),
        texts: TraceTexts | None = None,
    ) -> None:
        self.space, self.is_own, self.declared = space, is_own, declared
        self.candidates, self.positions, self.texts = candidates, positions, texts
        #: Rows of each variable's table, by sketch.
        self.row_limits: tuple[RowLimits, ...] = tuple(
            RowLimits(np.array([len(variable.table) for variable in sketch.variables], dtype=np.uint32))
            for sketch in space.sketches
        )


class Profile:
    """A hardware profile and the strategies that judge by it."""

    def __init__(self, name_or_path: str, options: Mapping[str, Any], who: str) -> None:
        """Load plugins and find the profile. Raises ConfigError and ProfileError."""
        chosen = checked(ProfileOptions, options, f"{who}, options")
        self.config = EngineConfig.of(
            draft_scorer=chosen.draft_scorer,
            verifier=None,
            disabled_rules=tuple(chosen.disabled_rules),
            blocked_plugins=tuple(chosen.blocked_plugins),
            plugin_files=tuple(chosen.plugin_files),
            # Nothing is measured: there are no audits, and nothing to build.
            audit_fraction=0.0,
            build_aversion=0.0,
            # A time limit takes the process's timer and ends it when a plugin never returns: both are the host's.
            hook_limit_secs=None,
            strategy_limit_secs=None,
        )
        check_blocked(self.config.blocked_plugins, self.config.plugin_files, f"{who}, blocked_plugins")
        host = PluginHost(self.config)
        host.load()
        self.strategies: Strategies = load_strategies(host, self.config)
        collected = host.collect("register_hardware_profiles")
        registry = ProfileRegistry([(name, item) for name, item in collected if isinstance(item, HardwareProfile)])
        choice = registry.choose(name_or_path, n_threads=chosen.threads)
        self.profile, self.found = choice.profile, choice.reason
        self.failed_plugins = host.failed
        self._sessions: WeakKeyDictionary[Space, Session] = WeakKeyDictionary()
        #: The space that was asked about last, and its session: most calls are about the same one.
        self._last: tuple[ref[Space], ref[Session]] | None = None

    def session(self, handle: Space) -> Session:
        """This profile's strategies on a space, which is restricted at the first call."""
        last = self._last
        if last is not None and last[0]() is handle and (found := last[1]()) is not None:
            return found
        found = self._sessions.get(handle)
        if found is None:
            space = replace(handle.space, symbols=self.strategies.symbols)
            found = Session(space, self.strategies, self.profile, self.config, is_own=handle.is_own)
            self._sessions[handle] = found
        self._last = ref(handle), ref(found)
        return found


def open_space(source: Mapping[str, Any], who: str) -> Space:
    """The space that an object describes: a ``workload``, a ``module``, or the ``sketches`` of one's own.

    Raises ConfigError, and what making the space raises.
    """
    kinds = [kind for kind in _KINDS if source.get(kind) is not None]
    if len(kinds) != 1:
        raise ConfigError(
            "which space is meant is not clear",
            who=who,
            got=", ".join(kinds or source) or "nothing",
            expected=f"one of the keys: {', '.join(_KINDS)}",
        )
    if kinds == ["sketches"]:
        own = table_space(source, who)
        return Space(own.space, is_own=True, declared=own.declared)
    return _tvm_space(source, kinds[0], who)


def _tvm_space(source: Mapping[str, Any], kind: str, who: str) -> Space:
    from prune_engine.metaschedule import embedding  # imports the compiler: only who needs it pays a second

    if kind == "workload":
        chosen = checked(WorkloadSource, source, who)
        made = embedding.workload_space(chosen.workload, chosen.target, n_threads=chosen.threads, task=chosen.task)
    else:
        module = checked(ModuleSource, source, who)
        made = embedding.module_space(
            module.module,
            module.target,
            name=module.name,
            n_threads=module.threads,
            sketches=module.traces,
            candidates=module.candidates,
        )
    return Space(
        made.space,
        is_own=False,
        candidates=made.candidates,
        positions=made.positions,
        texts=embedding.TraceTexts(made.space),
    )
