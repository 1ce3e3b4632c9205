"""Candidates built and measured per second: this project's pool against TVM's LocalBuilder and LocalRunner.

    python tests/benchmarks/measure_throughput.py [--candidates 200] [--tvm-candidates 32] [--out FILE.json]

The candidates are random points of MetaSchedule's own design space for a float32 GEMM, post-processed once
and then given to both sides, so sampling is in neither figure. Both sides run kernels on the same number of
threads. TVM's side needs the extras of `pip install 'prune-engine[bench]'` and is skipped without them; it
gets fewer candidates because it is slow, and a builder timeout of 300 s because with its default of 30 s it
builds nothing on a busy machine.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import machine
from rich.console import Console
from rich.table import Table

from prune_engine.metaschedule._compat import import_tvm, load_intrinsics
from prune_engine.metaschedule.measure import BuildJob, MeasurePool, MeasureSettings
from prune_engine.metaschedule.targets import architecture_of, make_target, resolve_target

_TVM_NEEDS = ("psutil", "cloudpickle", "tornado")


def main() -> int:
    """Measure both sides, print a table, write JSON if asked to."""
    options = _parse()
    described, described_in_markdown = machine.describe(), machine.as_markdown()
    # TVM's workers read this when their thread pool starts.
    os.environ["TVM_NUM_THREADS"] = str(options.threads)
    candidates = Candidates(options.size, options.threads, options.seed)
    modules = candidates.sample(options.candidates)
    sides = [measure_ours(candidates, modules, options.threads)]
    missing = [name for name in _TVM_NEEDS if importlib.util.find_spec(name) is None]
    if options.tvm_candidates and missing:
        print(
            f"TVM's side is skipped: {', '.join(missing)} missing; pip install 'prune-engine[bench]'",
            file=sys.stderr,
        )
    elif options.tvm_candidates:
        sides.append(measure_tvm(candidates, modules[: options.tvm_candidates]))
    report = {
        "workload": f"GEMM {options.size}^3 float32, {len(modules)} random candidates, seed {options.seed}",
        "machine": described,
        "threads": options.threads,
        "sides": sides,
    }
    _print(report)
    if options.out is not None:
        options.out.write_text(json.dumps(report, indent=2) + "\n")
    if options.markdown is not None:
        options.markdown.write_text(_page(report, described_in_markdown))
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=200)
    parser.add_argument("--tvm-candidates", type=int, default=32, help="0 leaves TVM's side out")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="write all figures as JSON")
    parser.add_argument("--markdown", type=Path, help="write the page of the documentation")
    return parser.parse_args()


class Candidates:
    """Random candidates of a GEMM's design space, as modules that are ready to build."""

    def __init__(self, size: int, n_threads: int, seed: int) -> None:
        self.tvm = import_tvm()
        self.target_json = resolve_target("native", n_threads)
        self.target = make_target(self.target_json)
        self.shapes, self.dtypes = ((size, size),) * 3, ("float32",) * 3
        self._seed = seed
        te = self.tvm.te
        a, b = te.placeholder((size, size), name="A"), te.placeholder((size, size), name="B")
        k = te.reduce_axis((0, size), "k")
        c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
        self.default = self.tvm.IRModule({"main": te.create_prim_func([a, b, c])})

    def sample(self, n: int) -> list[Any]:
        """Sample until ``n`` candidates pass the post-processors."""
        return [module for module, _ in zip(self._stream(), range(n), strict=False)]

    def _stream(self) -> Iterator[Any]:
        load_intrinsics(architecture_of(self.target_json))
        from tvm.s_tir import meta_schedule as ms

        context = ms.TuneContext(
            mod=self.default,
            target=self.target,
            space_generator="post-order-apply",
            num_threads=1,
            rand_state=self._seed + 1,
        )
        sketches = context.generate_design_space()
        for postproc in context.space_generator.postprocs:
            postproc._initialize_with_tune_context(context)
        number = 0
        while True:
            number += 1
            schedule = self.tvm.s_tir.Schedule(self.default, seed=self._seed * 100_003 + number, debug_mask="none")
            trace = sketches[number % len(sketches)].trace
            self.tvm.s_tir.schedule.Trace(trace.insts, {}).apply_to_schedule(schedule, remove_postproc=True)
            if all(postproc.apply(schedule) for postproc in context.space_generator.postprocs):
                yield schedule.mod


