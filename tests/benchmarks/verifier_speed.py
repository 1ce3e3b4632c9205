"""What the verifier costs on one core: columns, predictions, updates, and the first question about a sketch.

    python tests/benchmarks/verifier_speed.py [--rows 100000]

Sketches are TVM's own. Times are of the processor; the draft is part of what is asked, but not of these figures.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from prune_engine_lightgbm.columns import columns_of
from prune_engine_lightgbm.device import device_of
from prune_engine_lightgbm.residual import ResidualVerifier

sys.path.insert(0, str(Path(__file__).parents[1]))

from kits.nests import batch_of, random_rows
from symbols_speed import real_sketch

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.testing import make_context, make_measurement

WORKLOADS = ("gemm_square", "conv3x3")
N_LEARNT = 1000


def cpu_secs(work: Callable[[], object]) -> float:
    """Processor seconds of one call."""
    started = time.process_time()
    work()
    return time.process_time() - started


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    n = parser.parse_args().rows
    profile = ProfileRegistry().resolve("amd-epyc-9654", n_threads=2)
    device, context = device_of(profile), make_context(profile)
    rng = np.random.default_rng(0)
    for workload in WORKLOADS:
        sketch = real_sketch(workload, "llvm")

        def batch(size: int, seed: int) -> CandidateBatch:
            return batch_of(sketch, random_rows(sketch, size, seed))  # noqa: B023

        first = cpu_secs(lambda: columns_of(batch(512, 9), device))
        columns_secs = cpu_secs(lambda: columns_of(batch(n, 1), device))
        print(f"{workload}: first question {first:.2f} s; columns {n / columns_secs:,.0f} candidates/s")
        for prior in ("none", "builtin"):
            verifier = ResidualVerifier(prior=prior)
            read = cpu_secs(lambda: verifier.score(batch(1, 2), context))  # noqa: B023
            learnt = batch(N_LEARNT, 3)
            measurements = [
                make_measurement(f"c{i}", float(s)) for i, s in enumerate(rng.lognormal(-7, 1, N_LEARNT))
            ]
            verifier.update(learnt, measurements, context)
            small = batch(1, 4)
            update = cpu_secs(lambda: verifier.score(small, context))  # noqa: B023
            again = batch(16, 5)
            verifier.update(again, measurements[:16], context)
            update = min(update, cpu_secs(lambda: verifier.score(small, context)))  # noqa: B023
            asked = batch(n, 6)
            columns_of(asked, device)
            whole = cpu_secs(lambda: verifier.score(asked, context))  # noqa: B023
            print(
                f"  prior {prior}: prepared in {read:.2f} s, update at {N_LEARNT} rows {1000 * update:.0f} ms, "
                f"scores {n / whole:,.0f} candidates/s with columns"
            )


if __name__ == "__main__":
    main()
