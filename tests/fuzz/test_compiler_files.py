"""Broken databases, workloads and ONNX models, in processes of their own: the compiler itself may crash on them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fuzz.onnx_models import good_model
from kits.recordings import gemm_database
from reliability.figure import Figure

CHILD = Path(__file__).parent / "child.py"
#: How many of each are read by `make test`; a full run reads two hundred times as many.
N_READ = {"database": 6, "workload_json": 3, "onnx": 10}
_TIMES_FULL = 200
#: What the process may have come to, the compiler itself included.
_MOST_MIB = 1024


@pytest.mark.parametrize("kind", N_READ)
def test_files_that_the_compiler_reads(
    kind: str, tmp_path: Path, is_full: bool, reached: Callable[[Figure], None]
) -> None:
    gemm_database(tmp_path)
    (tmp_path / "good.onnx").write_bytes(good_model().SerializeToString())
    n = N_READ[kind] * (_TIMES_FULL if is_full else 1)
    faults: list[str] = []
    crashes: list[str] = []
    first, peak_mib = 0, 0
    while first < n:
        command = [sys.executable, str(CHILD), kind, str(tmp_path), str(first), str(n)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=None if is_full else 280, check=False)
        said = [line.split(maxsplit=2) for line in run.stdout.splitlines()]
        reached_number = max((int(words[1]) for words in said if words[0] == "reading"), default=-1)
        assert reached_number >= first, run.stderr[-2000:]
        faults += [" ".join(words) for words in said if words[0] == "fault"]
        peak_mib = max([peak_mib, *(int(words[1]) for words in said if words[0] == "peak")])
        if run.returncode:
            crashes.append(f"number {reached_number} ended the process with {run.returncode}")
        first = reached_number + 1
    assert (faults, crashes) == ([], [])
    reached(
        Figure(
            f"fuzz_{kind}",
            n,
            {"unexpected errors": len(faults), "crashes": len(crashes)},
            {"peak memory MiB": (peak_mib, _MOST_MIB)},
        )
    )
