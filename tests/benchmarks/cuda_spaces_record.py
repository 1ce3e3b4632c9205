"""Measure the kernels of `cuda_spaces_prepare.py` on a GPU. Needs nvcc, numpy, cupy and torch; not TVM, not us.

    python cuda_spaces_record.py kernels.jsonl.gz --out FOLDER [--arch sm_90a] [--jobs 16]
        [--compile-secs 200] [--time-secs 100]

1. Every kernel is compiled by nvcc -O3 (small sources first; 45 s at most each; what is not reached in
   ``--compile-secs`` is left out), and what ptxas says of its registers, stack and spills is kept.
2. In random order, each candidate runs once on inputs in [-1, 1] and its result is compared with torch's in
   fp32. One that takes 8 times as long as the workload's best so far, or 5 ms, is timed by two more single runs;
   the others by a CUDA graph of about 0.4 ms of launches back to back (at most 100): one graph to warm up, then
   the median of 7. The inputs (at most 8 MB) stay in the L2 cache: it is not flushed, as in TVM's own
   measurement.
3. The best five of each workload are timed again at the end, so that drift can be told.

A kernel that breaks the CUDA context costs its own process: timing goes on in the next one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

_COMPILE_TIMEOUT_SECS = 45
_SLOW_FACTOR = 8
_SLOW_SECS = 5e-3
_GRAPH_SECS = 4e-4
_MAX_LAUNCHES = 100
_SAMPLES = 7
_TOLERANCE = {"float32": 1e-3, "float16": 5e-2}

Record = dict[str, Any]


def main() -> int:
    """Compile, time, write ``results.json`` into the output folder."""
    options = _parse()
    options.out.mkdir(parents=True, exist_ok=True)
    options.work.mkdir(parents=True, exist_ok=True)
    records = _read(options.archive)
    heads = {r["workload"]: r for r in records if r["kind"] == "workload"}
    candidates = [r for r in records if r["kind"] == "candidate"]
    if options.child:
        return _time_all(candidates, heads, options)
    began = time.monotonic()
    compiled = _compile_all(candidates, options)
    compile_secs = time.monotonic() - began
    (options.work / "compiled.json").write_text(json.dumps(compiled), encoding="utf-8")
    print(f"compiled {sum(c['ok'] for c in compiled)} of {len(candidates)} in {compile_secs:.0f} s", flush=True)
    device_before = _device()
    stop_at = time.monotonic() + options.time_secs
    log = options.work / "timed.jsonl"
    log.unlink(missing_ok=True)
    n_lines = -1
    while time.monotonic() < stop_at and _lines_in(log) > n_lines:
        n_lines = _lines_in(log)
        left = str(stop_at - time.monotonic())
        command = [sys.executable, __file__, str(options.archive), "--out", str(options.out), "--child", left]
        code = subprocess.run([*command, "--work", str(options.work)], check=False).returncode
        if code == 0:
            break
        print(f"a kernel broke the context (exit {code}); going on", flush=True)
    timed = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []
    document = {
        "device_before": device_before,
        "device_after": _device(),
        "nvcc": _said(["nvcc", "--version"])[-2:],
        "arch": options.arch,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "compile_secs": compile_secs,
        "machine": json.loads(_text_of(options.work / "machine.json") or "{}"),
        "compiled": compiled,
        "timed": timed,
    }
    (options.out / "results.json").write_text(json.dumps(document, separators=(",", ":")), encoding="utf-8")
    print(f"timed {sum('secs' in t for t in timed)}; {time.monotonic() - began:.0f} s in all", flush=True)
    return 0


def _text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _lines_in(path: Path) -> int:
    return _text_of(path).count("\n")


def _read(path: Path) -> list[Record]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _compile_all(candidates: list[Record], options: argparse.Namespace) -> list[Record]:
    stop_at = time.monotonic() + options.compile_secs
    order = sorted(range(len(candidates)), key=lambda i: len(candidates[i]["source"]))
    found: list[Record] = [{"ok": False, "error": "not reached"} for _ in candidates]

    def one(number: int) -> None:
        if time.monotonic() < stop_at:
            left = min(_COMPILE_TIMEOUT_SECS, stop_at + 5 - time.monotonic())
            found[number] = _compile(candidates[number]["source"], number, left, options)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, order))
    return found


def _compile(source: str, number: int, timeout_secs: float, options: argparse.Namespace) -> Record:
    path = options.work / f"k{number}.cu"
    path.write_text(source, encoding="utf-8")
    command = ["nvcc", "-cubin", f"-arch={options.arch}", "-O3", "-w", "-Xptxas", "-v"]
    command += ["-o", str(path.with_suffix(".cubin")), str(path)]
    began = time.monotonic()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        _, report = process.communicate(timeout=timeout_secs)
    except subprocess.TimeoutExpired:
        subprocess.run(["kill", "-9", f"-{process.pid}"], check=False)
        process.communicate()
        return {"ok": False, "error": f"nvcc takes more than {timeout_secs:.0f} s"}
    if process.returncode:
        return {"ok": False, "error": report[-300:]}
    return {"ok": True, "secs": round(time.monotonic() - began, 2), "kernels": _resources(report)}


def _resources(report: str) -> dict[str, list[int]]:
    """Kernel -> registers, stack bytes, spill store and load bytes, static shared bytes."""
    found = {}
    for part in report.split("Compiling entry function")[1:]:
        name = re.search(r"'(\w+)'", part)
        if name:
            patterns = (
                r"Used (\d+) registers",
                r"(\d+) bytes stack frame",
                r"(\d+) bytes spill stores",
                r"(\d+) bytes spill loads",
                r"(\d+) bytes smem",
            )
            numbers = [re.search(pattern, part) for pattern in patterns]
            found[name[1]] = [int(n[1]) if n else 0 for n in numbers]
    return found


def _time_all(candidates: list[Record], heads: dict[str, Record], options: argparse.Namespace) -> int:
    stop_at = time.monotonic() + options.child
    compiled = json.loads((options.work / "compiled.json").read_text(encoding="utf-8"))
    log = options.work / "timed.jsonl"
    known = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []
    begun = {k["number"] for k in known if not k.get("again")}
    order = [i for i in range(len(candidates)) if compiled[i]["ok"] and i not in begun]
    random.Random(0).shuffle(order)
    bench = _Bench(heads)
    bench.best = {}
    for k in known:
        if "secs" in k and "wrong" not in k:
            name = candidates[k["number"]]["workload"]
            bench.best[name] = min(bench.best.get(name, 1e9), k["secs"])
    bench.warm_up(0.5)
    if not begun:
        try:
            machine = bench.machine()
        except Exception as error:  # noqa: BLE001 (the figures are a bonus)
            machine = {"failed": str(error)[:300]}
        (options.work / "machine.json").write_text(json.dumps(machine), encoding="utf-8")
    with log.open("a", encoding="utf-8") as file:

        def write(record: Record) -> None:
            file.write(json.dumps(record) + "\n")
            file.flush()

        times: dict[str, list[tuple[float, int]]] = {}
        for number in order:
            if time.monotonic() > stop_at - 3:
                break
            # The line "begun" stays the last one of a kernel that breaks the context.
            write({"number": number, "begun": True})
            try:
                made = bench.run(candidates[number], options.work / f"k{number}.cubin")
            except Exception as error:  # noqa: BLE001 (whatever the driver says belongs to this kernel)
                made = {"failed": f"{type(error).__name__}: {error}"[:300]}
            write({"number": number, **made})
            if "failed" in made and not bench.is_alive():
                return 3
            if "secs" in made and "wrong" not in made:
                times.setdefault(candidates[number]["workload"], []).append((made["secs"], number))
        for found in times.values():
            for _, number in sorted(found)[:5]:
                made = bench.run(candidates[number], options.work / f"k{number}.cubin")
                write({"number": number, "again": True, **made})
    return 0


class _Bench:
    """Arguments and references of all workloads on the device."""

    def __init__(self, heads: dict[str, Record]) -> None:
        import cupy
        import numpy as np
        import torch

        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        self._cupy = cupy
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self.best: dict[str, float] = {}
        self._arguments, self._references, self._tolerances = {}, {}, {}
        rng = np.random.default_rng(0)
        for name, head in heads.items():
            host = [
                rng.uniform(-1, 1, shape).astype(t) for shape, t in zip(head["shapes"], head["dtypes"], strict=True)
            ]
            self._arguments[name] = [cupy.asarray(a) for a in host]
            inputs = [torch.from_numpy(a).cuda().float() for a in host[:-1]]
            self._references[name] = cupy.asarray(_reference(head["text"], inputs).cpu().numpy())
            self._tolerances[name] = _TOLERANCE[head["dtypes"][-1]]
        cupy.cuda.Device().synchronize()

    def warm_up(self, secs: float) -> None:
        """Bring the clocks up."""
        a = self._cupy.ones((4096, 4096), dtype="float32")
        stop_at = time.monotonic() + secs
        while time.monotonic() < stop_at:
            for _ in range(4):
                a @ a
            self._cupy.cuda.Device().synchronize()

    def machine(self) -> Record:
        """What the device does at best: seconds per launch in a graph, bytes per second of L2 and DRAM reads."""
        cupy = self._cupy
        code = """extern "C" __global__ void nothing(float* a) { if (a == 0) a[0] = 1; }
        extern "C" __global__ void read(const float4* a, float* out, long n, int turns) {
            float sum = 0; long start = (long)blockIdx.x * blockDim.x + threadIdx.x;
            long stride = (long)gridDim.x * blockDim.x;
            for (int t = 0; t < turns; ++t)
                for (long i = start; i < n; i += stride) { float4 v = __ldcg(a + i); sum += v.x + v.y + v.z + v.w; }
            if (sum == 12345.678f) out[0] = sum; }"""
        module = cupy.RawModule(code=code)
        nothing, read = module.get_function("nothing"), module.get_function("read")
        out = cupy.zeros(4, dtype="float32")
        found: Record = {}
        with self._stream:
            for name, blocks, threads in (("1", 1, 32), ("132x256", 132, 256), ("1056x256", 1056, 256)):
                nothing((blocks,), (threads,), (out,))
                self._stream.begin_capture()
                for _ in range(100):
                    nothing((blocks,), (threads,), (out,))
                graph = self._stream.end_capture()
                graph.launch(self._stream)
                secs = sorted(self._timed(lambda g=graph: g.launch(self._stream)) / 100 for _ in range(7))[3]
                found[f"launch_{name}_secs"] = secs
            for name, size, turns in (("l2_8MiB", 2**23, 40), ("l2_24MiB", 3 * 2**23, 20), ("dram", 2**31, 1)):
                data = cupy.zeros(size // 4, dtype="float32")

                def go(data: Any = data, size: int = size, turns: int = turns) -> None:
                    arguments = (data, out, cupy.int64(size // 16), cupy.int32(turns))
                    read((132 * 8,), (256,), arguments)

                go()
                secs = sorted(self._timed(go) for _ in range(7))[3]
                found[f"{name}_bytes_per_sec"] = size * turns / secs
        return found

    def is_alive(self) -> bool:
        """Whether the CUDA context still works."""
        try:
            self._cupy.cuda.Device().synchronize()
            self._cupy.zeros(1).sum()
            self._cupy.cuda.Device().synchronize()
        except Exception:  # noqa: BLE001 (any error means no)
            return False
        return True

    def run(self, candidate: Record, cubin: Path) -> Record:
        """Check and time one candidate: seconds of all its launches together."""
        cupy, name = self._cupy, candidate["workload"]
        module = cupy.RawModule(path=str(cubin))
        arguments = self._arguments[name]
        between = {b: cupy.zeros(size, dtype=t) for b, (size, t) in candidate["buffers"].items()}
        launches = []
        for kernel, pointers, grid, block, shared in candidate["launches"]:
            function = module.get_function(kernel)
            given = tuple(arguments[p] if isinstance(p, int) else between[p] for p in pointers)
            launches.append((function, tuple(grid), tuple(block), given, shared))
        arguments[-1].fill(float("nan"))
        cupy.cuda.Device().synchronize()

        def go() -> None:
            for function, grid, block, given, shared in launches:
                function(grid, block, given, shared_mem=shared)

        with self._stream:
            go()  # loads the code, which must not be timed
            first = self._timed(go)
            reference = self._references[name]
            difference = cupy.abs(arguments[-1].astype("float32") - reference).max() / cupy.abs(reference).max()
            error = float(difference)
            self._stream.synchronize()
            found: Record = {"error": error}
            if not error <= self._tolerances[name]:
                found["wrong"] = True
            best = self.best.get(name, 1e9)
            if (first > _SLOW_FACTOR * best and first > 1e-4) or first > _SLOW_SECS:
                samples = [self._timed(go) for _ in range(2 if first < 10 * _SLOW_SECS else 1)]
                return {**found, "secs": min(samples), "samples": samples, "slow": True}
            first = min(first, self._timed(go))
            count = int(max(1, min(_MAX_LAUNCHES, _GRAPH_SECS / first)))
            self._stream.begin_capture()
            for _ in range(count):
                go()
            graph = self._stream.end_capture()
            graph.launch(self._stream)
            samples = sorted(self._timed(lambda: graph.launch(self._stream)) / count for _ in range(_SAMPLES))
        secs = samples[len(samples) // 2]
        if "wrong" not in found:
            self.best[name] = min(best, secs)
        return {**found, "secs": secs, "samples": samples, "count": count}

    def _timed(self, work: Any) -> float:
        start, end = self._cupy.cuda.Event(), self._cupy.cuda.Event()
        start.record(self._stream)
        work()
        end.record(self._stream)
        end.synchronize()
        return self._cupy.cuda.get_elapsed_time(start, end) * 1e-3


def _reference(text: str, inputs: list[Any]) -> Any:
    import torch

    if text.startswith("softmax"):
        return torch.softmax(inputs[0], dim=-1)
    if text.startswith("conv2d"):
        padding = int((re.search(r",p(\d+)", text) or [0, 0])[1])
        groups = int((re.search(r",g(\d+)", text) or [0, 1])[1])
        return torch.nn.functional.conv2d(inputs[0], inputs[1], padding=padding, groups=groups)
    return torch.matmul(inputs[0], inputs[1])


def _device() -> list[str]:
    fields = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.draw,temperature.gpu"
    return _said(["nvidia-smi", f"--query-gpu={fields}", "--format=csv"])


def _said(command: list[str]) -> list[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout.splitlines()
    except OSError as error:
        return [str(error)]


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "cuda_spaces")
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--compile-secs", type=float, default=200)
    parser.add_argument("--time-secs", type=float, default=100)
    parser.add_argument("--child", type=float, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
