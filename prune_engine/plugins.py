"""Load plugins and call their hooks, plugin by plugin, so that one that fails is recorded and set aside.

pluggy calls a hook last-in-first-out, returns results without the plugin's name and stops at the first
exception. Here every plugin is called by itself, in the order of the names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import TypeVar

import pluggy

from prune_engine import hookspecs
from prune_engine.config import EngineConfig
from prune_engine.errors import PluginContractError, PluginError, PluginTimeoutError, PruneEngineError
from prune_engine.plugin_host import call_guard
from prune_engine.plugin_host.loading import (
    OWN_DISTRIBUTION,
    PluginSource,
    describe,
    find_plugins,
    missing_dependency,
)
from prune_engine.plugin_host.registrations import (
    RegistrationError,
    check_item,
    check_items,
    explain_validation,
    hook_names,
    implemented_hooks,
    offered_arguments,
    spec_arguments,
)
from prune_engine.plugin_host.versions import attribute_misfit, requirement_misfit
from prune_engine.strategies import Strategy

T = TypeVar("T")

#: Hooks without a time limit: a store may wait for a lock, and must not be cut off in the middle of its work.
_UNLIMITED = ("open_store",)
#: What a plugin may raise without stopping us. A KeyboardInterrupt is the user's, so it is not among them.
_FAILURES = (Exception, SystemExit)


class PluginStatus(Enum):
    """What became of a plugin."""

    LOADED = "loaded"
    BLOCKED = "blocked"  #: not even imported, because the configuration says so
    FAILED = "failed"
    UNAVAILABLE = "unavailable"  #: imports something that is not installed
    INCOMPATIBLE = "incompatible"  #: made for other versions of the engine


@dataclass(frozen=True, slots=True)
class PluginRecord:
    """A plugin as the host sees it.

    ``detail`` says why it failed, or how to install what it misses; of several failures it holds the first few,
    and ``latest`` the newest of these alone. ``version`` and ``distribution`` are None for plugins that do not come
    from an installed distribution.
    """

    name: str
    version: str | None
    distribution: str | None
    hooks: tuple[str, ...]
    status: PluginStatus
    detail: str = ""
    latest: str = ""

    @property
    def summary(self) -> str:
        """Status and detail in one phrase."""
        return f"{self.status.value}: {self.detail}" if self.detail else self.status.value

    @property
    def news(self) -> str:
        """Status and the newest failure in one phrase: for whoever was told of the earlier ones."""
        return f"{self.status.value}: {self.latest}" if self.latest else self.status.value


#: Different failures of a plugin that are told: in a long run one could have a new message every time.
_MAX_TOLD = 8
_AND_OTHERS = "and others, which are not told"


class PluginHost:
    """The plugins of one engine. Nothing is shared between hosts.

    A plugin that fails is recorded, set aside (its hooks are not called again) and told of to the others;
    with ``config.strict`` it raises PluginError instead.
    """

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._hooks = frozenset(hook_names(self._manager))
        self._records: dict[str, PluginRecord] = {}
        #: Why each plugin failed, as far as that was told.
        self._whys: dict[str, list[str]] = {}
        self._history: list[tuple[str, Mapping[str, object]]] = []
        #: Strategy name -> the plugin and the hook it came from.
        self._owners: dict[str, tuple[str, str]] = {}
        #: Plugins whose hooks are not called any more.
        self._aside: set[str] = set()
        #: Plugin and hook of notifications that raised: recorded once, not every time.
        self._broken_observers: set[tuple[str, str]] = set()
        self._is_loaded = False

    @property
    def records(self) -> tuple[PluginRecord, ...]:
        """Every plugin that was found or registered, by name; failed and blocked ones too."""
        return tuple(self._records[name] for name in sorted(self._records))

    @property
    def failed(self) -> tuple[PluginRecord, ...]:
        """Those that are done without, wholly or in part: they failed, miss something or are for another engine."""
        without = (PluginStatus.FAILED, PluginStatus.UNAVAILABLE, PluginStatus.INCOMPATIBLE)
        return tuple(record for record in self.records if record.status in without)

    def plugin(self, name: str) -> object | None:
        """What was registered under a name: a module or an object; None where it failed or was blocked."""
        found: object | None = self._manager.get_plugin(name)
        return found

    def load(self) -> None:
        """Import and register installed plugins and plugin files, once; later calls do nothing.

        Blocked plugins are not imported. Raises ConfigError for a plugin file that does not exist, and
        PluginError with ``config.strict``.
        """
        if self._is_loaded:
            return
        self._is_loaded = True
        for source in list(find_plugins(self._config.plugin_files)):
            self._load(source)

    def register(self, plugin: object, name: str) -> None:
        """Register a plugin object (a module, or an instance with hook methods) under a name.

        A blocked name is recorded as such and otherwise ignored. Raises PluginError for a name in use.
        """
        if name in self._records:
            raise PluginError("two plugins of one name", who=f"plugin {name!r}", remedy="Rename one of them.")
        self._register(PluginRecord(name, None, None, (), PluginStatus.LOADED), lambda: plugin)

    def collect(self, hook: str, /, **arguments: object) -> list[tuple[str, object]]:
        """Call a hook that returns iterables: (plugin name, object) pairs, plugin by plugin by name.

        Of a plugin whose call raises, also half way through its iterable, or that returns something the
        hook is not for, nothing is taken.
        """
        collected: list[tuple[str, object]] = []
        for impl in self._implementations(hook, arguments):
            try:
                items = self._called(impl, hook, partial(_items, hook, impl, arguments))
                self._claim_names(impl.plugin_name, hook, items)
            except _FAILURES as error:  # the plugin boundary: recorded, not swallowed
                self._set_aside(impl.plugin_name, _why(error, hook), error)
            else:
                collected.extend((impl.plugin_name, item) for item in items)
        return collected

    def first(self, hook: str, /, **arguments: object) -> object | None:
        """Call plugins by name until one returns something, and return that; None if none does.

        A PruneEngineError passes through: the plugin answered for this input, and the answer is an error
        (a store that is locked, say), which asking the next plugin would hide.
        """
        for impl in self._implementations(hook, arguments):
            try:
                answer = self._called(impl, hook, partial(_invoke, impl, arguments))
                if answer is not None:
                    check_item(hook, answer)
                    return answer
            except PluginTimeoutError as error:
                self._set_aside(impl.plugin_name, _why(error, hook), error)
            except PruneEngineError:
                raise
            except _FAILURES as error:  # the plugin boundary: recorded, not swallowed
                self._set_aside(impl.plugin_name, _why(error, hook), error)
        return None

    def notify(self, hook: str, /, **arguments: object) -> None:
        """Tell every plugin. One that raises is recorded as failed, but told again next time.

        What a historic hook was told is repeated to plugins registered later.
        """
        implementations = list(self._implementations(hook, arguments))
        if self._caller(hook).is_historic():
            self._history.append((hook, arguments))
        for impl in implementations:
            self._tell(impl, hook, arguments)

    def fail(self, plugin: str, why: str, *, cause: BaseException | None = None) -> None:
        """Record, on behalf of the engine, that a plugin's strategy failed and was set aside.

        The plugin's other strategies and its hooks go on. What was recorded already is not told again, nor is more
        than a few different failures of one plugin. Raises PluginError with ``config.strict``.
        """
        self._record_failure(plugin, why, cause)

    def _load(self, source: PluginSource) -> None:
        name = source.name
        record = PluginRecord(name, source.version, source.distribution, (), PluginStatus.LOADED)
        if name in self._records:
            key = f"{name} ({source.distribution or source.module})"
            self._records[key] = replace(record, name=key)
            taken_by = self._records[name].distribution
            whose = f", that of {taken_by}, which is used" if taken_by else ""
            self._set_aside(key, f"the name {name!r} is taken by another plugin{whose}", None)
            return
        self._register(record, source.load, source)

    def _register(
        self, record: PluginRecord, load: Callable[[], object], source: PluginSource | None = None
    ) -> None:
        name = record.name
        if name in self._config.blocked_plugins:
            self._records[name] = replace(record, status=PluginStatus.BLOCKED)
            return
        self._records[name] = record
        misfit = requirement_misfit(source.distribution, source.requires) if source else None
        if misfit:  # not imported: what it needs may not be there any more
            self._set_aside(name, misfit, None, PluginStatus.INCOMPATIBLE)
            return
        try:
            plugin = call_guard.call(f"plugin {name!r}", self._config.hook_limit_secs, load)
            misfit = attribute_misfit(plugin)
            if not misfit:
                self._records[name] = replace(record, hooks=implemented_hooks(self._manager, plugin))
                self._manager.register(plugin, name)
        except _FAILURES as error:  # the plugin boundary: recorded, not swallowed
            install = missing_dependency(source, error) if source else None
            if install:
                self._set_aside(name, install, error, PluginStatus.UNAVAILABLE)
            else:
                self._set_aside(name, _why(error), error)
            return
        if misfit:
            self._set_aside(name, misfit, None, PluginStatus.INCOMPATIBLE)
            return
        for hook, arguments in tuple(self._history):
            for impl in self._implementations(hook, arguments):
                if impl.plugin_name == name:
                    self._tell(impl, hook, arguments)

    def _called(self, impl: pluggy.HookImpl, hook: str, invoke: Callable[[], T]) -> T:
        limit_secs = None if hook in _UNLIMITED else self._config.hook_limit_secs
        return call_guard.call(f"plugin {impl.plugin_name!r}, {hook}", limit_secs, invoke)

    def _caller(self, hook: str) -> pluggy.HookCaller:
        caller: pluggy.HookCaller = getattr(self._manager.hook, hook)
        return caller

    def _implementations(self, hook: str, arguments: Mapping[str, object]) -> Iterator[pluggy.HookImpl]:
        """Implementations of a hook, ours first, then by plugin name; not of plugins set aside meanwhile.

        Of two strategies of one name the later one loses, and that must never be one that keeps a run sound.
        """
        if hook not in self._hooks:
            raise ValueError(f"there is no hook {hook!r}")
        if set(arguments) != set(spec_arguments(hook)):
            raise TypeError(f"{offered_arguments(hook)}; called with: {', '.join(arguments) or 'none'}")
        implementations = sorted(
            self._caller(hook).get_hookimpls(),
            key=lambda i: (not self._is_ours(i.plugin_name), i.plugin_name, i.function.__name__),
        )
        return (impl for impl in implementations if impl.plugin_name not in self._aside)

    def _is_ours(self, plugin: str) -> bool:
        record = self._records.get(plugin)
        return record is not None and record.distribution == OWN_DISTRIBUTION

    def _claim_names(self, plugin: str, hook: str, items: list[object]) -> None:
        """Remember whose the strategies' names are. Raises RegistrationError if one is somebody else's."""
        names = [item.name for item in items if isinstance(item, Strategy)]
        for position, name in enumerate(names):
            if name in names[:position]:
                raise RegistrationError(f"{hook} returned two strategies named {name!r}")
            owner = self._owners.get(name, (plugin, hook))
            if owner != (plugin, hook):
                raise RegistrationError(
                    f"strategy {name!r} of {hook} has the name of one from plugin {owner[0]!r} ({owner[1]}), "
                    "which is used; rename yours"
                )
        self._owners.update((name, (plugin, hook)) for name in names)

    def _tell(self, impl: pluggy.HookImpl, hook: str, arguments: Mapping[str, object]) -> None:
        plugin = impl.plugin_name
        try:
            self._called(impl, hook, partial(_invoke, impl, arguments))
        except PluginTimeoutError as error:  # it would hang again: not told any more
            self._set_aside(plugin, _why(error, hook), error)
        except _FAILURES as error:  # the plugin boundary: recorded, not swallowed
            is_first = (plugin, hook) not in self._broken_observers
            self._broken_observers.add((plugin, hook))
            if is_first or self._config.strict:
                self._record_failure(plugin, _why(error, hook), error)

    def _set_aside(
        self,
        plugin: str,
        why: str,
        cause: BaseException | None,
        status: PluginStatus = PluginStatus.FAILED,
    ) -> None:
        self._aside.add(plugin)
        self._record_failure(plugin, why, cause, status)

    def _record_failure(
        self,
        plugin: str,
        why: str,
        cause: BaseException | None,
        status: PluginStatus = PluginStatus.FAILED,
    ) -> None:
        before = self._records.get(plugin) or PluginRecord(plugin, None, None, (), PluginStatus.LOADED)
        whys = self._whys.setdefault(plugin, [])
        is_news = why not in whys and len(whys) <= _MAX_TOLD
        if is_news:
            whys.append(why if len(whys) < _MAX_TOLD else _AND_OTHERS)
        record = replace(before, status=status, detail="; ".join(whys), latest=whys[-1])
        self._records[plugin] = record
        if self._config.strict:
            remedy = "Repair or install it, leave it out (blocked_plugins), or run without strict."
            raise PluginError(f"{status.value}: {why}", who=f"plugin {plugin!r}", remedy=remedy) from cause
        if is_news:
            self.notify("plugin_failed", record=record)


def _invoke(impl: pluggy.HookImpl, arguments: Mapping[str, object]) -> object:
    """Call one implementation with the arguments it names, as pluggy would."""
    return impl.function(*(arguments[name] for name in impl.argnames))


def _items(hook: str, impl: pluggy.HookImpl, arguments: Mapping[str, object]) -> list[object]:
    """What an implementation returns, consumed: a generator runs only now."""
    return check_items(hook, _invoke(impl, arguments))


def _why(error: BaseException, hook: str | None = None) -> str:
    if isinstance(error, RegistrationError):
        return str(error)
    if isinstance(error, PluginTimeoutError):
        return f"{hook or 'importing it'} {error.problem}"
    if isinstance(error, PluginContractError) and error.__cause__ is not None:
        error = error.__cause__  # what the plugin raised was no Exception
    if isinstance(error, pluggy.PluginValidationError):
        return explain_validation(error)
    return f"{hook} raised {describe(error)}" if hook else describe(error)
