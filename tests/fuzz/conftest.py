"""How many broken files are tried, and the memory they may take."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from reliability.figure import Figure

#: What reading one small file may take beside what the process has already.
_MEMORY_BYTES = 1 << 30


@pytest.fixture(scope="session")
def is_full() -> bool:
    return os.environ.get("PRUNE_ENGINE_FULL") == "1"


@pytest.fixture
def reached(is_full: bool) -> Callable[[Figure], None]:
    """Assert that a figure is reached; one of full size is recorded first."""

    def check(figure: Figure) -> None:
        if is_full:
            figure.keep()
        assert figure.problems == []

    return check


@pytest.fixture
def bounded_memory() -> Iterator[None]:
    """A limit under which an allocation without bounds is a MemoryError, not the machine's end."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + _MEMORY_BYTES, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)
