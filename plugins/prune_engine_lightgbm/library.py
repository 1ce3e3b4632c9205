"""The lightgbm package without what it can do beside boosting.

``import lightgbm`` brings in scikit-learn, pandas and whatever else of that kind is installed, for interfaces that
are not used here: three quarters of the second or more that it takes, in the middle of a search.
"""

from __future__ import annotations

import importlib
import platform
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any

_PACKAGE = "lightgbm"
#: What lightgbm looks for and does without.
_NOT_NEEDED = frozenset({"sklearn", "pandas", "dask", "matplotlib", "graphviz", "datatable", "pyarrow"})


def boosting_library() -> Any:
    """The package ``lightgbm``: the one that somebody imported, else a copy that lacks what is not needed."""
    # Elsewhere scikit-learn has to be loaded before it, if it ever is: see its compat.py.
    is_free = sys.platform == "linux" and platform.machine() == "x86_64"
    return importlib.import_module(_PACKAGE) if _PACKAGE in sys.modules or not is_free else _lean_copy()


@lru_cache(maxsize=1)
def _lean_copy() -> ModuleType:
    """A copy that ``sys.modules`` does not hold, so that whoever imports lightgbm later gets all of it.

    Both use one native library.
    """
    with _hidden(_NOT_NEEDED - sys.modules.keys()):
        package = importlib.import_module(_PACKAGE)
    for name in [name for name in sys.modules if name.partition(".")[0] == _PACKAGE]:
        del sys.modules[name]
    return package


@contextmanager
def _hidden(packages: frozenset[str]) -> Iterator[None]:
    """Have this thread find none of these packages meanwhile."""
    finder = _NotFound(packages)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _NotFound(MetaPathFinder):
    """Says of some packages that they are not installed, to one thread alone."""

    def __init__(self, packages: frozenset[str]) -> None:
        self._packages, self._thread = packages, threading.get_ident()

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> None:  # noqa: ARG002
        if threading.get_ident() == self._thread and fullname.partition(".")[0] in self._packages:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
