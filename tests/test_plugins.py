"""The plugin host: discovery, isolation, records."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError, PluginError, StoreLockedError
from prune_engine.hookspecs import hookimpl
from prune_engine.plugins import PluginHost, PluginRecord, PluginStatus
from prune_engine.strategies import Rule
from prune_engine.testing import make_batch, make_profile, make_task

LOADED, BLOCKED = PluginStatus.LOADED, PluginStatus.BLOCKED
FAILED, UNAVAILABLE = PluginStatus.FAILED, PluginStatus.UNAVAILABLE
INCOMPATIBLE = PluginStatus.INCOMPATIBLE


class NamedRule(Rule):
    def __init__(self, name: object) -> None:
        self.name = name  # type: ignore[misc,assignment]


class RulePlugin:
    """Registers one rule per name."""

    def __init__(self, *names: object) -> None:
        self.rules: Iterable[object] = [NamedRule(name) for name in names]

    @hookimpl
    def register_rules(self) -> Iterable[object]:
        return self.rules


def host_with(*, strict: bool = False, blocked: tuple[str, ...] = (), **plugins: object) -> PluginHost:
    host = PluginHost(EngineConfig(strict=strict, blocked_plugins=blocked))
    for name, plugin in plugins.items():
        host.register(plugin, name)
    return host


def record(host: PluginHost, name: str) -> PluginRecord:
    return next(r for r in host.records if r.name == name)


def rule_names(host: PluginHost) -> list[tuple[str, object]]:
    found = host.collect("register_rules", config=EngineConfig())
    return [(plugin, rule.name) for plugin, rule in found if isinstance(rule, Rule)]


@pytest.fixture
def plugin_file(tmp_path: Path) -> Iterator[object]:
    """Write a plugin file: (stem, source) -> path."""

    def write(stem: str, source: str) -> Path:
        path = tmp_path / f"{stem}.py"
        path.write_text(textwrap.dedent(source))
        return path

    yield write
    for module in [m for m in sys.modules if m.startswith("_prune_engine_plugin_file_")]:
        del sys.modules[module]


GOOD = """
    from prune_engine.hookspecs import hookimpl
    from prune_engine.strategies import Rule

    class Fine(Rule):
        name = "good.fine"

    @hookimpl
    def register_rules():
        return [Fine()]
"""
LEAVES_A_MARK = """
    import pathlib
    pathlib.Path(__file__).with_suffix(".imported").touch()
