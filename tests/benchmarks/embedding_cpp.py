"""What a call from C++ costs beside the work it asks for, as a page: docs/benchmarks/embedding.md.

Run it by hand: ``python tests/benchmarks/embedding_cpp.py``, four minutes. Wanted are less than 50 microseconds a
small batch. Times are those of the calling thread on its processor.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from machine import as_markdown

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "tests" / "embedding_cpp" / "overhead.cc"
PAGE = ROOT / "docs" / "benchmarks" / "embedding.md"
WANTED_MICROS = 50.0
#: Candidates of a batch that counts as small.
_SMALL = 256
#: Microseconds: what the clock tells apart.
_LEAST_HALF = 0.1
_BARE, _GEMM, _AFTER_HOST = "nothing to judge by", "a GEMM of TVM's", "of the host's"

#: Runs in the program's Python: tells what rules and draft took, without what tvm-ffi and the checks cost, and asks
#: for the same batch without them.
_INSIDE = """
import time
import numpy
import tvm_ffi
from prune_engine.ffi.sessions import Session

took, prepared = [], []

def timed(method):
    def wrapper(*arguments):
        start = time.thread_time_ns()
        try:
            return method(*arguments)
        finally:
            took.append((time.thread_time_ns() - start) / 1e3)
    return wrapper

def inside():
    told = list(took)
    took.clear()
    return told

def prepare(name, space, rows, profile):
    session, ours = profile.session(space), numpy.from_dlpack(rows).copy()
    prepared[:] = [getattr(session, name), ours]

def from_python():
    judge, rows = prepared
    start = time.thread_time_ns()
    judge(0, rows, {})
    return (time.thread_time_ns() - start) / 1e3

