"""What every plugin must do, whatever it registers, as a pytest class. Subclass it and give it your plugin.

class TestMyPlugin(PluginContract):
    @pytest.fixture
    def plugin(self):
        return my_plugin  # the module, or an object with hooks

Hooks that a plugin does not implement are not tested. Its strategies have contract classes of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import cast

import numpy as np
import pytest

from prune_engine.cli.app import make_app
from prune_engine.config import EngineConfig
from prune_engine.errors import PruneEngineError, SpaceError
from prune_engine.library.entries import LibraryQuery
from prune_engine.lifecycle import EngineInfo, PruneSummary, TaskSummary
from prune_engine.plugin_host.loading import OWN_DISTRIBUTION
from prune_engine.plugins import PluginHost, PluginRecord, PluginStatus
from prune_engine.strategies import Library, Strategy
from prune_engine.symbols.builtin import BUILTIN_SYMBOLS
from prune_engine.symbols.table import SymbolDef, compute_column
from prune_engine.testing.builders import make_batch, make_task
from prune_engine.testing.hot_path import check_no_row_loop
from prune_engine.verdicts import Outcome, Stage, Verdict

#: Hooks that return strategies.
STRATEGY_HOOKS = (
    "register_rules",
    "register_explorers",
    "register_draft_scorers",
    "register_verifiers",
    "register_selectors",
    "register_transfers",
)
_REGISTERING = (*STRATEGY_HOOKS, "register_libraries", "register_symbols")
#: What an engine may be told before it asks for strategies.
_CONFIGS: Sequence[Mapping[str, object]] = (
    {},
    {"seed": 7},
    {"strict_fp": True},
    {"prior": "none", "verifier": None, "draft_scorer": None},
)


class PluginContract:
    """Override ``plugin``; override ``plugin_name`` if its name decides who wins of two equal names."""

    @pytest.fixture
    def plugin(self) -> object:
        """The plugin under test: a module, or an object with hooks."""
        raise NotImplementedError("give the contract a plugin")

    @pytest.fixture
    def plugin_name(self) -> str:
        """What its entry point calls it."""
        return "the plugin"

    @pytest.fixture
    def host(self, plugin: object, plugin_name: str) -> PluginHost:
        """A host of this plugin alone."""
        host = PluginHost(EngineConfig())
        host.register(plugin, plugin_name)
        return host

    def test_is_accepted(self, host: PluginHost) -> None:
        """Made for this engine, with at least one hook, all of them known and taking known arguments."""
        for record in host.records:
            assert record.status is PluginStatus.LOADED, record.summary

    @pytest.mark.parametrize("hook", _REGISTERING)
    def test_registers_the_same_every_time(self, host: PluginHost, hook: str) -> None:
        """Whatever the options are, it returns what the hook is for, with names; asked again, of the same names."""
        for options in _CONFIGS:
            config = EngineConfig.of(**options)
            with _unharmed(host):
                first, again = ([name_of(item) for _, item in host.collect(hook, config=config)] for _ in "12")
            assert first == again, f"{hook} returned {first}, and asked again {again}"

    @pytest.mark.parametrize("hook", ["register_explorers", "register_draft_scorers", "register_verifiers"])
    def test_engines_share_no_strategy(self, host: PluginHost, hook: str) -> None:
        """Each call makes a new object of what learns: two engines in one program are strangers."""
        first, again = ([item for _, item in host.collect(hook, config=EngineConfig())] for _ in "12")
        shared = {name_of(item) for item in first if any(item is other for other in again)}
        assert not shared, f"{hook} returned the same object twice: {', '.join(sorted(shared))}"

    def test_names_are_its_own(self, plugin: object, plugin_name: str, host: PluginHost) -> None:
        """No strategy has the name of one from another installed plugin: of two, one is not used."""
        mine = {name for name, _ in strategies_of(host)}
        others = PluginHost(EngineConfig())
        others.load()
        owners = {
            name: others_name
            for name, others_name in strategies_of(others)
            if not _is_same(others.plugin(others_name), plugin)
        }
        clashes = [
            f"{name} is also one of plugin {owners[name]!r}: "
            f"that of {_winner(others, owners[name], plugin_name)} is used"
            for name in sorted(mine & set(owners))
        ]
        assert not clashes, "; ".join(clashes)

    def test_symbols_are_columns(self, host: PluginHost) -> None:
        """float64 or int64 (n,) for batches of any length, without a loop over candidates; a name of its own."""
        built_in = {symbol.name for symbol in BUILTIN_SYMBOLS}
        for symbol in _symbols(host):
            assert symbol.name not in built_in, f"{symbol.name} is the name of a symbol that ships"
            for n in (0, 1, 100):
                with _nothing_to_read():
                    compute_column(symbol, make_batch(100).take(np.arange(n)))
            with _nothing_to_read():
                check_no_row_loop(symbol, symbol.compute, make_batch(64))

    @pytest.mark.parametrize("target", ["", "no-such-device", "llvm -mcpu=no-such-cpu", "\x00"])
    def test_unknown_targets_are_left_to_others(self, host: PluginHost, target: str) -> None:
        """``resolve_hardware_profile`` returns None for a device that nobody knows, or says what is wrong."""
        with _unharmed(host), _own_words():
            found = host.first("resolve_hardware_profile", target=target, profiles={})
            assert found is None, f"gave a profile for the target {target!r}"

    @pytest.mark.parametrize("url", ["", "no-such-scheme://x", "no scheme at all"])
    def test_unknown_stores_are_left_to_others(self, host: PluginHost, url: str) -> None:
        """``open_store`` returns None for a URL that is not its own, or says what is wrong."""
        with _unharmed(host), _own_words():
            assert host.first("open_store", url=url) is None, f"opened a store for the URL {url!r}"

    def test_explains_without_a_trail(self, host: PluginHost) -> None:
        """``explain_candidate`` is asked of candidates of which nothing, or next to nothing, is known."""
        for trail in ((), (Verdict(Stage.RULE, "no.such-rule", Outcome.DROPPED, ""),)):
            with _unharmed(host):
                host.collect("explain_candidate", task=make_task(), trail=trail)

    def test_bears_what_it_is_told(self, host: PluginHost) -> None:
        """Notifications may tell of empty batches, failed tasks and other plugins' failures."""
        task = make_task()
        nothing = TaskSummary(task.task_id, task.name, 1, 1, 0, 0, 0, {}, None, None, "", "default_failed")
        with _unharmed(host):
            host.notify("engine_started", info=EngineInfo("0.1.0", "run", "device", 1, "profile", 0))
            host.notify(
                "plugin_failed", record=PluginRecord("other", None, None, (), PluginStatus.FAILED, "planted")
            )
            host.notify("task_started", task=task)
            host.notify("batch_pruned", task=task, summary=PruneSummary(0, 0, (), 0.0))
            host.notify("batch_measured", task=task, measured=())
            host.notify("task_finished", task=task, summary=nothing)

    def test_adds_verbs_and_replaces_none(self, host: PluginHost) -> None:
        """``register_commands`` leaves the verbs that ship as they are."""
        cli = make_app()

        def verbs() -> list[str]:
            commands, groups = cli.registered_commands, cli.registered_groups
            return [str(command.name) for command in commands] + [str(group.name) for group in groups]

        before = verbs()
        with _unharmed(host):
            host.notify("register_commands", cli=cli)
        assert set(before) <= set(verbs()), "a verb that ships is gone"
        doubled = sorted(verb for verb in set(before) if verbs().count(verb) > 1)
        assert not doubled, f"adds verbs that there are: {', '.join(doubled)}"

    def test_libraries_find_nothing_of_strangers(self, host: PluginHost) -> None:
        """A library asked for a kernel that it does not have returns nothing; it is no error."""
        for _, item in host.collect("register_libraries", config=EngineConfig()):
            library = cast(Library, item)
            assert not library.find(LibraryQuery(anchor="no such kernel")), "found a kernel that there is not"
            assert len(library.find(LibraryQuery(limit=1))) <= 1, "found more than the limit"

    def test_profiles_have_names_of_their_own(self, host: PluginHost) -> None:
        """``register_hardware_profiles`` returns profiles of distinct names."""
        with _unharmed(host):
            found = [getattr(profile, "name", "") for _, profile in host.collect("register_hardware_profiles")]
        assert len(set(found)) == len(found), f"two profiles of one name: {found}"


