"""`prune-engine plugins check`: what is wrong with a plugin is told whole, however it ends."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from prune_engine.cli.app import make_app
from prune_engine.errors import ConfigError

SELECTOR = """
    import os, time
    import numpy as np
    from prune_engine.hookspecs import hookimpl
    from prune_engine.strategies import Selector
    from prune_engine.verdicts import Selection, SelectionReason

    class Chosen(Selector):
        name = "{name}"

        def select(self, pool, k, rng):
            n = len(pool)
            {odd}
            top = np.flatnonzero(~pool.is_audit)
            top = top[np.argsort(-pool.scores[top], kind="stable")][:k].astype(np.int64)
            return Selection(top, (SelectionReason.TOP,) * len(top))

    @hookimpl
    def register_selectors():
        return [Chosen()]
"""


def selector(odd: str = "pass", name: str = "acme.chosen") -> str:
    return textwrap.dedent(SELECTOR).format(odd=odd, name=name)


def check(what: object, *options: object) -> tuple[int, dict[tuple[str, str], dict[str, Any]]]:
    """The exit code, and rows by (subject, check)."""
    done = CliRunner().invoke(make_app(), ["plugins", "check", str(what), "--json", *map(str, options)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    record = json.loads(done.stdout)
    rows = [row for plugin in record["plugins"] for row in plugin["checks"]]
    for status in ("passed", "failed"):
        assert record[f"n_{status}"] == sum(row["status"] == status for row in rows)
    return done.exit_code, {(row["subject"], row["check"]): row for row in rows}


@pytest.fixture
def plugin_file(tmp_path: Path) -> Any:
    def write(source: str, name: str = "acme.py") -> Path:
        (tmp_path / name).write_text(textwrap.dedent(source), encoding="utf-8")
        return tmp_path / name

    return write


@pytest.fixture
def project(tmp_path: Path) -> Any:
    """Write a project: source of its module, lines of its pyproject."""

    def write(
        source: str | None,
        *,
        entry: str = 'acme = "acme_plugin"',
        dependencies: str = '["prune-engine>=0.1,<1"]',
        below: str = "",
    ) -> Path:
        folder = tmp_path / "project"
        (folder / below).mkdir(parents=True)
        (folder / "pyproject.toml").write_text(
            f'[project]\nname = "acme"\nversion = "3.1"\ndependencies = {dependencies}\n'
            f'[project.entry-points."prune_engine.plugins"]\n{entry}\n'
        )
        if source is not None:
            (folder / below / "acme_plugin.py").write_text(textwrap.dedent(source))
        return folder

    return write


def test_a_good_project_passes(project: Any) -> None:
    code, rows = check(project(selector(), below="src"))
    assert code == 0
    assert {row["status"] for row in rows.values()} == {"passed"}
    assert {("acme", "loads"), ("acme", "names_are_its_own"), ("acme.chosen", "reasons_are_true")} <= set(rows)
    assert rows["acme.chosen", "selects_at_most_k_distinct"]["n_cases"] == 12


class TestWhatDoesNotLoad:
    """Nothing else is checked of it, and what is wrong is said."""

    def only(self, what: Path, check_name: str) -> dict[str, Any]:
        code, rows = check(what)
        assert code == 1
        assert list(rows) == [("acme", check_name)]
        row = rows["acme", check_name]
        assert row["status"] == "failed"
        assert row["who"] == "plugin acme"
        return row

    def test_a_file_that_raises(self, plugin_file: Any) -> None:
        row = self.only(plugin_file("import math\nmath.sqrt(-1)\n"), "loads")
        assert row["got"] == "ValueError: math domain error (acme.py:2)"
        assert row["expected"] == "a module that can be imported"

    def test_a_file_that_exits(self, plugin_file: Any) -> None:
        assert "SystemExit" in self.only(plugin_file("raise SystemExit(0)\n"), "loads")["got"]

    def test_a_file_that_takes_the_process_with_it(self, plugin_file: Any) -> None:
        row = self.only(
            plugin_file("import os, sys\nprint('last words')\nsys.stdout.flush()\nos._exit(7)\n"), "loads"
        )
        assert row["got"] == "the process ended with code 7: plugin 'acme' printed: last words"

    def test_an_entry_point_that_does_not_import(self, project: Any) -> None:
        row = self.only(project(None), "loads")
        assert row["got"].startswith("ModuleNotFoundError: No module named 'acme_plugin'")
        assert row["remedy"] == 'Correct it: the entry point acme = "acme_plugin" has to import.'

    def test_an_entry_point_to_what_the_module_lacks(self, project: Any) -> None:
        row = self.only(project(selector(), entry='acme = "acme_plugin:Nothing"'), "loads")
        assert "has no attribute 'Nothing'" in row["got"]

    def test_what_misses_a_library(self, project: Any) -> None:
        row = self.only(project("import no_such_library\n"), "loads")
        assert row["remedy"] == "pip install no_such_library."

    def test_a_project_for_another_major_version(self, project: Any, tmp_path: Path) -> None:
        marks = f"open({str(tmp_path / 'imported')!r}, 'w')\n"
        row = self.only(project(marks, dependencies='["prune-engine>=1,<2"]'), "says_which_versions_it_is_for")
        assert row["got"].startswith("made for prune-engine<2,>=1, and this is 0.1.0")
        assert not (tmp_path / "imported").exists(), "it was imported all the same"

    def test_a_file_for_another_major_version(self, plugin_file: Any) -> None:
        row = self.only(plugin_file("PRUNE_ENGINE_API = 2\n" + selector()), "loads")
        assert row["got"].startswith(
            "incompatible: made for version 2 of the plugin API, and this prune-engine has 1"
        )

    def test_a_file_that_is_no_program(self, plugin_file: Any) -> None:
        _, rows = check(plugin_file("def f(:\n"))
        assert rows["acme", "loads"]["got"] == "SyntaxError: invalid syntax (acme.py, line 1)"

    def test_a_file_that_raises_its_own_kind(self, plugin_file: Any) -> None:
        _, rows = check(plugin_file("class Odd(BaseException): ...\nraise Odd('planted')\n"))
        assert rows["acme", "loads"]["got"].endswith("(acme.py:2)")

    def test_a_module_without_hooks(self, plugin_file: Any) -> None:
        assert self.only(plugin_file("x = 1\n"), "loads")["got"] == "failed: implements no hook"


def test_two_plugins_of_one_name(project: Any) -> None:
    """The name of the plugin, and that of its strategy, are those of plugins that ship."""
    code, rows = check(project(selector(name="select.diverse"), entry='select = "acme_plugin"'))
    assert code == 1
    failed = {name: row["got"] for name, row in rows.items() if row["status"] == "failed"}
    assert failed == {
        ("select", "its_name_is_not_taken"): "'select' is also what prune-engine calls its plugin, which is used",
        ("select", "names_are_its_own"): "select.diverse is also one of plugin 'select': that of 'select' is used",
    }


def test_a_plugin_that_hangs_crashes_and_loops_is_told_of_whole(plugin_file: Any) -> None:
    """Each check that takes the process with it is named, and the others are run."""
    odd = (
        "if n == 8 and k == 0 and pool.is_trained: time.sleep(3600)\n"
        "        if n == 1 and not pool.is_trained: os.abort()\n"
        "        [score for score in pool.scores]"
    )
    code, rows = check(plugin_file(selector(odd)), "--limit", 10)
    assert code == 1
    assert rows["acme", "says_which_versions_it_is_for"]["status"] == "warning"
    hung = rows["acme", "selects_at_most_k_distinct"]
    assert hung["got"] == "did not return within 10 seconds"
    crashed = [case for case in hung["failed_cases"] if case.startswith("1-1")]
    assert len(hung["failed_cases"]) == 2, hung
    assert crashed == ["1-1-False"]
    looped = rows["acme.chosen", "does_not_loop_over_the_pool"]
    assert looped["status"] == "failed"
    assert "acme.py:15, in Chosen.select" in looped["got"]
    assert looped["remedy"].startswith("Work on whole columns")
    assert rows["acme.chosen", "reasons_are_true"]["status"] == "passed"


class TestWhatIsNoPlugin:
    def complaint(self, what: object) -> str:
        with pytest.raises(ConfigError) as told:
            check(what)
        return str(told.value)

    def test_nothing_of_that_name(self) -> None:
        assert "no such file, folder or plugin; expected a plugin file" in self.complaint("no-such-plugin")

    def test_a_folder_without_a_project(self, tmp_path: Path) -> None:
        assert "`prune-engine plugins new NAME` writes such a project." in self.complaint(tmp_path)

    def test_a_file_that_is_no_python(self, plugin_file: Any) -> None:
        assert "not a plugin file" in self.complaint(plugin_file("", "notes.txt"))

    def test_a_project_without_an_entry_point(self, project: Any) -> None:
        assert "registers no plugin; expected a line below" in self.complaint(project(selector(), entry=""))

    @pytest.mark.parametrize("entry", ["acme = 3", 'acme = ""', 'acme = "not a module"'])
    def test_an_entry_point_that_names_no_module(self, project: Any, entry: str) -> None:
        assert "an entry point that names no module" in self.complaint(project(selector(), entry=entry))

    def test_a_project_that_is_no_toml(self, tmp_path: Path) -> None:
        (tmp_path / "pyproject.toml").write_text("[project\n")
        assert "cannot be read" in self.complaint(tmp_path)

    def test_options_of_the_list_are_refused(self) -> None:
        done = CliRunner().invoke(make_app(), ["plugins", "--strict", "check", "rules"])
        assert isinstance(done.exception, ConfigError)
        assert "--strict: without effect in front of check" in str(done.exception)


def test_a_hook_that_never_returns_is_told_once(plugin_file: Any) -> None:
    """Each check calls the hooks: all of them would hang, one after the other."""
    source = "from prune_engine.hookspecs import hookimpl\n@hookimpl\ndef register_rules():\n    while True: pass\n"
    code, rows = check(plugin_file(source), "--limit", "1")
    assert (code, [key for key, row in rows.items() if row["status"] == "failed"]) == (
        1,
        [("acme", "registers_something")],
    )
    assert "register_rules: did not return within 1 seconds" in rows["acme", "registers_something"]["got"]


def test_a_plugin_that_registers_nothing_is_warned(plugin_file: Any) -> None:
    source = "from prune_engine.hookspecs import hookimpl\n@hookimpl\ndef register_rules():\n    pass\n"
    code, rows = check(plugin_file(source))
    row = rows["acme", "registers_something"]
    assert (code, row["status"], row["got"]) == (0, "warning", "none of its hooks returned anything")


def test_a_plugin_that_deletes_files_is_still_told_of(plugin_file: Any) -> None:
    """Also those that the checks are told in."""
    code, rows = check(plugin_file(selector("import shutil; shutil.rmtree(os.path.dirname(os.getcwd()), True)")))
    row = rows["acme.chosen", "selects_at_most_k_distinct"]
    assert (code, row["status"]) == (1, "failed")
    assert row["got"] == "FileNotFoundError: [Errno 2] No such file or directory"  # of the plugin's second time


def test_a_process_that_the_plugin_forks_ends_there(plugin_file: Any) -> None:
    """Each would check all the rest, and fork again."""
    code, rows = check(plugin_file(selector("os.fork()")))
    failed = [key for key, row in rows.items() if row["status"] == "failed"]
    assert (code, failed) == (1, [("acme", "ends_the_processes_it_forks")])


def test_dots_of_checks_are_no_last_words(plugin_file: Any) -> None:
    _, rows = check(plugin_file(selector("os._exit(3)")))
    row = next(row for row in rows.values() if row["status"] == "failed")
    assert row["got"] == "the process ended with code 3"


def test_what_people_see(plugin_file: Any) -> None:
    done = CliRunner().invoke(make_app(), ["plugins", "check", str(plugin_file("x = 1\n"))])
    assert done.exit_code == 1
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines == [
        "checked kind check cases result",
        "acme plugin loads 1 failed",
        "",
        "failed: plugin acme: loads",
        "got: failed: implements no hook",
        "expected: hooks that are known, of a plugin for this engine",
        "to do: Correct it.",
        "",
        "plugin acme: 0 checks passed, 1 failed",
    ]


def test_files_around_it_take_no_modules_place(
    plugin_file: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin_file("raise RuntimeError('planted')\n", "json.py")
    plugin_file("raise RuntimeError('planted')\n", "numpy.py")
    monkeypatch.chdir(tmp_path)
    code, rows = check(plugin_file("x = 1\n"))
    assert rows["acme", "loads"]["got"] == "failed: implements no hook"
    assert code == 1
