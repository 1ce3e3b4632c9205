"""The plugin host: who answers first, who is told, what a failure leaves, who is registered."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from kits.plugin_hosts import NamedRule, RulePlugin, host_with, record, rule_names

from prune_engine.errors import PluginError, StoreLockedError
from prune_engine.hookspecs import hookimpl
from prune_engine.plugins import PluginHost, PluginRecord, PluginStatus
from prune_engine.strategies import Rule
from prune_engine.testing import make_profile, make_task

LOADED, BLOCKED = PluginStatus.LOADED, PluginStatus.BLOCKED
FAILED, UNAVAILABLE = PluginStatus.FAILED, PluginStatus.UNAVAILABLE
INCOMPATIBLE = PluginStatus.INCOMPATIBLE


class Resolver:
    def __init__(self, answer: object) -> None:
        self.answer = answer

    @hookimpl
    def open_store(self, url: str) -> object:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    @hookimpl
    def resolve_hardware_profile(self, target: str) -> object:
        return self.open_store(target)


class TestFirst:
    def ask(self, host: PluginHost) -> object:
        return host.first("resolve_hardware_profile", target="llvm", profiles={})

    def test_first_by_name_that_answers(self) -> None:
        early, late = make_profile(name="early"), make_profile(name="late")
        host = host_with(c=Resolver(late), b=Resolver(early), a=Resolver(None))
        assert self.ask(host) is early
        assert self.ask(host_with(a=Resolver(None))) is None

    @pytest.mark.parametrize("answer", [ValueError("planted"), "not a profile"])
    def test_failure_is_isolated(self, answer: object) -> None:
        profile = make_profile()
        host = host_with(a=Resolver(answer), b=Resolver(profile))
        assert self.ask(host) is profile
        assert record(host, "a").status is FAILED

    def test_an_error_that_is_the_answer_passes_through(self) -> None:
        host = host_with(a=Resolver(StoreLockedError("locked")), b=Resolver(None))
        with pytest.raises(StoreLockedError):
            host.first("open_store", url="acme://x")
        assert record(host, "a").status is LOADED


class Listener:
    def __init__(self, *, broken: bool = False) -> None:
        self.heard: list[object] = []
        self.broken = broken

    @hookimpl
    def task_started(self, task: object) -> None:
        self.heard.append(task)
        if self.broken:
            raise RuntimeError("planted")

    @hookimpl
    def engine_started(self, info: object) -> None:
        self.heard.append(info)

    @hookimpl
    def plugin_failed(self, record: PluginRecord) -> None:
        self.heard.append(record.name)


class TestNotify:
    def test_everybody_hears_even_after_one_raised(self) -> None:
        broken, good, task = Listener(broken=True), Listener(), make_task()
        host = host_with(a=broken, b=good)
        host.notify("task_started", task=task)
        host.notify("task_started", task=task)
        assert broken.heard.count(task) == good.heard.count(task) == 2
        assert "RuntimeError: planted" in record(host, "a").detail
        assert record(host, "a").detail.count("planted") == 1, "recorded once, not every time"
        assert good.heard.count("a") == 1, "told once that a failed"

    def test_strict_raises(self) -> None:
        with pytest.raises(PluginError, match="planted"):
            host_with(strict=True, a=Listener(broken=True)).notify("task_started", task=make_task())

    def test_historic_hooks_reach_latecomers(self) -> None:
        host, late = host_with(), Listener()
        host.notify("engine_started", info="started")
        host.notify("task_started", task=make_task())
        host.fail("somebody", "planted")
        host.register(late, "late")
        assert late.heard == ["started", "somebody"]

    def test_observers_that_fail_in_turn_come_to_an_end(self) -> None:
        class Fragile:
            @hookimpl
            def plugin_failed(self, record: PluginRecord) -> None:
                raise RuntimeError("me too")

        host = host_with(a=Fragile(), b=Fragile(), c=Listener())
        host.fail("x", "planted")
        assert {r.name: r.status for r in host.records} == {"a": FAILED, "b": FAILED, "c": LOADED, "x": FAILED}


class News:
    def __init__(self) -> None:
        self.heard: list[str] = []

    @hookimpl
    def plugin_failed(self, record: PluginRecord) -> None:
        self.heard.append(record.news)


class TestFail:
    def test_what_was_told_is_not_told_again(self) -> None:
        news = News()
        host = host_with(a=RulePlugin("a.x"), news=news)
        for _ in range(3):
            for why in ("one", "two"):
                host.fail("a", why)
        assert news.heard == ["failed: one", "failed: two"]
        assert record(host, "a").summary == "failed: one; two"

    def test_of_many_failures_only_the_first_few_are_told(self) -> None:
        news = News()
        host = host_with(a=RulePlugin("a.x"), news=news)
        for number in range(100):
            host.fail("a", f"row {number}")
        host.fail("b", "planted")
        others = "and others, which are not told"
        assert news.heard == [*(f"failed: row {n}" for n in range(8)), f"failed: {others}", "failed: planted"]
        assert record(host, "a").detail.endswith(f"; row 7; {others}")

    def test_a_failed_strategy_leaves_the_plugins_hooks(self) -> None:
        host = host_with(a=RulePlugin("a.x", "a.y"))
        host.fail("a", "a.x: wrong shape")
        host.fail("a", "a.y: wrong dtype")
        assert record(host, "a").summary == "failed: a.x: wrong shape; a.y: wrong dtype"
        assert record(host, "a").news == "failed: a.y: wrong dtype"
        assert rule_names(host) == [("a", "a.x"), ("a", "a.y")]

    def test_strict_raises(self) -> None:
        with pytest.raises(PluginError, match="wrong shape"):
            host_with(strict=True, a=RulePlugin()).fail("a", "wrong shape")


class TestRegister:
    def test_blocked_name(self) -> None:
        host = host_with(blocked=("a",), a=RulePlugin("a.x"))
        assert record(host, "a").status is BLOCKED
        assert rule_names(host) == []

    def test_name_in_use(self) -> None:
        host = host_with(a=RulePlugin())
        with pytest.raises(PluginError, match="'a'"):
            host.register(RulePlugin(), "a")

    def test_rejected_plugin_leaves_nothing_behind(self) -> None:
        class Half:
            @hookimpl
            def register_rules(self) -> Iterable[Rule]:
                return [NamedRule("a.x")]

            @hookimpl
            def register_explorers(self, nonsense: int) -> Iterable[object]:
                return []

        host = host_with(a=Half())
        assert record(host, "a").status is FAILED
        assert "'nonsense'" in record(host, "a").detail
        assert "register_explorers offers: config" in record(host, "a").detail
        assert rule_names(host) == []
