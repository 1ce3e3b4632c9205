"""Compile a matrix product with Triton for devices that need not be there, and note what each configuration takes.

Writes tests/plugins/data/triton_matmul_resources.tsv: shared memory as Triton allocates it, registers and spilled
bytes as ptxas reports them. It takes some minutes of one core and no GPU; it goes on where it was stopped.
"""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource

OUT = Path(__file__).parents[1] / "plugins" / "data" / "triton_matmul_resources.tsv"
HEADER = "arch\tdtype\tBLOCK_M\tBLOCK_N\tBLOCK_K\tnum_warps\tnum_stages\tshared_bytes\tregisters\tspilled_bytes"
TYPES = {"float16": "fp16", "float32": "fp32"}


@triton.jit
def matmul(
    a_ptr,
    b_ptr,
    c_ptr,
    M,  # noqa: N803
    N,  # noqa: N803
    K,  # noqa: N803
    stride_a,
    stride_b,
    stride_c,
    BLOCK_M: tl.constexpr,  # noqa: N803
    BLOCK_N: tl.constexpr,  # noqa: N803
    BLOCK_K: tl.constexpr,  # noqa: N803
):
    """The loop of Triton's tutorial: row-major operands, masked along K, summed in float32."""
    pid = tl.program_id(0)
    n_columns = tl.cdiv(N, BLOCK_N)
    rows = (pid // n_columns * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    columns = (pid % n_columns * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    steps = tl.arange(0, BLOCK_K)
    a = a_ptr + rows[:, None] * stride_a + steps[None, :]
    b = b_ptr + steps[:, None] * stride_b + columns[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        x = tl.load(a, mask=steps[None, :] < K - k * BLOCK_K, other=0.0)
        y = tl.load(b, mask=steps[:, None] < K - k * BLOCK_K, other=0.0)
        total = tl.dot(x, y, total)
        a += BLOCK_K
        b += BLOCK_K * stride_b
    row = pid // n_columns * BLOCK_M + tl.arange(0, BLOCK_M)
    column = pid % n_columns * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (row[:, None] < M) & (column[None, :] < N)
    tl.store(c_ptr + stride_c * row[:, None] + column[None, :], total.to(c_ptr.dtype.element_ty), mask=inside)


def compiled(arch: int, dtype: str, block: tuple[int, int, int], warps: int, stages: int) -> tuple[int, int, int]:
    """Bytes of shared memory, registers of a thread, bytes that are spilled."""
    signature = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), f"*{TYPES[dtype]}")
    signature |= dict.fromkeys(("M", "N", "K", "stride_a", "stride_b", "stride_c"), "i32")
    signature |= dict.fromkeys(("BLOCK_M", "BLOCK_N", "BLOCK_K"), "constexpr")
    source = ASTSource(
        matmul,
        signature=signature,
        constexprs={(9 + i,): size for i, size in enumerate(block)},
        attrs={(i,): [["tt.divisibility", 16]] for i in range(9)},
    )
    options = {"num_warps": warps, "num_stages": stages}
    kernel = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.ptx"
        path.write_text(kernel.asm["ptx"])
        name = f"sm_{arch}a" if arch >= 90 else f"sm_{arch}"
        command = [get_ptxas(arch).path, "-v", f"--gpu-name={name}", str(path), "-o", f"{folder}/out"]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers = max(int(n) for n in re.findall(r"Used (\d+) registers", told))
    spilled = sum(int(n) for n in re.findall(r"(\d+) bytes spill stores", told))
    return kernel.metadata.shared, registers, spilled


def configurations() -> list[tuple[int, str, tuple[int, int, int], int, int]]:
    """A spread of usual tiles, and some that a device cannot hold."""
    blocks = [
        (16, 64, 32),
        (32, 32, 64),
        (64, 128, 64),
        (128, 128, 32),
        (128, 256, 64),
        (64, 64, 32),
        (128, 128, 64),
    ]
    spread = itertools.product(blocks, (4, 8), (2, 4, 1, 5))
    return [
        (arch, dtype, *one) for one in spread for arch, dtype in ((80, "float16"), (90, "float16"), (80, "float32"))
    ]


def main() -> None:
    OUT.parent.mkdir(exist_ok=True)
    if not OUT.exists():
        OUT.write_text(HEADER + "\n")
    known = OUT.read_text()
    for arch, dtype, block, warps, stages in configurations():
        named = "\t".join(map(str, (arch, dtype, *block, warps, stages)))
        if f"\n{named}\t" in known:
            continue
        took = compiled(arch, dtype, block, warps, stages)
        with OUT.open("a") as file:
            file.write("\t".join((named, *map(str, took))) + "\n")


if __name__ == "__main__":
    sys.exit(main())
