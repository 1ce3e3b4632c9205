"""Plugins that are installed distributions: found, blocked, and told what they lack."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest
from kits.plugin_hosts import GOOD, LEAVES_A_MARK, record, rule_names

from prune_engine.config import EngineConfig
from prune_engine.errors import PluginError
from prune_engine.plugins import PluginHost, PluginRecord, PluginStatus

LOADED, BLOCKED = PluginStatus.LOADED, PluginStatus.BLOCKED
FAILED, UNAVAILABLE = PluginStatus.FAILED, PluginStatus.UNAVAILABLE
INCOMPATIBLE = PluginStatus.INCOMPATIBLE


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
