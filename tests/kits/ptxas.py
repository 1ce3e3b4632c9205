"""Registers and spills of CUDA kernels, as ptxas reports them; no GPU is needed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.targets import make_target


@dataclass(frozen=True)
class Registers:
    """What one kernel uses per thread. ``n_kernels`` counts the kernels of the module; the numbers are maxima."""

    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    n_kernels: int


def find_nvcc() -> str | None:
    """nvcc on the PATH, under CUDA_HOME, or out of NVIDIA's packages; None where there is none."""
    places = [
        shutil.which("nvcc"),
        *(os.environ.get(name, "") + "/bin/nvcc" for name in ("CUDA_HOME", "CUDA_PATH")),
    ]
    places += [str(p) for folder in sys.path for p in Path(folder).glob("nvidia/cuda_nvcc/bin/nvcc")]
    return next((place for place in places if place and Path(place).is_file()), None)


def registers_of(mod: Any, target: str, arch: str, nvcc: str, *, timeout_secs: float = 120) -> Registers:
    """Compile a scheduled module for ``arch`` (such as sm_80). Raises RuntimeError with nvcc's words."""
    code = cuda_source(mod, target)
    with TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.cu"
        source.write_text(code, encoding="utf-8")
        command = [nvcc, "-cubin", f"-arch={arch}", "-O3", "-Xptxas", "-v", "-o", os.devnull, str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_secs, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-500:])
    return parse(done.stderr)


def cuda_source(mod: Any, target: str) -> str:
    """The CUDA source that TVM generates; compiling it is not part of building."""
    made = make_target(target)
    built = import_tvm().tirx.build(mod, target=made.with_host("llvm") if made.host is None else made)
    (device,) = (m for m in built.imports if str(m.kind) == "cuda")
    return str(device.inspect_source())


def parse(report: str) -> Registers:
    """Read the text of ``ptxas -v``."""

    def largest(pattern: str) -> int:
        return max((int(number) for number in re.findall(pattern, report)), default=0)

    used = re.findall(r"Used (\d+) registers", report)
    if not used:
        raise RuntimeError(f"ptxas reported no registers: {report[-300:]}")
    return Registers(
        registers=max(map(int, used)),
        spill_store_bytes=largest(r"(\d+) bytes spill stores"),
        spill_load_bytes=largest(r"(\d+) bytes spill loads"),
        stack_bytes=largest(r"(\d+) bytes stack frame"),
        n_kernels=len(used),
    )
