"""Pools, and the planted kernels they measure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
from kits.misbehaving import DTYPES, SHAPES, TARGET, TASK, Kernels

from prune_engine.metaschedule.measure import MeasurePool, MeasureSettings


@pytest.fixture(scope="session")
def kernels() -> Kernels:
    return Kernels()


@pytest.fixture(scope="session")
def make_pool(kernels: Kernels) -> Callable[..., MeasurePool]:
    """Make an opened pool; the caller closes it."""

    def make(**options: Any) -> MeasurePool:
        settings = {"target": TARGET, "n_threads": 2, "n_builders": 2, "run_timeout_secs": 4.0} | options
        # Kernels here sleep for as long as they are told to, however slow the machine is.
        settings.setdefault("hold_against_pace", False)
        pool = MeasurePool(MeasureSettings(**settings))
        pool.start()
        result = pool.open_task(TASK, kernels.plus("default"), SHAPES, DTYPES)
        assert result.error is None
        return pool

    return make


@pytest.fixture(scope="module")
def pool(make_pool: Callable[..., MeasurePool]) -> Iterator[MeasurePool]:
    with make_pool(memory_limit_bytes=384 << 20) as pool:
        yield pool


@pytest.fixture(scope="session")
def find_server() -> Callable[[], psutil.Process]:
    def find() -> psutil.Process:
        (server,) = [
            child
            for child in psutil.Process().children()
            if child.status() != psutil.STATUS_ZOMBIE and any("measure.server" in word for word in child.cmdline())
        ]
        return server

    return find


@pytest.fixture(scope="session")
def eventually() -> Callable[[Callable[[], bool]], bool]:
    def wait(condition: Callable[[], bool], secs: float = 20.0) -> bool:
        give_up_at = time.monotonic() + secs
        while not condition():
            if time.monotonic() > give_up_at:
                return False
            time.sleep(0.05)
        return True

    return wait
