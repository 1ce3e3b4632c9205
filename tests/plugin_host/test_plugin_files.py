"""Plugins that are files: a wrong one stops nothing, and says what is wrong."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from kits.plugin_hosts import GOOD, LEAVES_A_MARK, record, rule_names

from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError, PluginError
from prune_engine.plugins import PluginHost, PluginStatus

LOADED, BLOCKED = PluginStatus.LOADED, PluginStatus.BLOCKED
FAILED, UNAVAILABLE = PluginStatus.FAILED, PluginStatus.UNAVAILABLE
INCOMPATIBLE = PluginStatus.INCOMPATIBLE


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