def measure_ours(candidates: Candidates, modules: list[Any], n_threads: int) -> dict[str, Any]:
    """All candidates through a MeasurePool."""
    save_json = candidates.tvm.ir.save_json
    jobs = [BuildJob(str(i), save_json(module)) for i, module in enumerate(modules)]
    begun = time.perf_counter()
    with MeasurePool(MeasureSettings(candidates.target_json, n_threads)) as pool:
        default = pool.open_task(
            "gemm", BuildJob("default", save_json(candidates.default)), candidates.shapes, candidates.dtypes
        )
        start_secs = time.perf_counter() - begun
        begun = time.perf_counter()
        results = list(pool.measure("gemm", jobs, default.latency_secs))
        secs = time.perf_counter() - begun
    outcomes = Counter(
        result.error.kind.value
        if result.error
        else f"stage {result.stage}{' censored' if result.is_censored else ''}"
        for result in results
    )
    latencies = [result.latency_secs for result in results if result.latency_secs is not None]
    return {
        "side": "MeasurePool",
        "n_candidates": len(modules),
        "start_secs": round(start_secs, 2),
        "secs": round(secs, 2),
        "candidates_per_sec": round(len(modules) / secs, 2),
        "build_median_secs": round(statistics.median(result.build_secs for result in results), 3),
        "best_ms": round(1e3 * min(latencies), 3),
        "n_noisy": sum(result.is_noisy for result in results),
        "outcomes": dict(outcomes.most_common()),
    }


def measure_tvm(candidates: Candidates, modules: list[Any]) -> dict[str, Any]:
    """Some candidates through TVM's own builder and runner, as one batch, with their defaults."""
    from tvm.s_tir import meta_schedule as ms

    begun = time.perf_counter()
    builder, runner = ms.builder.LocalBuilder(timeout_sec=300.0), ms.runner.LocalRunner(timeout_sec=300.0)
    start_secs = time.perf_counter() - begun
    begun = time.perf_counter()
    built = builder.build([ms.builder.BuilderInput(module, candidates.target) for module in modules])
    build_secs = time.perf_counter() - begun
    arguments = [ms.arg_info.TensorInfo(d, s) for s, d in zip(candidates.shapes, candidates.dtypes, strict=True)]
    inputs = [
        ms.runner.RunnerInput(result.artifact_path, "cpu", arguments)
        for result in built
        if result.artifact_path is not None
    ]
    results = [future.result() for future in runner.run(inputs)]
    secs = time.perf_counter() - begun
    latencies = [statistics.mean(float(s) for s in r.run_secs) for r in results if r.run_secs is not None]
    return {
        "side": "TVM LocalBuilder + LocalRunner",
        "n_candidates": len(modules),
        "start_secs": round(start_secs, 2),
        "secs": round(secs, 2),
        "of_which_building_secs": round(build_secs, 2),
        "candidates_per_sec": round(len(modules) / secs, 2),
        "best_ms": round(1e3 * min(latencies), 3) if latencies else None,
        "outcomes": {"measured": len(latencies), "failed": len(modules) - len(latencies)},
    }


def _page(report: dict[str, Any], described: str) -> str:
    """The page of the documentation."""
    lines = [
        "# Measuring speed",
        "",
        "Written by `python tests/benchmarks/measure_throughput.py --markdown docs/benchmarks/measuring.md`.",
        f"{report['workload']}; kernels run on {report['threads']} threads. Both sides build and measure the same",
        "candidates in the same run. TVM's side is one batch through `LocalBuilder` (with a time limit of 300 s:",
        "the start of its workers alone can exceed the usual 30 s) and `LocalRunner`. It gets fewer candidates",
        "because it is slow; starting its workers is part of every batch, so it is counted.",
        "",
        "| | candidates | per second | seconds | start-up s | best ms | outcomes |",
        "|---|---|---|---|---|---|---|",
    ]
    for side in report["sides"]:
        outcomes = ", ".join(f"{n} {name}" for name, n in side["outcomes"].items())
        figures = ("n_candidates", "candidates_per_sec", "secs", "start_secs", "best_ms")
        lines.append(f"| {side['side']} | {' | '.join(str(side[f]) for f in figures)} | {outcomes} |")
    rates = [side["candidates_per_sec"] for side in report["sides"]]
    if len(rates) == 2:
        lines += ["", f"Ratio of the rates: {rates[0] / rates[1]:.1f}."]
    return "\n".join([*lines, "", "Machine, at the start:", "", described, ""])


def _print(report: dict[str, Any]) -> None:
    table = Table(title=report["workload"])
    for column in ("", "candidates", "per second", "seconds", "start-up s", "best ms", "outcomes"):
        table.add_column(column)
    for side in report["sides"]:
        outcomes = ", ".join(f"{n} {name}" for name, n in side["outcomes"].items())
        table.add_row(
            side["side"],
            *(str(side[key]) for key in ("n_candidates", "candidates_per_sec", "secs", "start_secs", "best_ms")),
            outcomes,
        )
    console = Console()
    console.print(table)
    for name, value in report["machine"].items():
        console.print(f"{name}: {value}", highlight=False)
    console.print(f"threads: {report['threads']}; load average now: {os.getloadavg()[0]:.2f}", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
