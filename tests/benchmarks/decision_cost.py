"""What writing the decision chain costs a round, and the disk.

    python tests/benchmarks/decision_cost.py [--rounds 10]

Tunes a matrix product of 512^3 on a workbench that is a formula, with the space, the rules, the draft and the
verifier of a real run, so that lines are as long as theirs. Prints of each round: lines, processor milliseconds
of recording it, bytes written; then the median of a line.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from prune_engine.config import EngineConfig
from prune_engine.decisions.files import DecisionWriter
from prune_engine.engine import Engine
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.loop.recording import Recorder
from prune_engine.metaschedule.materialise import Materialiser
from prune_engine.metaschedule.targets import resolve_target
from prune_engine.metaschedule.workloads.loading import load_tasks
from prune_engine.store.sql import SqlStore
from prune_engine.testing import FakeWorkbench


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    target = resolve_target("llvm -mcpu=skylake-avx512 -num-cores=2", 2)
    (task,) = load_tasks("gemm:512x512x512", target)
    space = Materialiser(task, 0).design_space()
    profile = ProfileRegistry().resolve("xeon-8272cl")
    found: list[tuple[int, float, int]] = []

    class Counting(DecisionWriter):
        n_lines = n_bytes = 0

        def add(self, lines: object) -> None:
            listed = list(lines)  # type: ignore[call-overload]
            before = sum(path.stat().st_size for path in self.folder.glob("*")) if self.folder.exists() else 0
            super().add(listed)
            self.n_lines = len(listed)
            self.n_bytes = sum(path.stat().st_size for path in self.folder.glob("*")) - before

    with tempfile.TemporaryDirectory() as folder:
        writer = Counting(Path(folder) / "decisions")
        engine = Engine(
            EngineConfig.of(n_trials=16 * rounds, transfer=False, first_trials=0),
            FakeWorkbench(spaces={task.task_id: space}),
            SqlStore("sqlite://"),
            profile,
            decisions=writer,
        )
        note = Recorder.note

        def timed(self: Recorder, *arguments: object) -> None:
            started = time.process_time()
            note(self, *arguments)  # type: ignore[arg-type]
            found.append((writer.n_lines, time.process_time() - started, writer.n_bytes))

        Recorder.note = timed  # type: ignore[method-assign, assignment]
        engine.run([task])
    for n_lines, secs, n_bytes in found:
        print(f"{n_lines:6,} lines {secs * 1e3:7.1f} ms {n_bytes:9,} bytes")
    per_line = statistics.median(secs / max(n, 1) for n, secs, _ in found)
    size = statistics.median(n_bytes / max(n, 1) for n, _, n_bytes in found)
    print(f"median of a line: {per_line * 1e6:.1f} us, {size:.0f} bytes; of 512: {per_line * 512e3:.1f} ms")


if __name__ == "__main__":
    main()
