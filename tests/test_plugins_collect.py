"""What plugins register is collected, and nonsense is set aside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from kits.plugin_hosts import NamedRule, RulePlugin, host_with, record, rule_names

from prune_engine.config import EngineConfig
from prune_engine.errors import PluginError
from prune_engine.hookspecs import hookimpl
from prune_engine.plugins import PluginHost, PluginStatus
from prune_engine.strategies import Rule
from prune_engine.testing import make_batch, make_profile

LOADED, BLOCKED = PluginStatus.LOADED, PluginStatus.BLOCKED
FAILED, UNAVAILABLE = PluginStatus.FAILED, PluginStatus.UNAVAILABLE
INCOMPATIBLE = PluginStatus.INCOMPATIBLE


class TestCollect:
    def test_by_plugin_name_with_the_plugin_name(self) -> None:
        host = host_with(b=RulePlugin("b.1", "b.0"), a=RulePlugin("a.1"), c=RulePlugin())
        assert rule_names(host) == [("a", "a.1"), ("b", "b.1"), ("b", "b.0")]
        assert rule_names(host) == rule_names(host), "asking again is no clash of names"

    NONSENSE: ClassVar[dict[str, tuple[object, str]]] = {
        "a number": ([3], "3 (int); expected Rule"),
        "a class": ([NamedRule], "return an instance: NamedRule()"),
        "not iterable": (3, "expected an iterable of Rule"),
        "a string": ("rules", "expected an iterable of Rule"),
        "one rule, no list": (NamedRule("a.x"), "expected an iterable of Rule"),
        "another kind": ([SimpleNamespace(name="a.x")], "expected Rule"),
        "no name": ([NamedRule("")], "with name ''"),
        "a name that is no text": ([NamedRule(7)], "with name 7"),
        "a name without the plugin's": ([NamedRule("x")], "expected a dotted name"),
        "no name attribute": ([Rule()], "with name None"),
        "one name twice": ([NamedRule("a.x"), NamedRule("a.x")], "two strategies named 'a.x'"),
    }

    @pytest.mark.parametrize("what", NONSENSE)
    def test_nonsense_is_set_aside(self, what: str) -> None:
        returned, why = self.NONSENSE[what]
        plugin = RulePlugin()
        plugin.rules = returned  # type: ignore[assignment]
        host = host_with(a=plugin, b=RulePlugin("b.fine"))
        assert rule_names(host) == [("b", "b.fine")]
        assert record(host, "a").status is FAILED
        assert why in record(host, "a").detail
        assert record(host, "b").status is LOADED

    def test_names_clash_across_plugins_and_kinds(self) -> None:
        host = host_with(a=RulePlugin("x.same"), b=RulePlugin("x.same", "b.other"), c=RulePlugin("c.fine"))
        assert rule_names(host) == [("a", "x.same"), ("c", "c.fine")]
        assert "plugin 'a'" in record(host, "b").detail

    def test_none_is_an_empty_answer(self) -> None:
        plugin = RulePlugin()
        plugin.rules = None  # type: ignore[assignment]
        assert rule_names(host_with(a=plugin)) == []

    def test_generator_that_raises_half_way(self) -> None:
        class Halfway:
            @hookimpl
            def register_rules(self) -> Iterator[Rule]:
                yield NamedRule("a.first")
                raise KeyError("second")

        host = host_with(a=Halfway(), b=RulePlugin("b.fine"))
        assert rule_names(host) == [("b", "b.fine")]
        assert f"KeyError: 'second' ({Path(__file__).name}:" in record(host, "a").detail

    def test_failed_plugin_is_not_called_again(self) -> None:
        calls = []

        class Broken:
            @hookimpl
            def register_rules(self) -> Iterable[Rule]:
                calls.append(1)
                raise ValueError

        host = host_with(a=Broken())
        assert rule_names(host) == rule_names(host) == []
        assert len(calls) == 1

    def test_strict_raises_with_the_cause(self) -> None:
        class Broken:
            @hookimpl
            def register_rules(self) -> Iterable[Rule]:
                raise ValueError("planted")

        with pytest.raises(PluginError, match=r"'a'.*planted") as caught:
            rule_names(host_with(strict=True, a=Broken()))
        assert isinstance(caught.value.__cause__, ValueError)

    def test_interrupt_is_not_swallowed(self) -> None:
        class Interrupted:
            @hookimpl
            def register_rules(self) -> Iterable[Rule]:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            rule_names(host_with(a=Interrupted()))

    def test_caller_errors_are_the_callers(self) -> None:
        host = host_with()
        with pytest.raises(ValueError, match="register_rulez"):
            host.collect("register_rulez", config=EngineConfig())
        with pytest.raises(TypeError, match="register_rules offers: config"):
            host.collect("register_rules", configuration=1)


def test_who_wins_of_two_strategies_of_one_name_is_told() -> None:
    host = host_with(b=RulePlugin("a.x"), a=RulePlugin("a.x"))
    assert rule_names(host) == [("a", "a.x")]
    assert record(host, "b").detail.endswith("from plugin 'a' (register_rules), which is used; rename yours")


def test_collected_strategies_work() -> None:
    """What comes out is the plugin's own object, usable."""
    ((_, rule),) = host_with(a=RulePlugin("a.x")).collect("register_rules", config=EngineConfig())
    batch = make_batch(3)
    assert isinstance(rule, Rule)
    assert np.array_equal(rule.mask(batch, make_profile()), [True] * 3)


def test_a_strategy_named_like_one_of_ours_loses(tmp_path: Path) -> None:
    """Whatever the names of the plugins: the rules that keep a run sound stay."""
    file = tmp_path / "aaa.py"
    file.write_text(
        "from prune_engine.hookspecs import hookimpl\n"
        "from prune_engine.strategies import Rule\n"
        "class Mine(Rule):\n    name = 'rules.refused'\n"
        "@hookimpl\ndef register_rules():\n    return [Mine()]\n"
    )
    host = PluginHost(EngineConfig(plugin_files=(file,)))
    host.load()
    rules = {rule.name: plugin for plugin, rule in host.collect("register_rules", config=EngineConfig())}
    assert rules["rules.refused"] == "rules"
    assert {r.name: r.status for r in host.records}["aaa"] is PluginStatus.FAILED
