"""Every hook is documented, typed, and called: a hook added without its test fails here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from prune_engine import hookspecs
from prune_engine.config import EngineConfig
from prune_engine.hookspecs import hookimpl
from prune_engine.library.files import LibraryFile
from prune_engine.lifecycle import EngineInfo, PruneSummary
from prune_engine.plugin_host.registrations import RETURNS
from prune_engine.plugins import PluginHost, PluginRecord, PluginStatus
from prune_engine.strategies import DraftScorer, Explorer, Rule, ScheduleTransfer, Selector, Verifier
from prune_engine.symbols.table import SymbolDef
from prune_engine.testing import make_profile, make_task
from prune_engine.verdicts import Outcome, Stage, Verdict

HOOKS = sorted(
    name
    for name, function in vars(hookspecs).items()
    if hasattr(function, f"{hookspecs.PROJECT}_spec") and inspect.isfunction(function)
)
HOOK_REFERENCE = Path(__file__).parents[1] / "docs" / "plugins.md"


def host_with(hook: str, implementation: Callable[..., object]) -> PluginHost:
    """A host with one plugin that implements one hook by a function of exactly the hook's arguments."""
    implementation.__name__ = hook
    plugin = type("Plugin", (), {hook: staticmethod(hookimpl(implementation))})()
    host = PluginHost(EngineConfig())
    host.register(plugin, "acme")
    assert host.records[0].status is PluginStatus.LOADED, host.records[0].detail
    return host


def concrete(kind: type) -> object:
    """An instance of a strategy's base class whose abstract methods are never called."""
    methods = {name: lambda self: None for name in getattr(kind, "__abstractmethods__", ())}
    return type("Concrete", (kind,), {"name": "acme.x", **methods})()


class TestEveryHook:
    def test_there_are_hooks(self) -> None:
        assert len(HOOKS) >= 18

    @pytest.mark.parametrize("hook", HOOKS)
    def test_has_a_test_here(self, hook: str) -> None:
        assert f"test_{hook}" in globals(), f"write test_{hook}"

    @pytest.mark.parametrize("hook", HOOKS)
    def test_says_what_it_is_for(self, hook: str) -> None:
        text = inspect.getdoc(getattr(hookspecs, hook)) or ""
        assert len(text) > 30
        assert text.endswith("."), "a sentence ends with a full stop"

    @pytest.mark.parametrize("hook", HOOKS)
    def test_is_in_the_reference_with_its_arguments(self, hook: str) -> None:
        arguments = ", ".join(inspect.signature(getattr(hookspecs, hook)).parameters)
        assert f"`{hook}({arguments})`" in HOOK_REFERENCE.read_text(encoding="utf-8")

    @pytest.mark.parametrize("hook", HOOKS)
    def test_arguments_are_plain_and_typed(self, hook: str) -> None:
        signature = inspect.signature(getattr(hookspecs, hook))
        assert signature.return_annotation is not inspect.Signature.empty
        for parameter in signature.parameters.values():
            # pluggy does not see keyword-only ones, and would not pass those with a default.
            assert parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
            assert parameter.default is inspect.Parameter.empty
            assert parameter.annotation is not inspect.Parameter.empty

    @pytest.mark.parametrize("hook", HOOKS)
    def test_what_it_returns_is_checked(self, hook: str) -> None:
        returned = str(inspect.signature(getattr(hookspecs, hook)).return_annotation)
        if hook in RETURNS:
            assert RETURNS[hook].__name__ in returned
        else:
            assert returned == "None", f"add {hook} to RETURNS"


def check_strategies(hook: str, kind: type) -> None:
    strategy, config, given = concrete(kind), EngineConfig(seed=3), []

    def implementation(config: EngineConfig) -> Iterable[object]:
        given.append(config)
        return (strategy,)

    assert host_with(hook, implementation).collect(hook, config=config) == [("acme", strategy)]
    assert given == [config]


def test_register_rules() -> None:
    check_strategies("register_rules", Rule)


def test_register_explorers() -> None:
    check_strategies("register_explorers", Explorer)


def test_register_draft_scorers() -> None:
    check_strategies("register_draft_scorers", DraftScorer)


def test_register_verifiers() -> None:
    check_strategies("register_verifiers", Verifier)


