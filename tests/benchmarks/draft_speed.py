"""How fast the draft is: candidates per second on one core, by kind of kernel.

    python tests/benchmarks/draft_speed.py [--rows 1000000] [--json FILE]

Sketches are TVM's own, all that could be read of each workload; the slowest sketch counts. Rates are of the wall
clock, best of three, plans of structures made before; on a machine that does other things too, look at the rates by
processor time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1]))

import machine
from kits import nests
from prune_engine_draft.scorer import SymbolDraft
from symbols_speed import real_sketches

from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.hardware.slice import with_threads
from prune_engine.space import Sketch

BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class Case:
    """One rate to measure, and what it should at least be."""

    name: str
    workload: str
    kind: str
    profile: str
    wanted_per_sec: float


CASES = (
    Case("CPU GEMM 512^3", "gemm_square", "llvm", "amd-epyc-9654", 1e6),
    Case("CUDA conv 3x3", "conv3x3", "cuda", "nvidia-a100-sxm-40gb", 2.5e5),
)


def rate(sketch: Sketch, profile: HardwareProfile, n_rows: int) -> tuple[float, float]:
    """Candidates per second of one sketch, by wall clock and by processor time."""
    rows, draft = nests.random_rows(sketch, n_rows), SymbolDraft()
    draft.score(nests.batch_of(sketch, rows[:BATCH_ROWS]), profile)
    wall, processor = [], []
    for _ in range(3):
        started, used = time.perf_counter(), time.thread_time()
        for start in range(0, n_rows, BATCH_ROWS):
            draft.score(nests.batch_of(sketch, rows[start : start + BATCH_ROWS]), profile)
        wall.append(time.perf_counter() - started)
        processor.append(time.thread_time() - used)
    return n_rows / min(wall), n_rows / min(processor)


def measured(case: Case, n_rows: int) -> dict[str, object]:
    """The slowest sketch of a case."""
    profile = ProfileRegistry().resolve(case.profile)
    if profile.kind.value == "cpu":
        profile = with_threads(profile, 2)
    rates = [rate(sketch, profile, n_rows) for sketch in real_sketches(case.workload, case.kind)]
    wall, processor = min(rates)
    return {
        "case": case.name,
        "per_sec": wall,
        "per_processor_sec": processor,
        "wanted_per_sec": case.wanted_per_sec,
        "sketches": len(rates),
        "rows": n_rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = [measured(case, options.rows) for case in CASES]
    for line in found:
        print(
            f"{line['case']:20s} {line['per_sec'] / 1e3:8.0f} k/s wall {line['per_processor_sec'] / 1e3:8.0f} k/s "  # type: ignore[operator]
            f"processor, wanted {line['wanted_per_sec'] / 1e3:.0f} k/s"  # type: ignore[operator]
        )
    if options.json:
        options.json.write_text(json.dumps({"machine": machine.describe(), "rates": found}, indent=2))


if __name__ == "__main__":
    main()
