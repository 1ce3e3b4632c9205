"""The search strategy, and a small kernel for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from kits.search_contexts import PLAIN


@pytest.fixture(scope="module")
def strategy(ms: Any) -> Callable[..., Any]:
    from prune_engine.metaschedule import PruneEngineSearch

    def make(**options: Any) -> Any:
        return PruneEngineSearch(**{"config": PLAIN, **options})

    return make


@pytest.fixture(scope="module")
def gemm(tvm: Any) -> Any:
    from prune_engine.metaschedule.workloads.loading import load_tasks

    return load_tasks("gemm:32x32x32", json.dumps({"kind": "llvm", "num-cores": 2}), shapes={}, dims={})[0].mod
