"""The contract of plugins passes what keeps it and catches, test by test, what breaks it."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import numpy as np
import pytest
import typer

from prune_engine.errors import StoreError
from prune_engine.hookspecs import hookimpl
from prune_engine.strategies import Rule
from prune_engine.symbols.table import SymbolDef
from prune_engine.testing import PluginContract, make_profile
from prune_engine.testing.plugin_contract import TESTS_OF_HOOKS


class Fine(Rule):
    name = "acme.fine"


def module(**hooks: object) -> SimpleNamespace:
    """A plugin that implements some hooks."""
    return SimpleNamespace(**{name: hookimpl(function) for name, function in hooks.items()})


def volume(batch):
    return batch.decision_matrix().astype(np.float64).prod(axis=1)


def symbol(compute=volume, name: str = "acme.volume") -> list[SymbolDef]:
    return [SymbolDef(name, "elements", "a volume", "this test", compute)]


def row_by_row(batch):
    return np.array([float(row[0]) for row in batch.indices], dtype=np.float64)


class TestGoodPlugin(PluginContract):
    @pytest.fixture
    def plugin(self) -> object:
        def register_commands(cli: typer.Typer) -> None:
            @cli.command("acme-greet")
            def greet() -> None:
                """Say hello."""

        def open_store(url: str) -> None:
            if url.startswith("no-such-scheme"):
                raise StoreError("cannot be opened", who=url)  # an answer, too

        return module(
            register_rules=lambda: [Fine()],
            register_symbols=lambda: symbol(),
            register_hardware_profiles=lambda: [make_profile(name="acme-one"), make_profile(name="acme-two")],
            register_libraries=lambda: [SimpleNamespace(find=lambda query: [])],
            explain_candidate=lambda trail: [f"{len(trail)} verdicts"],
            resolve_hardware_profile=lambda target, profiles: profiles.get(target),
            task_finished=lambda summary: summary.speedup,
            register_commands=register_commands,
            open_store=open_store,
        )


COUNTER = iter(range(10**9))


def shared_verifier() -> object:
    from prune_engine.strategies import Verifier

    names = {method: (lambda self, *arguments: None) for method in ("score", "update", "save", "load")}
    return type("Shared", (Verifier,), {"name": "acme.shared", **names})()


SHARED = shared_verifier()


def add_prune(cli: typer.Typer) -> None:
    @cli.command("prune")
    def prune() -> None:
        """Another one."""


def drop_verbs(cli: typer.Typer) -> None:
    cli.registered_commands.clear()


#: Contract test, its parameters, and a plugin that breaks it.
BROKEN: list[tuple[str, dict[str, object], object]] = [
    ("test_is_accepted", {}, SimpleNamespace(register_rules=lambda: [])),
    ("test_is_accepted", {}, module(register_ruels=lambda: [])),
    ("test_is_accepted", {}, module(register_rules=lambda nonsense: [])),
    ("test_is_accepted", {}, SimpleNamespace(PRUNE_ENGINE_API=2, **vars(module(register_rules=lambda: [])))),
    (
        "test_registers_the_same_every_time",
        {"hook": "register_rules"},
        module(register_rules=lambda: [type("R", (Rule,), {"name": f"acme.r{next(COUNTER)}"})()]),
    ),
    (
        "test_registers_the_same_every_time",
        {"hook": "register_rules"},
        module(register_rules=lambda config: [Fine()] if config.verifier else 1 / 0),
    ),
    ("test_registers_the_same_every_time", {"hook": "register_rules"}, module(register_rules=lambda: [Fine])),
    (
        "test_engines_share_no_strategy",
        {"hook": "register_verifiers"},
        module(register_verifiers=lambda: [SHARED]),
    ),
    (
        "test_names_are_its_own",
        {},
        module(register_rules=lambda: [type("R", (Rule,), {"name": "rules.refused"})()]),
    ),
    ("test_symbols_are_columns", {}, module(register_symbols=lambda: symbol(name="vector_lanes"))),
    ("test_symbols_are_columns", {}, module(register_symbols=lambda: symbol(lambda batch: volume(batch)[:1]))),
    (
        "test_symbols_are_columns",
        {},
        module(register_symbols=lambda: symbol(lambda batch: volume(batch).astype(np.float32))),
    ),
    ("test_symbols_are_columns", {}, module(register_symbols=lambda: symbol(row_by_row))),
    (
        "test_unknown_targets_are_left_to_others",
        {"target": "no-such-device"},
        module(resolve_hardware_profile=lambda target, profiles: profiles[target]),
    ),
    (
        "test_unknown_targets_are_left_to_others",
        {"target": "no-such-device"},
        module(resolve_hardware_profile=lambda target: make_profile()),
    ),
    (
        "test_unknown_stores_are_left_to_others",
        {"url": "no scheme at all"},
        module(open_store=lambda url: url.split("://")[1]),
    ),
    ("test_explains_without_a_trail", {}, module(explain_candidate=lambda trail: [trail[0].reason])),
    ("test_explains_without_a_trail", {}, module(explain_candidate=lambda trail: [len(trail)])),
    ("test_bears_what_it_is_told", {}, module(task_finished=lambda summary: summary.best_secs * 2)),
    ("test_bears_what_it_is_told", {}, module(batch_measured=lambda measured: measured[0])),
    ("test_adds_verbs_and_replaces_none", {}, module(register_commands=add_prune)),
    ("test_adds_verbs_and_replaces_none", {}, module(register_commands=drop_verbs)),
    (
        "test_libraries_find_nothing_of_strangers",
        {},
        module(register_libraries=lambda: [SimpleNamespace(find=lambda query: ["an entry"])]),
    ),
    (
        "test_profiles_have_names_of_their_own",
        {},
        module(register_hardware_profiles=lambda: [make_profile(), make_profile()]),
    ),
]


@pytest.mark.parametrize(
    ("test", "parameters", "plugin"), BROKEN, ids=[f"{test}-{i}" for i, (test, *_) in enumerate(BROKEN)]
)
def test_breach_is_caught(test: str, parameters: dict[str, object], plugin: object) -> None:
    contract = PluginContract()
    method = getattr(contract, test)
    host = PluginContract.host.__wrapped__(contract, plugin, "acme")  # type: ignore[attr-defined]
    offered = {"plugin": plugin, "plugin_name": "acme", "host": host, **parameters}
    with pytest.raises(AssertionError if test != "test_symbols_are_columns" else Exception):
        method(**{name: offered[name] for name in inspect.signature(method).parameters})


def test_every_contract_test_was_seen_failing() -> None:
    tests = {name for name in dir(PluginContract) if name.startswith("test_")}
    assert tests == {test for test, *_ in BROKEN}
    assert set(TESTS_OF_HOOKS) == tests - {"test_is_accepted"}


def test_who_wins_of_two_names_is_told() -> None:
    plugin = module(register_rules=lambda: [type("R", (Rule,), {"name": "rules.refused"})()])
    contract = PluginContract()
    host = PluginContract.host.__wrapped__(contract, plugin, "acme")  # type: ignore[attr-defined]
    with pytest.raises(
        AssertionError, match=r"rules.refused is also one of plugin 'rules': that of 'rules' is used"
    ):
        contract.test_names_are_its_own(plugin, "acme", host)
