"""The adapter to TVM's MetaSchedule, the only importer of tvm.

Its drop-ins for MetaSchedule's users are imported when they are asked for, and TVM with them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prune_engine.metaschedule.cost_model import PruneEngineCostModel
    from prune_engine.metaschedule.drop_in import tune_relax, tune_tir
    from prune_engine.metaschedule.postproc import PruneEnginePostproc
    from prune_engine.metaschedule.search import PruneEngineSearch

__all__ = ["PruneEngineCostModel", "PruneEnginePostproc", "PruneEngineSearch", "tune_relax", "tune_tir"]

_MODULES = {
    "PruneEngineCostModel": "cost_model",
    "PruneEnginePostproc": "postproc",
    "PruneEngineSearch": "search",
    "tune_relax": "drop_in",
    "tune_tir": "drop_in",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
