"""Processor time and size of a report of many kernels: `python tests/benchmarks/report_speed.py`."""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
from pathlib import Path

from prune_engine.report.collecting import collect
from prune_engine.report.page import render
from prune_engine.report.sources import opened

_KIT = Path(__file__).parents[1] / "report" / "conftest.py"


def main() -> None:
    """Make up a run, report on it and print what that took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--trials", type=int, default=200)
    given = parser.parse_args()
    spec = importlib.util.spec_from_file_location("report_kit", _KIT)
    assert spec is not None
    assert spec.loader is not None
    kit = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kit)
    with tempfile.TemporaryDirectory() as folder:
        out = kit.make_run(Path(folder), n_tasks=given.tasks, n_trials=given.trials)
        begun = time.process_time()
        with opened(str(out), None) as source:
            facts = collect(source)
        read = time.process_time()
        page = render(facts)
        done = time.process_time()
    print(f"{given.tasks} tasks of {given.trials} trials: {done - begun:.2f} s of processor time", end=" ")
    print(f"(reading {read - begun:.2f}, drawing {done - read:.2f}), {len(page.encode()) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