#: Contract test -> the hooks it is about; the others are about every plugin.
TESTS_OF_HOOKS: Mapping[str, Sequence[str]] = {
    "test_engines_share_no_strategy": ("register_explorers", "register_draft_scorers", "register_verifiers"),
    "test_names_are_its_own": STRATEGY_HOOKS,
    "test_registers_the_same_every_time": _REGISTERING,
    "test_symbols_are_columns": ("register_symbols",),
    "test_unknown_targets_are_left_to_others": ("resolve_hardware_profile",),
    "test_unknown_stores_are_left_to_others": ("open_store",),
    "test_explains_without_a_trail": ("explain_candidate",),
    "test_bears_what_it_is_told": (
        "engine_started",
        "plugin_failed",
        "task_started",
        "batch_pruned",
        "batch_measured",
        "task_finished",
    ),
    "test_adds_verbs_and_replaces_none": ("register_commands",),
    "test_libraries_find_nothing_of_strangers": ("register_libraries",),
    "test_profiles_have_names_of_their_own": ("register_hardware_profiles",),
}


def strategies_of(host: PluginHost) -> Iterator[tuple[str, str]]:
    """Name and plugin of each strategy that a host's plugins register."""
    for hook in STRATEGY_HOOKS:
        for plugin, item in host.collect(hook, config=EngineConfig()):
            yield cast(Strategy, item).name, plugin


def name_of(item: object) -> str:
    """A strategy's or a symbol's name; the class of what has none."""
    return str(getattr(item, "name", type(item).__name__))


def _symbols(host: PluginHost) -> Iterator[SymbolDef]:
    for _, item in host.collect("register_symbols", config=EngineConfig()):
        yield cast(SymbolDef, item)


def _is_same(one: object, other: object) -> bool:
    """Whether a plugin that is installed is the one under test, which may have been imported from its file."""
    file = getattr(one, "__file__", None)
    return one is other or (file is not None and file == getattr(other, "__file__", None))


def _winner(others: PluginHost, owner: str, mine: str) -> str:
    is_ours = any(r.name == owner and r.distribution == OWN_DISTRIBUTION for r in others.records)
    return repr(owner if is_ours else min(owner, mine))


@contextmanager
def _unharmed(host: PluginHost) -> Iterator[None]:
    """Assert that the host has not set the plugin aside, nor recorded a failure."""
    yield
    for record in host.failed:
        raise AssertionError(record.detail)


@contextmanager
def _own_words() -> Iterator[None]:
    """An error of the engine's own kind is an answer: it says what is wrong."""
    with suppress(PruneEngineError):
        yield


@contextmanager
def _nothing_to_read() -> Iterator[None]:
    """The kit's spaces have no loop nests: a symbol that needs them says so."""
    with suppress(SpaceError):
        yield