def test_register_selectors() -> None:
    check_strategies("register_selectors", Selector)


def test_register_transfers() -> None:
    check_strategies("register_transfers", ScheduleTransfer)


def test_register_libraries() -> None:
    library, config, given = LibraryFile(Path("none.jsonl")), EngineConfig(seed=3), []

    def implementation(config: EngineConfig) -> Iterable[LibraryFile]:
        given.append(config)
        return (library,)

    assert host_with("register_libraries", implementation).collect("register_libraries", config=config) == [
        ("acme", library)
    ]
    assert given == [config]


def test_register_symbols() -> None:
    symbol = SymbolDef("acme.n", "1", "number of candidates", "here", lambda batch: np.ones(len(batch)))

    def implementation(config: EngineConfig) -> Iterable[SymbolDef]:
        return [symbol]

    host = host_with("register_symbols", implementation)
    assert host.collect("register_symbols", config=EngineConfig()) == [("acme", symbol)]


def test_register_hardware_profiles() -> None:
    profile = make_profile()
    host = host_with("register_hardware_profiles", lambda: [profile])
    assert host.collect("register_hardware_profiles") == [("acme", profile)]


def test_register_commands() -> None:
    added: list[object] = []
    host = host_with("register_commands", lambda cli: cli.append("command"))
    host.notify("register_commands", cli=added)
    assert added == ["command"]


def test_resolve_hardware_profile() -> None:
    profiles = {"testing": make_profile()}

    def implementation(target: str, profiles: dict[str, object]) -> object:
        return profiles["testing"] if target == "acme" else None

    host = host_with("resolve_hardware_profile", implementation)
    hook = "resolve_hardware_profile"
    assert host.first(hook, target="acme", profiles=profiles) is profiles["testing"]
    assert host.first(hook, target="llvm", profiles=profiles) is None


def test_open_store() -> None:
    from prune_engine.store import open_store

    store = open_store("sqlite://")

    def implementation(url: str) -> object:
        return store if url.startswith("acme:") else None

    host = host_with("open_store", implementation)
    assert host.first("open_store", url="acme:x") is store
    assert host.first("open_store", url="sqlite://") is None
    store.close()


def check_told(hook: str, **arguments: object) -> PluginHost:
    """A plugin that names all arguments of a notification is given each of them."""
    told: list[tuple[object, ...]] = []
    names = ", ".join(arguments)
    scope: dict[str, Callable[..., object]] = {}
    exec(f"def implementation({names}): told.append(({names},))", {"told": told}, scope)
    host = host_with(hook, scope["implementation"])
    host.notify(hook, **arguments)
    assert told == [tuple(arguments.values())]
    return host


def check_latecomer(host: PluginHost, hook: str) -> None:
    """A plugin registered after a historic notification hears of it."""
    heard = []
    implementation = {
        "engine_started": lambda info: heard.append(info),
        "plugin_failed": lambda record: heard.append(record),
    }[hook]
    implementation.__name__ = hook
    host.register(type("Late", (), {hook: staticmethod(hookimpl(implementation))})(), "late")
    assert len(heard) == 1


def test_engine_started() -> None:
    info = EngineInfo("0.1", "run", "cpu", 2, "host", 0)
    check_latecomer(check_told("engine_started", info=info), "engine_started")


def test_plugin_failed() -> None:
    record = PluginRecord("other", None, None, (), PluginStatus.FAILED, "planted")
    check_latecomer(check_told("plugin_failed", record=record), "plugin_failed")


def test_task_started() -> None:
    check_told("task_started", task=make_task())


def test_batch_pruned() -> None:
    check_told("batch_pruned", task=make_task(), summary=PruneSummary(10, 2, (), 0.1))


def test_batch_measured() -> None:
    check_told("batch_measured", task=make_task(), measured=())


def test_task_finished() -> None:
    check_told("task_finished", task=make_task(), summary="summary")


def test_explain_candidate() -> None:
    trail = [Verdict(Stage.RULE, "acme.x", Outcome.DROPPED, "too large")]

    def implementation(task: object, trail: list[Verdict]) -> Iterable[str]:
        return [f"{len(trail)} verdict"]

    host = host_with("explain_candidate", implementation)
    assert host.collect("explain_candidate", task=make_task(), trail=trail) == [("acme", "1 verdict")]
