"""The boosting library is loaded without what it does not need, and nobody else is given less of it."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

_PLUGIN = "from prune_engine_lightgbm.library import boosting_library\n"
is_lean = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="scikit-learn is loaded first there"
)


def printed(script: str) -> str:
    """What a fresh process prints."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@is_lean
def test_what_is_not_needed_is_not_loaded() -> None:
    script = f"""
import sys
import numpy as np
{_PLUGIN}
from prune_engine_lightgbm.boosting import fit_trees, leaves, predict, refit
rows = np.arange(64, dtype=np.float32).reshape(32, 2)
booster = fit_trees(rows, rows[:, 0].astype(np.float64), 0)
assert np.ptp(predict(booster, rows)) > 1
assert len(leaves(booster, rows)) == 32
refit(booster.model_to_string(), rows, rows[:, 1].astype(np.float64))
print(sorted({{m.split(".")[0] for m in sys.modules}} & {{"lightgbm", "sklearn", "pandas", "pyarrow"}}))
"""
    assert printed(script) == "[]"


def test_who_imports_it_later_gets_all_of_it() -> None:
    script = f"""
{_PLUGIN}
lean = boosting_library()
import lightgbm
assert boosting_library() is lightgbm
import numpy as np
model = lightgbm.LGBMRegressor(n_estimators=2, verbosity=-1).fit(np.arange(80.0).reshape(40, 2), np.arange(40.0))
print(len(model.predict(np.ones((3, 2)))), lean.__version__ == lightgbm.__version__)
"""
    assert printed(script) == "3 True"


@is_lean
def test_another_thread_finds_everything_meanwhile() -> None:
    script = """
import importlib.util, threading
from prune_engine_lightgbm.library import _hidden
found = {}
with _hidden(frozenset({"json"})):
    def look():
        found["there"] = importlib.util.find_spec("json") is not None
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    try:
        importlib.util._find_spec("json", None)
    except ModuleNotFoundError as error:
        found["here"] = error.name
print(found["there"], found["here"])
"""
    assert printed(script) == "True json"
