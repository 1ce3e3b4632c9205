"""What `tune` says of plugins that fail: the run goes on without them, and nobody is left to guess."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from prune_engine.config import EngineConfig
from prune_engine.lifecycle import SilentObserver
from prune_engine.metaschedule.tune import _FailureTeller
from prune_engine.plugins import PluginHost

if TYPE_CHECKING:
    import subprocess

Run = Callable[..., "subprocess.CompletedProcess[str]"]

RULE = """
import numpy as np
from prune_engine.hookspecs import hookimpl
from prune_engine.strategies import Rule
from prune_engine.verdicts import RuleKind

print("hello from a plugin")

class Crooked(Rule):
    name = "crooked.mask"
    kind = RuleKind.HEURISTIC

    def mask(self, batch, profile):
        return np.ones(len(batch) + 1, dtype=np.bool_)

@hookimpl
def register_rules():
    return [Crooked()]
"""


def test_each_failure_of_a_plugin_is_told_by_itself() -> None:
    said: list[str] = []

    class Listening(SilentObserver):
        def on_status(self, message: str) -> None:
            said.append(message)

    host = PluginHost(EngineConfig())
    host.register(_FailureTeller(Listening()), "teller")
    for why in ("one", "two", "one"):
        host.fail("acme", why)
    assert said == ["warning: plugin acme failed: one", "warning: plugin acme failed: two"]


def test_failures_of_plugins_are_told(cli: Run, tiny_model: Path, tmp_path: Path) -> None:
    """While it runs and in the result; what a plugin prints does not get into the JSON on stdout."""
    (tmp_path / "broken.py").write_text("raise RuntimeError('planted')\n")
    (tmp_path / "crooked.py").write_text(RULE)
    options = ["--dim", "batch=8", "--trials", 1, "--store", "store.sqlite3", "--json"]
    done = cli("tune", tiny_model, *options, "--plugin", "broken.py", "--plugin", "crooked.py")
    assert done.returncode == 0, done.stderr
    failed = json.loads(done.stdout)["failed_plugins"]
    assert "planted" in failed["broken"]
    assert "crooked.mask" in failed["crooked"]
    told = [json.loads(line).get("message", "") for line in done.stderr.splitlines() if line.startswith("{")]
    assert any(line.startswith("warning: plugin broken failed: RuntimeError: planted") for line in told)
    assert any(line.startswith("warning: plugin crooked failed:") for line in told)
    assert "hello from a plugin" in done.stderr