"""


class TestPluginFiles:
    """A plugin file that is wrong in any way stops nothing, and says what is wrong."""

    BROKEN: ClassVar[dict[str, tuple[str, str]]] = {
        "raises": ("1 / 0", "ZeroDivisionError: division by zero (raises.py:1)"),
        "exits": ("import sys; sys.exit(3)", "SystemExit: 3"),
        "unfinished": ("def f(:", "SyntaxError"),
        "empty": ("", "implements no hook"),
        "unmarked": ("def register_rules(): return []", "mark register_rules with @hookimpl"),
        "misspelt": (
            "from prune_engine.hookspecs import hookimpl\n@hookimpl\ndef register_rulez(): return []",
            "there is no hook 'register_rulez'; did you mean 'register_rules'?",
        ),
        "greedy": (
            "from prune_engine.hookspecs import hookimpl\n@hookimpl\ndef register_rules(cfg): return []",
            "'cfg'",
        ),
        "wrapper": (
            "from prune_engine.hookspecs import hookimpl\n@hookimpl(wrapper=True)\n"
            "def register_rules():\n    return (yield)",
            "register_rules is a wrapper",
        ),
        "typo": ("import prune_engine.no_such_module", "No module named 'prune_engine.no_such_module'"),
    }

    @pytest.mark.parametrize("name", BROKEN)
    def test_failure_is_isolated(self, plugin_file, name: str) -> None:
        source, why = self.BROKEN[name]
        files = (plugin_file(name, source), plugin_file("zz_good", GOOD))
        host = PluginHost(EngineConfig(plugin_files=files))
        host.load()
        assert record(host, name).status is FAILED
        assert why in record(host, name).detail
        assert record(host, "zz_good").status is LOADED
        assert ("zz_good", "good.fine") in rule_names(host)

    @pytest.mark.parametrize("name", ["raises", "misspelt"])
    def test_strict_raises(self, plugin_file, name: str) -> None:
        source, why = self.BROKEN[name]
        host = PluginHost(EngineConfig(plugin_files=(plugin_file(name, source),), strict=True))
        with pytest.raises(PluginError, match=name) as caught:
            host.load()
        assert why in str(caught.value)

    def test_a_file_that_failed_leaves_no_module_behind(self, plugin_file) -> None:
        PluginHost(EngineConfig(plugin_files=(plugin_file("raises", "1 / 0"),))).load()
        assert "_prune_engine_plugin_file_raises" not in sys.modules

    def test_missing_dependency_says_what_to_install(self, plugin_file) -> None:
        host = PluginHost(EngineConfig(plugin_files=(plugin_file("wants", "import no_such_library.part"),)))
        host.load()
        assert record(host, "wants").status is UNAVAILABLE
        assert record(host, "wants").summary == "unavailable: pip install no_such_library"

    def test_blocked_is_never_imported(self, plugin_file) -> None:
        path = plugin_file("marked", LEAVES_A_MARK)
        host = PluginHost(EngineConfig(plugin_files=(path,), blocked_plugins=("marked",)))
        host.load()
        assert record(host, "marked").status is BLOCKED
        assert not path.with_suffix(".imported").exists()
        PluginHost(EngineConfig(plugin_files=(path,))).load()
        assert path.with_suffix(".imported").exists(), "the mark would show an import"

    def test_interrupt_is_not_swallowed(self, plugin_file) -> None:
        host = PluginHost(EngineConfig(plugin_files=(plugin_file("interrupted", "raise KeyboardInterrupt"),)))
        with pytest.raises(KeyboardInterrupt):
            host.load()

    def test_a_file_that_is_not_there_is_the_users_error(self, tmp_path: Path) -> None:
        host = PluginHost(EngineConfig(plugin_files=(tmp_path / "absent.py",)))
        with pytest.raises(ConfigError, match=r"absent\.py"):
            host.load()

    def test_hosts_share_nothing(self, plugin_file) -> None:
        config = EngineConfig(plugin_files=(plugin_file("good", GOOD),))
        first, second = PluginHost(config), PluginHost(config)
        first.load()
        first.load()
        assert second.records == ()
        second.load()
        assert first.records == second.records
        assert rule_names(first) == rule_names(second)


class TestEntryPoints:
    """Installed distributions, without installing any: a folder with metadata on sys.path."""

    @pytest.fixture
    def install(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
        monkeypatch.syspath_prepend(str(tmp_path))

        def install(dist: str, points: dict[str, str], source: str = GOOD, requires: str = "") -> None:
            info = tmp_path / f"{dist.replace('-', '_')}-1.5.dist-info"
            info.mkdir()
            lines = "\n".join(f"{name} = {module}" for name, module in points.items())
            (info / "entry_points.txt").write_text(f"[prune_engine.plugins]\n{lines}\n")
            needs = f"Requires-Dist: {requires}\n" if requires else ""
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 1.5\n{needs}")
            for module in points.values():
                (tmp_path / f"{module}.py").write_text(textwrap.dedent(source))
                monkeypatch.delitem(sys.modules, module, raising=False)

        yield install
        for module in [m for m, v in sys.modules.items() if str(tmp_path) in str(getattr(v, "__file__", ""))]:
            del sys.modules[module]

    def load(self, **options: object) -> PluginHost:
        host = PluginHost(EngineConfig.of(**options))
        host.load()
        return host

    def test_installed_plugin_is_found(self, install) -> None:
        install("prune-engine-acme", {"acme": "prune_engine_acme_a"})
        host = self.load()
        assert record(host, "acme") == PluginRecord(
            "acme", "1.5", "prune-engine-acme", ("register_rules",), LOADED, ""
        )
        assert ("acme", "good.fine") in rule_names(host)
        names = [r.name for r in host.records]
        assert names == sorted(names)

    def test_shipped_plugins_are_found_too(self) -> None:
        shipped = {r.name for r in self.load().records if r.distribution == "prune-engine"}
        assert {"explore", "lightgbm", "select"} <= shipped

    def test_blocked_is_never_imported(self, install, tmp_path: Path) -> None:
        install("prune-engine-acme", {"acme": "prune_engine_acme_b"}, LEAVES_A_MARK)
        assert record(self.load(blocked_plugins=["acme"]), "acme").status is BLOCKED
        assert not (tmp_path / "prune_engine_acme_b.imported").exists()

    def test_module_that_is_gone_is_a_failure(self, install, tmp_path: Path) -> None:
        install("prune-engine-acme", {"acme": "prune_engine_acme_c"})
        (tmp_path / "prune_engine_acme_c.py").unlink()
        acme = record(self.load(), "acme")
        assert acme.status is FAILED
        assert "prune_engine_acme_c" in acme.detail

    @pytest.mark.parametrize(
        ("requires", "command"),
        [
            ("", "pip install no_such_library"),
            ("No.Such-Library>=2", "pip install 'No.Such-Library>=2'"),
            ("no-such-library>=2 ; extra == 'fast'", "pip install 'prune-engine-acme[fast]'"),
        ],
    )
    def test_install_command_follows_the_metadata(self, install, requires: str, command: str) -> None:
        install("prune-engine-acme", {"acme": "prune_engine_acme_d"}, "import no_such_library", requires)
        acme = record(self.load(), "acme")
        assert (acme.status, acme.detail) == (UNAVAILABLE, command)

    @pytest.mark.parametrize(
        ("requires", "limits"),
        [
            ("prune-engine>=1,<2", "<2,>=1"),
            ("Prune_Engine (<0.1)", "<0.1"),
            ("prune-engine[dev]==0.0.9; python_version > '3'", "==0.0.9"),
        ],
    )
    def test_made_for_another_engine_is_never_imported(
        self, install, tmp_path: Path, requires: str, limits: str
    ) -> None:
        install("prune-engine-acme", {"acme": "prune_engine_acme_g"}, LEAVES_A_MARK, requires)
        host = self.load()
        acme = record(host, "acme")
        assert acme in host.failed
        assert acme.status is INCOMPATIBLE
        assert acme.detail.startswith(
            f"made for prune-engine{limits}, and this is 0.1.0; pip install --upgrade prune"
        )
        assert not (tmp_path / "prune_engine_acme_g.imported").exists()
        with pytest.raises(PluginError, match="incompatible: made for"):
            self.load(strict=True)

    @pytest.mark.parametrize(
        "requires",
        [
            "prune-engine>=0.1,<1",
            "prune-engine",
            "prune-engine-other>=7",
            "prune-engine>=9; extra == 'later'",
            "prune-engine>=9; python_version < '3'",
            "prune-engine>=nonsense",
        ],
    )
    def test_made_for_this_engine_is_loaded(self, install, requires: str) -> None:
        install("prune-engine-acme", {"acme": "prune_engine_acme_h"}, GOOD, requires)
        assert record(self.load(), "acme").status is LOADED

    def test_second_plugin_of_a_name_is_set_aside(self, install) -> None:
        install("prune-engine-acme", {"acme": "prune_engine_acme_e"})
        install("prune-engine-fork", {"acme": "prune_engine_acme_f"})
        host = self.load()
        assert record(host, "acme").distribution == "prune-engine-acme"
        fork = record(host, "acme (prune-engine-fork)")
        whose = "the name 'acme' is taken by another plugin, that of prune-engine-acme, which is used"
        assert (fork.status, fork.detail) == (FAILED, whose)


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
        assert "KeyError: 'second' (test_plugins.py:" in record(host, "a").detail

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


class TestVersions:
    """A plugin may say which version of the plugin API it is made for."""

    @pytest.mark.parametrize(
        ("api", "detail"),
        [
            (2, "made for version 2 of the plugin API, and this prune-engine has 1; upgrade prune-engine"),
            (0, "made for version 0 of the plugin API, and this prune-engine has 1; take a later release"),
            ("1", "PRUNE_ENGINE_API is '1'; expected the major version"),
            (True, "PRUNE_ENGINE_API is True; expected the major version"),
        ],
    )
    def test_another_one_is_refused(self, plugin_file, api: object, detail: str) -> None:
        path = plugin_file("apart", f"PRUNE_ENGINE_API = {api!r}\n" + textwrap.dedent(GOOD))
        host = PluginHost(EngineConfig(plugin_files=(path,)))
        host.load()
        apart = record(host, "apart")
        assert (apart.status, apart.detail[: len(detail)]) == (INCOMPATIBLE, detail)
        with pytest.raises(PluginError, match=r"^plugin 'apart': incompatible: ") as told:
            PluginHost(EngineConfig(plugin_files=(path,), strict=True)).load()
        assert "PluginError" not in str(told.value)  # once
        assert ("apart", "good.fine") not in rule_names(host)

    def test_this_one_is_loaded(self, plugin_file) -> None:
        path = plugin_file("with_us", "PRUNE_ENGINE_API = 1\n" + textwrap.dedent(GOOD))
        host = PluginHost(EngineConfig(plugin_files=(path,)))
        host.load()
        assert record(host, "with_us").status is LOADED
        assert ("with_us", "good.fine") in rule_names(host)


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
