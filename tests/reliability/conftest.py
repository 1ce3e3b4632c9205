"""The option that makes the figures as large as they are told to be, and what keeps them then."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from reliability.figure import Figure


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="Run reliability figures at full size and record them.")


@pytest.fixture(scope="session")
def is_full(pytestconfig: pytest.Config) -> bool:
    # The option is unknown where this folder is not named on the command line.
    return bool(pytestconfig.getoption("--full", default=False)) or os.environ.get("PRUNE_ENGINE_FULL") == "1"


@pytest.fixture
def reached(is_full: bool) -> Callable[[Figure], None]:
    """Assert that a figure is reached; one of full size is recorded first."""

    def check(figure: Figure) -> None:
        if is_full:
            figure.keep()
        assert figure.problems == []

    return check
