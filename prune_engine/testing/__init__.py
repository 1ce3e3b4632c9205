"""Public kit for plugin authors: contract test classes, small records, a workbench without a compiler.

The contract classes need pytest and live in `prune_engine.testing.contracts`; nothing here imports it.
"""

from __future__ import annotations

from prune_engine.testing.builders import make_batch, make_measurement, make_space, make_task
from prune_engine.testing.workbench import FakeWorkbench

__all__ = ["FakeWorkbench", "make_batch", "make_measurement", "make_space", "make_task"]