Session.flags, Session.scores = timed(Session.flags), timed(Session.scores)
tvm_ffi.register_global_func("overhead.Inside", inside)
tvm_ffi.register_global_func("overhead.Prepare", prepare)
tvm_ffi.register_global_func("overhead.FromPython", from_python)
"""


@dataclass(frozen=True)
class Row:
    """One kind of call, in microseconds: the median of the whole, and what it costs beside the work in it.

    ``differences`` are, for a batch, the median of what it takes more than from Python, and half of what holds it.
    """

    call: str
    n: int
    whole: float
    beside: float
    beside_p95: float
    differences: tuple[float, ...]

    @property
    def is_small_batch(self) -> bool:
        """Whether it is one that has a mark."""
        return bool(self.differences) and self.n <= _SMALL

    @property
    def more(self) -> str:
        """What the page says of the differences."""
        return "{:.0f} ± {:.0f}".format(*self.differences) if self.differences else ""


def measured(runs: int) -> list[Row]:
    """Build the program, run it, read what it prints.

    Each row is of the run in which the whole call took least; its differences are those of all runs together.
    """
    with tempfile.TemporaryDirectory() as folder:
        program, inside = Path(folder) / "overhead", Path(folder) / "inside.py"
        inside.write_text(_INSIDE, encoding="utf-8")
        command = [sys.executable, "-m", "prune_engine.ffi", "--embed", "--cxxflags", "--ldflags"]
        flags = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        compiler = os.environ.get("CXX", "g++")
        subprocess.run([compiler, "-O2", str(SOURCE), "-o", str(program), *flags], check=True)
        command = [str(program), sys.prefix, str(inside)]
        told = [subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout for _ in range(runs)]
    rows = [[_row(*line.split("\t")) for line in text.splitlines()] for text in told]
    return [
        replace(min(same, key=lambda row: row.whole), differences=_together([row.differences for row in same]))
        for same in zip(*rows, strict=True)
    ]


def _together(runs: list[tuple[float, ...]]) -> tuple[float, ...]:
    """Medians with their half intervals as one: the mean, weighed by how sure each is."""
    if not runs[0]:
        return ()
    weights = [1 / max(half, _LEAST_HALF) ** 2 for _, half in runs]
    mean = sum(weight * median for weight, (median, _) in zip(weights, runs, strict=True)) / sum(weights)
    return mean, sum(weights) ** -0.5


def _row(call: str, n: str, whole: str, beside: str, p95: str, *differences: str) -> Row:
    return Row(call, int(n), float(whole), float(beside), float(p95), tuple(map(float, differences)))


def page_text(rows: list[Row], runs: int) -> str:
    """The page."""
    lines = [
        f"| {row.call} | {row.n:,} | {row.whole:,.1f} | {row.beside:.1f} | {row.beside_p95:.1f} | {row.more} |"
        for row in rows
    ]
    small = [row for row in rows if row.is_small_batch]
    bare = _between([row for row in small if _BARE in row.call])
    work = _between([row for row in small if _BARE not in row.call and _AFTER_HOST not in row.call])
    host = _between([row for row in small if _AFTER_HOST in row.call])
    large = _between([row for row in rows if _GEMM in row.call and row.n > _SMALL])
    abi, cold_abi = (row.whole for row in rows if row.call.startswith("AbiVersion"))
    copy = next(row for row in rows if row.call.startswith("memcpy"))
    return "\n".join(
        [
            "# Calls from C++",
            "",
            "What a call of [the functions for C++](../reference/ffi.md) costs, seen from a C++ program, in",
            "microseconds of the calling thread's processor time. Others that run slow the processor too, so",
            f"each line is of the quietest of {runs} runs: the one in which the whole call took least.",
            "",
            "- *Beside the work* is each call less what rules and draft took in it, by the same clock, in calls",
            "  one right after the other: crossing the language, checking arguments, tensors in and out.",
            "- *More than from Python* subtracts nothing: the same batch is asked in turns from C++ and from",
            "  Python, where its rows are an array already. It is the median of the differences, in all runs, ±",
            "  what holds it in 95 of 100 cases: the coarser figure, as work varies by more than a call costs, but",
            "  with what work loses where the call's steps took its place in the caches.",
            "",
            f"Wanted are less than {WANTED_MICROS:.0f} µs beside the work for up to {_SMALL} candidates.",
            f"With nothing to judge by they cost {bare} µs, with rules and draft to ask {work} µs: work leaves",
            "little of the call's own steps in the processor's caches. `AbiVersion`, which does nothing, has",
            f"{abi:.1f} µs in a loop and {cold_abi:.1f} µs after a batch. A host that writes 8 MiB of its own",
            f"between two calls leaves nothing there, and pays {host} µs.",
            f"Batches of {copy.n:,} of the GEMM's cost {large} µs: their rows are copied and checked, and",
            f"copying alone has {copy.whole:.0f} µs after a batch.",
            "",
            "| call | candidates | whole call, median | beside the work, median | 95th percentile "
            "| more than from Python |",
            "|---|---:|---:|---:|---:|---:|",
            *lines,
            "",
            "## Machine",
            "",
            as_markdown(),
            "",
            "`python tests/benchmarks/embedding_cpp.py` writes this page.",
            "",
        ]
    )


def _between(rows: list[Row]) -> str:
    least, most = (f"{found(row.beside for row in rows):.0f}" for found in (min, max))
    return least if least == most else f"{least} to {most}"


def main() -> int:
    """Measure and write. Returns 1 where a call costs more than is wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=PAGE, help="where the page is written")
    parser.add_argument("--runs", type=int, default=6, help="of each line the quietest run counts")
    asked = parser.parse_args()
    rows = measured(asked.runs)
    page = page_text(rows, asked.runs)
    asked.out.write_text(page, encoding="utf-8")
    print(page)
    judged = [row for row in rows if row.is_small_batch and _AFTER_HOST not in row.call]
    return int(any(row.beside > WANTED_MICROS for row in judged))


if __name__ == "__main__":
    sys.exit(main())
