"""What a call from C++ costs beside the work it asks for, as a page: docs/benchmarks/embedding.md.

Run it by hand: ``python tests/benchmarks/embedding_cpp.py``, about a minute. Wanted are less than 50 microseconds a
small batch. Times are those of the calling thread on its processor.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from machine import as_markdown

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "tests" / "embedding_cpp" / "overhead.cc"
PAGE = ROOT / "docs" / "benchmarks" / "embedding.md"
WANTED_MICROS = 50.0
#: Candidates of a batch that counts as small.
_SMALL = 256
_BARE = "nothing to judge by"

#: Runs in the program's Python: tells what rules and draft took, without what tvm-ffi and the checks cost.
_INSIDE = """
import time
import tvm_ffi
from prune_engine.ffi.sessions import Session

taken = [0.0]

def timed(method):
    def wrapper(*arguments):
        start = time.thread_time_ns()
        try:
            return method(*arguments)
        finally:
            taken[0] += (time.thread_time_ns() - start) / 1e3
    return wrapper

def inside():
    told, taken[0] = taken[0], 0.0
    return told

Session.flags, Session.scores = timed(Session.flags), timed(Session.scores)
tvm_ffi.register_global_func("overhead.Inside", inside)
"""


@dataclass(frozen=True)
class Row:
    """One kind of call, in microseconds: the median of the whole, and what it costs beside the work in it."""

    call: str
    n: int
    whole: float
    beside: float
    beside_p95: float


def measured() -> list[Row]:
    """Build the program, run it, read what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        program, inside = Path(folder) / "overhead", Path(folder) / "inside.py"
        inside.write_text(_INSIDE, encoding="utf-8")
        command = [sys.executable, "-m", "prune_engine.ffi", "--embed", "--cxxflags", "--ldflags"]
        flags = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        compiler = os.environ.get("CXX", "g++")
        subprocess.run([compiler, "-O2", str(SOURCE), "-o", str(program), *flags], check=True)
        done = subprocess.run(
            [str(program), sys.prefix, str(inside)], stdout=subprocess.PIPE, text=True, check=True
        )
    cells = [line.split("\t") for line in done.stdout.splitlines()]
    return [Row(call, int(n), *map(float, numbers)) for call, n, *numbers in cells]


def page_text(rows: list[Row]) -> str:
    """The page."""
    lines = [
        f"| {row.call} | {row.n:,} | {row.whole:,.1f} | {row.beside:.1f} | {row.beside_p95:.1f} |" for row in rows
    ]
    first, *_, last = [row for row in rows if _BARE in row.call]
    return "\n".join(
        [
            "# Calls from C++",
            "",
            "What a call of [the functions for C++](../reference/ffi.md) costs, seen from a C++ program, in",
            "microseconds of the calling thread's processor time. *Beside the work* is each call less what rules",
            "and draft took in it: crossing the language, checking arguments, tensors in and out. Wanted are less",
            f"than {WANTED_MICROS:.0f} µs for up to {_SMALL} candidates. Calls back to back with",
            f"nothing to judge by have {first.beside:.0f} µs with {first.n} candidates and",
            f"{last.beside:.0f} µs with {last.n:,}. After",
            "a millisecond or more of work the same steps find the processor's caches cold, and take longer.",
            "",
            "| call | candidates | whole call, median | beside the work, median | 95th percentile |",
            "|---|---:|---:|---:|---:|",
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


def main() -> int:
    """Measure and write. Returns 1 where a call costs more than is wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=PAGE, help="where the page is written")
    asked = parser.parse_args()
    rows = measured()
    asked.out.write_text(page_text(rows), encoding="utf-8")
    print(page_text(rows))
    return int(any(row.beside > WANTED_MICROS for row in rows if _BARE in row.call and row.n <= _SMALL))


if __name__ == "__main__":
    sys.exit(main())
