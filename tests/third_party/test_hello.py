"""An outsider's plugin, built and installed beside the wheel of prune-engine: listed, run and explained."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from kits.venvs import build_project, venv_environment

HELLO = Path(__file__).parent / "prune-engine-hello"
#: A small kernel on a device that need not be there.
KERNEL = ("gemm:64x64x64", "--profile", "intel-xeon-8272cl", "--json")

#: The first to want a fresh environment may have to download all dependencies.
pytestmark = pytest.mark.timeout(1800)

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path, guide_venv: Path) -> Run:
    """Run a tool of a fresh environment, in an empty folder."""
    environment = venv_environment(guide_venv, tmp_path)

    def run(tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(guide_venv / "bin" / tool), *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"{tool} {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done

    return run


def test_outside_plugin_is_listed_run_and_explained(tmp_path: Path, run: Run) -> None:
    shutil.copytree(HELLO, tmp_path / "hello", ignore=shutil.ignore_patterns("__pycache__", ".*_cache"))
    (wheel,) = build_project(tmp_path / "hello", tmp_path / "wheels")
    run("pip", "install", "--quiet", os.path.relpath(wheel, tmp_path))
    shutil.rmtree(tmp_path / "hello")  # the wheel has to have everything

    listed = {row["name"]: row for row in json.loads(run("prune-engine", "plugins", "--json").stdout)}
    hello = listed["hello"]
    assert (hello["status"], hello["version"], hello["distribution"]) == ("loaded", "0.1.0", "prune-engine-hello")
    assert hello["strategies"] == ["hello.unroll-limit"]

    (task,) = json.loads(run("prune-engine", "prune", *KERNEL).stdout)["tasks"]
    (cut,) = [step for step in task["rules"] if step["rule"] == "hello.unroll-limit"]
    assert 0 < cut["n_cut"] < cut["n_in"]
    assert cut["reason"] == "unrolls 512 steps, more than 64"

    why = ("--why-not", "2.matmul.2=32,2 3.unroll_explicit=512")
    told = " ".join(json.loads(run("prune-engine", "explain", *KERNEL, *why).stdout)["sentences"])
    assert "hello.unroll-limit (heuristic: a guess): unrolls 512 steps, more than 64" in told
