"""Contract classes of whatever a plugin registers: for those who have not written tests of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import pytest

from prune_engine.config import EngineConfig
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.plugins import PluginHost
from prune_engine.space import DesignSpace
from prune_engine.strategies import DraftScorer, Explorer, Rule, ScheduleTransfer, Selector, Strategy, Verifier
from prune_engine.testing.builders import make_space
from prune_engine.testing.draft_contract import DraftScorerContract
from prune_engine.testing.explorer_contract import ExplorerContract
from prune_engine.testing.plugin_contract import STRATEGY_HOOKS, TESTS_OF_HOOKS, PluginContract
from prune_engine.testing.profiles import make_profile
from prune_engine.testing.rule_contract import RuleContract
from prune_engine.testing.selector_contract import SelectorContract
from prune_engine.testing.transfer_contract import ScheduleTransferContract
from prune_engine.testing.verifier_contract import VerifierContract

#: What a strategy is judged with, and the fixture of its contract class.
_CONTRACTS: Mapping[type, tuple[type, str, str]] = {
    Rule: (RuleContract, "rule", "rule"),
    Explorer: (ExplorerContract, "explorer", "explorer"),
    DraftScorer: (DraftScorerContract, "draft_scorer", "draft"),
    Verifier: (VerifierContract, "verifier", "verifier"),
    Selector: (SelectorContract, "selector", "selector"),
    ScheduleTransfer: (ScheduleTransferContract, "transfer", "transfer"),
}


@dataclass(frozen=True, slots=True)
class Setting:
    """A space and a device to judge a strategy on; the space is made when it is first asked for."""

    label: str
    space: Callable[[], DesignSpace]
    profile: HardwareProfile


@dataclass(frozen=True, slots=True)
class Subject:
    """What a contract class is about: a plugin, or one of its strategies. The class has it as ``subject``."""

    name: str
    kind: str
    type: type | None


#: The testing kit's own: sketches whose loops could not be read.
OPAQUE = Setting("unread", make_space, make_profile())


def contract_classes(plugin: object, name: str, settings: Sequence[Setting]) -> list[type]:
    """The contract classes of a plugin and of each strategy that it registers, for pytest to collect.

    Rules, drafts and explorers are judged on every one of ``settings``. Each test gets a strategy that was made for
    it: one that learnt from another test would hide what is wrong.
    """
    host = PluginHost(EngineConfig())
    host.register(plugin, name)
    hooks = {hook for record in host.records for hook in record.hooks}
    found = [_plugin_class(plugin, name, hooks)]
    for hook in STRATEGY_HOOKS:
        for _, item in host.collect(hook, config=EngineConfig()):
            strategy = cast(Strategy, item)
            contract, fixture, kind = next(c for base, c in _CONTRACTS.items() if isinstance(strategy, base))
            make = _maker(plugin, name, hook, strategy.name)
            subject = Subject(strategy.name, kind, type(strategy))
            found.append(_strategy_class(contract, fixture, make, settings, subject))
    return found


def _plugin_class(plugin: object, name: str, hooks: set[str]) -> type:
    unasked = {test: None for test, about in TESTS_OF_HOOKS.items() if not hooks.intersection(about)}
    body: dict[str, object] = {
        "subject": Subject(name, "plugin", None),
        "plugin": _fixture("plugin", lambda: plugin),
        "plugin_name": _fixture("plugin_name", lambda: name),
        **unasked,
    }
    return type("TestPlugin", (PluginContract,), body)


def _strategy_class(
    contract: type, fixture: str, make: Callable[[], object], settings: Sequence[Setting], subject: Subject
) -> type:
    body: dict[str, object] = {"subject": subject, fixture: _fixture(fixture, make)}
    if contract is ExplorerContract:  # it is not shown a device
        settings = list({setting.space: setting for setting in reversed(settings)}.values())[::-1]
    if contract in (RuleContract, DraftScorerContract, ExplorerContract):
        body |= {
            "setting": pytest.fixture(params=list(settings), ids=lambda one: one.label, name="setting")(_setting),
            "space": pytest.fixture(name="space")(_space),
        }
    if contract in (RuleContract, DraftScorerContract):
        body["profile"] = pytest.fixture(name="profile")(_profile)
    return type(f"Test{contract.__name__}", (contract,), body)


def _maker(plugin: object, name: str, hook: str, wanted: str) -> Callable[[], object]:
    def make() -> object:
        host = PluginHost(EngineConfig())
        host.register(plugin, name)
        items = [item for _, item in host.collect(hook, config=EngineConfig())]
        return next(item for item in items if cast(Strategy, item).name == wanted)

    return make


def _fixture(name: str, make: Callable[[], object]) -> object:
    def value(self: object) -> object:  # noqa: ARG001 - pytest binds it
        return make()

    return pytest.fixture(name=name)(value)


def _setting(self: object, request: pytest.FixtureRequest) -> Setting:  # noqa: ARG001 - pytest binds it
    setting: Setting = request.param
    return setting


def _space(self: object, setting: Setting) -> DesignSpace:  # noqa: ARG001 - pytest binds it
    return setting.space()


def _profile(self: object, setting: Setting) -> HardwareProfile:  # noqa: ARG001 - pytest binds it
    return setting.profile
