"""Planted kernels: real TIR, built by the pool like any candidate, that call into libc to misbehave."""

from __future__ import annotations

from typing import Any

from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.measure import BuildJob

tvm = import_tvm()
from tvm.script import tirx  # noqa: E402

N = 16
SHAPES = ((N,), (N,))
DTYPES = ("float32", "float32")
TASK = "plus-one"
TARGET = '{"kind": "llvm"}'


class Kernels:
    """Makers of jobs whose task is ``B = A + 1``."""

    shapes, dtypes, task, target = SHAPES, DTYPES, TASK, TARGET

    def plus(self, name: str, amount: float = 1.0) -> BuildJob:
        """A plain kernel; right only for ``amount`` 1."""

        @tirx.prim_func
        def main(a: tirx.handle, b: tirx.handle) -> None:
            x = tirx.match_buffer(a, (N,), "float32")
            y = tirx.match_buffer(b, (N,), "float32")
            for i in range(N):
                y[i] = x[i] + tirx.float32(amount)

        return _job(name, main)

    def calling(self, name: str, function: str, *args: Any) -> BuildJob:
        """A kernel that runs on every thread, calls a C function, then computes the right thing."""

        @tirx.prim_func
        def main(a: tirx.handle, b: tirx.handle) -> None:
            x = tirx.match_buffer(a, (N,), "float32")
            y = tirx.match_buffer(b, (N,), "float32")
            for i in tirx.parallel(N):
                y[i] = x[i]
            tirx.evaluate(tirx.call_extern("int32", function, *args))
            for i in range(N):
                y[i] = x[i] + tirx.float32(1)

        return _job(name, main)

    def shell(self, name: str, command: str) -> BuildJob:
        """A kernel that runs a shell command; ``$PPID`` is the process that runs the kernel."""
        return self.calling(name, "system", command)

    def printing(self, name: str, text: str, times: int) -> BuildJob:
        @tirx.prim_func
        def main(a: tirx.handle, b: tirx.handle) -> None:
            x = tirx.match_buffer(a, (N,), "float32")
            y = tirx.match_buffer(b, (N,), "float32")
            for _ in range(times):
                tirx.evaluate(tirx.call_extern("int32", "puts", text))
            for i in range(N):
                y[i] = x[i] + tirx.float32(1)

        return _job(name, main)

    def overwriting_input(self, name: str) -> BuildJob:
        @tirx.prim_func
        def main(a: tirx.handle, b: tirx.handle) -> None:
            x = tirx.match_buffer(a, (N,), "float32")
            y = tirx.match_buffer(b, (N,), "float32")
            for i in range(N):
                y[i] = x[i] + tirx.float32(1)
            for i in range(N):
                x[i] = tirx.float32(0)

        return _job(name, main)

    def workspace(self, name: str, size_bytes: int) -> BuildJob:
        """A kernel with an intermediate buffer of that size, from TVM's own allocator."""
        n = size_bytes // 4
        te = tvm.te
        a = te.placeholder((N,), name="A")
        w = te.compute((n,), lambda i: a[i % N] + 1.0, name="W")
        b = te.compute((N,), lambda i: w[i] + w[n - 1 - i] - w[n - 1 - i], name="B")
        return BuildJob(name, tvm.ir.save_json(tvm.IRModule({"main": te.create_prim_func([a, b])})))

    def growing(self, name: str, n_blocks: int, block_bytes: int) -> BuildJob:
        """A kernel that allocates block after block from libc, unchecked, and touches them all."""

        @tirx.prim_func
        def main(a: tirx.handle, b: tirx.handle) -> None:
            x = tirx.match_buffer(a, (N,), "float32")
            y = tirx.match_buffer(b, (N,), "float32")
            for _ in range(n_blocks):
                tirx.evaluate(
                    tirx.call_extern(
                        "handle",
                        "memset",
                        # Not malloc: LLVM knows that one and would drop what nobody reads.
                        tirx.call_extern(
                            "handle", "mmap", tirx.int64(0), tirx.int64(block_bytes), 3, 0x22, -1, tirx.int64(0)
                        ),
                        1,
                        tirx.int64(block_bytes),
                    )
                )
            for i in range(N):
                y[i] = x[i] + tirx.float32(1)

        return _job(name, main)

    def slow_to_build(self, name: str, n_statements: int) -> BuildJob:
        """So many unrolled statements that LLVM is busy for a while."""
        from tvm.script.ir_builder import IRBuilder
        from tvm.script.ir_builder import tirx as make

        with IRBuilder() as builder, make.prim_func():
            make.func_name("main")
            a = make.match_buffer(make.arg("a", make.handle()), (N,), "float32")
            b = make.match_buffer(make.arg("b", make.handle()), (N,), "float32")
            for i in range(n_statements):
                k = i % N
                make.buffer_store(b, a[k] * a[(k * 7 + i) % N] + b[(k * 5 + i // 3) % N], [k])
            with make.serial(0, N) as i:
                make.buffer_store(b, a[i] + tvm.tirx.const(1.0, "float32"), [i])
        return _job(name, builder.get())


def _job(name: str, function: Any) -> BuildJob:
    return BuildJob(name, tvm.ir.save_json(tvm.IRModule({"main": function})))
