"""Environments of processes that run kernels."""

from __future__ import annotations

import os

import pytest

from prune_engine.metaschedule.threads import thread_variables


@pytest.mark.parametrize(("allowed", "is_bound"), [({1}, False), (set(range(4)), True)])
def test_threads_are_bound_only_where_all_processors_are_ours(
    allowed: set[int], is_bound: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: allowed)
    expected = {"TVM_NUM_THREADS": "3"} | ({} if is_bound else {"TVM_BIND_THREADS": "0"})
    assert thread_variables(3) == expected
