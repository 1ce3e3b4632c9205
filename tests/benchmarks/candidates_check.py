"""`prune-engine candidates` end to end: how many of 512 pass in stock TVM, and how long they take to come.

Run it by hand: ``python tests/benchmarks/candidates_check.py``. For each workload the command runs in a process of
its own, first with an empty cache folder; TVM's import is timed in another one and subtracted. Then stock TVM (no
prune_engine) replays every trace and applies all its post-processors, VerifyGPUCode among them. Wanted are 512 of
512, and less than 3 s beyond TVM's import.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

N = 512
TARGET = "cuda/a100"
REPEATS = 3
WORKLOADS = ("gemm:512x512x512", "conv2d:1x64x56x56,64x3x3,p1", "conv2d:1x512x7x7,512x3x3,p1")

STOCK = """
import json, sys
from pathlib import Path
import tvm
from tvm.s_tir import Schedule, meta_schedule
from tvm.s_tir.schedule import Trace

lines = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
mod = tvm.ir.load_json((Path(sys.argv[2]) / (lines[0]["task_id"] + ".json")).read_text())
target = tvm.target.Target(lines[0]["target"])
context = meta_schedule.TuneContext(mod=mod, target=target, space_generator="post-order-apply", num_threads=1)
postprocs = list(context.space_generator.postprocs)
assert any(type(p).__name__ == "VerifyGPUCode" for p in postprocs)
n_passed, programs = 0, set()
for line in lines:
    schedule = Schedule(mod)
    Trace.apply_json_to_schedule(line["trace"], schedule)
    programs.add(json.dumps(line["decisions"], sort_keys=True) + str(line["sketch"]))
    schedule.enter_postproc()
    n_passed += all(postproc.apply(schedule) for postproc in postprocs)
print(n_passed, len(programs), len(lines))
"""


def seconds(command: list[str], cache: Path | None = None) -> float:
    """Wall time of a process that must succeed."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)} if cache else None
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - started


def main() -> None:
    """Print seconds and counts of each workload, and JSON of it all."""
    import_secs = statistics.median(seconds([sys.executable, "-c", "import tvm"]) for _ in range(REPEATS))
    print(f"import tvm: {import_secs:.2f} s")
    results = []
    for workload in WORKLOADS:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "candidates.jsonl"
            command = [sys.executable, "-m", "prune_engine.cli", "candidates", workload, "--target", TARGET]
            command += ["-n", str(N), "--seed", "0", "--out", str(out), "--modules", folder]
            cache = Path(folder) / "cache"
            first_secs = seconds(command, cache)
            total_secs = statistics.median(seconds(command, cache) for _ in range(REPEATS))
            checked = [sys.executable, "-c", STOCK, str(out), folder]
            done = subprocess.run(checked, check=True, capture_output=True, text=True)
        n_passed, n_distinct, n_lines = map(int, done.stdout.split()[-3:])
        beyond_secs = total_secs - import_secs
        print(
            f"{workload}: {n_passed} of {n_lines} pass, {n_distinct} distinct; "
            f"{beyond_secs:.2f} s beyond TVM's import (first run {first_secs - import_secs:.2f} s)"
        )
        results.append(
            {
                "workload": workload,
                "n": n_lines,
                "n_distinct": n_distinct,
                "n_passed": n_passed,
                "secs_beyond_import": beyond_secs,
                "first_run_secs_beyond_import": first_secs - import_secs,
            }
        )
    print(json.dumps({"import_secs": import_secs, "target": TARGET, "results": results}))


if __name__ == "__main__":
    main()
