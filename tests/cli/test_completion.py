"""What the Tab key offers, asked as bash and zsh ask."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from prune_engine.cli import completion
from prune_engine.cli.app import main, make_app

Offered = Callable[..., list[str]]


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Offered:
    """What bash is offered for the last of some words: ``offered("tune", "--prof")``."""
    monkeypatch.chdir(tmp_path)

    def ask(*words: str) -> list[str]:
        monkeypatch.setenv(completion.VARIABLE, "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(["prune-engine", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        monkeypatch.setattr(sys, "argv", ["prune-engine"])
        with pytest.raises(SystemExit) as ending:
            main()
        assert ending.value.code == 0
        printed = capsys.readouterr()
        assert not printed.err
        return printed.out.split()

    return ask


def test_verbs(offered: Offered) -> None:
    assert offered("tr") == ["transfer"]
    assert set(offered("p")) == {"prior", "prune", "plugins", "policy", "profiles"}
    assert "show" in offered("profiles", "s")


def test_options(offered: Offered) -> None:
    assert offered("tune", "--prof") == ["--profile"]


def test_verbs_of_plugins(offered: Offered, monkeypatch: pytest.MonkeyPatch) -> None:
    def add(app: object) -> None:
        app.command("hello")(lambda: None)  # type: ignore[attr-defined]

    monkeypatch.setattr("prune_engine.cli.app._add_plugin_commands", add)
    assert offered("hel") == ["hello"]
    monkeypatch.setattr("prune_engine.cli.app._add_plugin_commands", lambda app: pytest.fail("not needed"))
    assert offered("tun") == ["tune"]


@pytest.mark.parametrize("verb", ["tune", "prune", "rank", "verify", "transfer"])
def test_profiles_by_name_and_alias(offered: Offered, verb: str) -> None:
    assert "nvidia-h100-sxm" in offered(verb, "--profile", "nvidia-")
    assert offered(verb, "--profile", "aut") == ["auto"]
    assert "h100" in offered(verb, "--profile", "h1")


def test_profiles_of_the_group(offered: Offered) -> None:
    assert "h100" in offered("profiles", "show", "h1")
    assert "t4" in offered("profiles", "diff", "h100", "t")
    assert offered("profiles", "new", "vendor/x") == []


def test_targets(offered: Offered) -> None:
    assert offered("spaces", "--target", "nat") == ["native"]
    assert "cuda/a100" in offered("spaces", "--target", "cuda/a")


def test_plugins_and_strategies(offered: Offered) -> None:
    assert offered("tune", "--block", "ligh") == ["lightgbm"]
    assert {"lightgbm.residual", "none"} <= set(offered("tune", "--verifier", ""))
    assert offered("tune", "--explorer", "explore.u") == ["explore.uniform"]
    assert "rules.duplicate" in offered("prune", "--disable-rule", "rules.d")
    assert offered("tune", "--prior", "") == ["builtin", "none"]


def test_workloads_up_to_the_colon_else_files(offered: Offered) -> None:
    assert offered("spaces", "gem") == ["gemm:"]
    assert offered("spaces", "./mod") == []  # the shell's own completion of files follows


def test_tasks_of_results(offered: Offered, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    class Task:
        name = "fused_matmul"

    def known(out: object, store: object) -> list[Task]:
        seen.append(out)
        return [Task()]

    monkeypatch.setattr("prune_engine.explain.known_tasks.known_tasks", known)
    assert offered("explain", "fus") == ["fused_matmul"]
    assert offered("explain", "--out", "tuned/x", "fus") == ["fused_matmul"]
    assert seen == [None, Path("tuned/x")]


def test_a_completion_that_fails_offers_nothing(offered: Offered, tmp_path: Path) -> None:
    assert offered("explain", "--out", str(tmp_path / "nothing"), "x") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_of_a_shell(shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(completion.VARIABLE, f"source_{shell}")
    monkeypatch.setattr(sys, "argv", ["prune-engine"])
    with pytest.raises(SystemExit):
        main()
    script = capsys.readouterr().out
    assert completion.VARIABLE in script
    assert "prune-engine" in script


def test_bash_takes_the_script(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(completion.VARIABLE, "source_bash")
    monkeypatch.setattr(sys, "argv", ["prune-engine"])
    with pytest.raises(SystemExit):
        main()
    script = capsys.readouterr().out + "\ncomplete -p prune-engine\n"
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, check=True)
    assert "complete" in done.stdout


def test_parameters_are_left_alone_until_a_shell_asks() -> None:
    assert not completion.is_completing()
    assert make_app().registered_commands
