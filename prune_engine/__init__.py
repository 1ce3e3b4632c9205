"""Prunes the schedule search space of tensor-program compilers before anyone pays for it.

`tune`, `transfer`, `prune` and `list_candidates` are the command's verbs as functions, `load` opens what they
wrote, and `Search` is for those who measure by themselves. Importing this takes no time: what a name needs is
imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prune_engine.api.progress import Progress as Progress
    from prune_engine.api.results import TunedTask as TunedTask
    from prune_engine.api.results import TuneResult as TuneResult
    from prune_engine.api.results import load as load
    from prune_engine.api.search import Search as Search
    from prune_engine.api.search_candidates import Best as Best
    from prune_engine.api.search_candidates import SearchCandidate as SearchCandidate
    from prune_engine.api.studies import ListedCandidate as ListedCandidate
    from prune_engine.api.studies import PrunedSpace as PrunedSpace
    from prune_engine.api.studies import list_candidates as list_candidates
    from prune_engine.api.studies import prune as prune
    from prune_engine.api.tuning import transfer as transfer
    from prune_engine.api.tuning import tune as tune
    from prune_engine.errors import PruneEngineError as PruneEngineError
    from prune_engine.own_kernels.own_spaces import own_space as own_space
    from prune_engine.own_kernels.pruner import Pruner as Pruner
    from prune_engine.space import DesignSpace as DesignSpace

__version__ = "0.1.0"

#: Where each public name lives.
_HOMES = {
    "PruneEngineError": "prune_engine.errors",
    "Best": "prune_engine.api.search_candidates",
    "Search": "prune_engine.api.search",
    "SearchCandidate": "prune_engine.api.search_candidates",
    "Progress": "prune_engine.api.progress",
    "TuneResult": "prune_engine.api.results",
    "TunedTask": "prune_engine.api.results",
    "ListedCandidate": "prune_engine.api.studies",
    "PrunedSpace": "prune_engine.api.studies",
    "list_candidates": "prune_engine.api.studies",
    "prune": "prune_engine.api.studies",
    "DesignSpace": "prune_engine.space",
    "Pruner": "prune_engine.own_kernels.pruner",
    "own_space": "prune_engine.own_kernels.own_spaces",
    "load": "prune_engine.api.results",
    "transfer": "prune_engine.api.tuning",
    "tune": "prune_engine.api.tuning",
}

__all__ = [
    "Best",
    "DesignSpace",
    "ListedCandidate",
    "Progress",
    "PruneEngineError",
    "PrunedSpace",
    "Pruner",
    "Search",
    "SearchCandidate",
    "TuneResult",
    "TunedTask",
    "__version__",
    "list_candidates",
    "load",
    "own_space",
    "prune",
    "transfer",
    "tune",
]


if not TYPE_CHECKING:  # to whom any name would be one of ours

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value: object = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value  # found at once from now on
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
