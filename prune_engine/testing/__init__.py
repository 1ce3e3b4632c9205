"""Public kit for plugin authors: contract test classes, small records, a workbench without a compiler.

The contract classes need pytest; it is imported when the first of them is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from prune_engine.testing.builders import make_batch, make_entries, make_measurement, make_space, make_task
from prune_engine.testing.contexts import make_context
from prune_engine.testing.profiles import make_profile
from prune_engine.testing.workbench import FakeWorkbench

if TYPE_CHECKING:
    from prune_engine.testing.draft_contract import DraftScorerContract
    from prune_engine.testing.explorer_contract import ExplorerContract
    from prune_engine.testing.plugin_contract import PluginContract
    from prune_engine.testing.rule_contract import RuleContract
    from prune_engine.testing.selector_contract import SelectorContract
    from prune_engine.testing.store_contract import StoreContract
    from prune_engine.testing.transfer_contract import ScheduleTransferContract
    from prune_engine.testing.verifier_contract import VerifierContract

__all__ = [
    "DraftScorerContract",
    "ExplorerContract",
    "FakeWorkbench",
    "PluginContract",
    "RuleContract",
    "ScheduleTransferContract",
    "SelectorContract",
    "StoreContract",
    "VerifierContract",
    "make_batch",
    "make_context",
    "make_entries",
    "make_measurement",
    "make_profile",
    "make_space",
    "make_task",
]

_CONTRACTS = {
    "DraftScorerContract": "draft_contract",
    "ExplorerContract": "explorer_contract",
    "PluginContract": "plugin_contract",
    "RuleContract": "rule_contract",
    "ScheduleTransferContract": "transfer_contract",
    "SelectorContract": "selector_contract",
    "StoreContract": "store_contract",
    "VerifierContract": "verifier_contract",
}


def __getattr__(name: str) -> object:
    if name not in _CONTRACTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = f"{__name__}.{_CONTRACTS[name]}"
    import pytest  # not a dependency of prune_engine: only tests use the contracts

    pytest.register_assert_rewrite(module, f"{__name__}.checks")  # failures then show the values
    return getattr(importlib.import_module(module), name)
