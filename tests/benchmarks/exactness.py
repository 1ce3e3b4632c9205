"""How exactly the columns predict what TVM builds: nests, legality on GPUs, register pressure.

    python tests/benchmarks/exactness.py [--parts nests legality registers] [--per-sketch 200]
        [--legality 10000] [--registers 100] [--max-seconds S] [--markdown docs/benchmarks/exactness.md]

The full run takes half an hour on one core, and registers as long again. It goes on where it stopped: what
is done is kept in ``--state`` (one JSON line per workload and part), and ``--fresh`` forgets it. Registers
need nvcc and are kept for good in ``--registers-file``, so that symbols can be compared with them where there
is no nvcc.
Exit code 1 if a nest differs, a legal candidate is refused, or less than 99 % of what passes is accepted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

import exactness_report
import numpy as np
from kits.nest_comparison import differences
from kits.oracle import GPUS, Oracle, case, kept_batch, random_batch
from kits.ptxas import find_nvcc, registers_of
from kits.workloads import WORKLOADS

from prune_engine.candidates import CandidateBatch, rows_of
from prune_engine.space import DesignSpace, Sketch
from prune_engine.symbols.gpu import registers_per_thread, vthreads
from prune_engine.symbols.kernel import unrolled_body_instances
from prune_engine.symbols.structure import nest_column

PARTS = ("nests", "legality", "registers")
#: Workloads whose spaces hold many candidates that a GPU refuses.
ON_GPUS = (
    *("gemm_square", "gemm_bias_gelu", "bmm", "gemm_fp16"),
    *("conv3x3", "conv3x3_deep", "conv_strided", "conv_depthwise"),
)
IN_REGISTERS = ("gemm_square", "conv3x3")
ARCH = "sm_80"

#: Copies of the main statement, virtual threads included, up to which nvcc takes seconds and not minutes.
MAX_BODY = exactness_report.MAX_BODY

#: Candidates drawn for each predicted legal one that is wanted; 3-11 % are legal.
_POOL_FACTOR = 256

Record = dict[str, Any]


def main() -> int:
    """Run the parts that are not done yet, print or write the report."""
    options = _parse()
    stop_at = time.monotonic() + options.max_seconds
    state = State(options.state, fresh=options.fresh)
    jobs = {
        "nests": lambda: nests(state, options.per_sketch, stop_at),
        "legality": lambda: legality(state, options.legality, stop_at),
        "registers": lambda: registers(options.registers_file, options.registers, stop_at),
    }
    finished = [jobs[part]() for part in options.parts]
    table = register_table(options.registers_file)
    report = exactness_report.as_markdown(state.records, table, _missing(state, options))
    if options.markdown:
        options.markdown.write_text(report, encoding="utf-8")
    print(report)
    if not all(finished):
        print("Stopped early: run again to go on.", file=sys.stderr)
    return 0 if exactness_report.is_exact(state.records) else 1


def _missing(state: State, options: argparse.Namespace) -> list[str]:
    keys = [["nests", w, kind, options.per_sketch] for w, made in WORKLOADS.items() for kind in made.kinds]
    share = _share(options.legality)
    keys += [["legality", workload, device, share] for workload in ON_GPUS for device in GPUS]
    return [" ".join(key[:3]) for key in keys if not state.has(key)]


def _share(total: int) -> int:
    return -(-total // (len(ON_GPUS) * len(GPUS)))


class State:
    """Finished work, one JSON line each; the key is what was asked."""

    def __init__(self, path: Path, *, fresh: bool) -> None:
        self._path = path
        if fresh:
            path.unlink(missing_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        self.records: list[Record] = [json.loads(line) for line in lines]

    def has(self, key: list[Any]) -> bool:
        return any(record["key"] == key for record in self.records)

    def add(self, record: Record) -> None:
        self.records.append(record)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def nests(state: State, n: int, stop_at: float) -> bool:
    """Compare ``n`` candidates that run as they are of each sketch of each workload; False if time ran out."""
    for workload, made in WORKLOADS.items():
        for kind in made.kinds:
            if state.has(["nests", workload, kind, n]):
                continue
            if time.monotonic() > stop_at:
                return False
            space, oracle = case(workload, kind)
            sketches = [
                _compare_nests(space, sketch, oracle, n, is_gpu=kind == "cuda") for sketch in space.sketches
            ]
            state.add({"key": ["nests", workload, kind, n], "part": "nests", "sketches": sketches})
            print(f"nests {workload} {kind}: {sum(s['mismatches'] for s in sketches)} mismatches", file=sys.stderr)
    return True


def _compare_nests(space: DesignSpace, sketch: Sketch, oracle: Oracle, n: int, *, is_gpu: bool) -> Record:
    found: Record = {"n": 0, "mismatches": 0, "repaired": 0, "refused": 0, "first": None, "opaque": None}
    if sketch.nests is None:
        return {**found, "opaque": sketch.opaque_reason or "not read"}
    batch = kept_batch(space, sketch, n)
    for row in range(len(batch)):
        decisions = batch.candidate(row).decisions
        built = oracle.realise(sketch, decisions)
        difference = next(differences(batch, row, built, is_gpu=is_gpu), None)
        found["n"] += 1
        found["repaired"] += built.is_repaired
        found["refused"] += built.mod is None
        if difference is not None:
            found["mismatches"] += 1
            found["first"] = found["first"] or f"sketch {sketch.index}, decisions {decisions}: {difference}"
    return found


def legality(state: State, total: int, stop_at: float) -> bool:
    """Compare verdicts on ``total`` candidates over workloads and devices; False if time ran out."""
    share = _share(total)
    for workload in ON_GPUS:
        for device in GPUS:
            if state.has(["legality", workload, device, share]):
                continue
            if time.monotonic() > stop_at:
                return False
            space, oracle = case(workload, device)
            per_sketch = -(-share // len(space.sketches))
            sketches = [_compare_verdicts(space, sketch, oracle, per_sketch) for sketch in space.sketches]
            state.add({"key": ["legality", workload, device, share], "part": "legality", "sketches": sketches})
            print(f"legality {workload} {device}: {sketches}", file=sys.stderr)
    return True


def _compare_verdicts(space: DesignSpace, sketch: Sketch, oracle: Oracle, n: int) -> Record:
    """Half of the candidates at random, half of those that are predicted to be legal."""
    counts = dict.fromkeys(("n", "accepted", "passed", "false_rejects", "false_accepts", "repaired"), 0)
    found: Record = {**counts, "first": None, "opaque": None}
    if sketch.nests is None:
        return {**found, "opaque": sketch.opaque_reason or "not read"}
    half = random_batch(space, sketch, n - n // 2, seed=1)
    pool = random_batch(space, sketch, (n // 2) * _POOL_FACTOR, seed=2)
    legal = pool.take(np.flatnonzero(_passes(pool))[: n // 2])
    for batch in (half, legal):
        passes = _passes(batch)
        for row in range(len(batch)):
            decisions = batch.candidate(row).decisions
            built = oracle.realise(sketch, decisions)
            found["n"] += 1
            if built.is_repaired:  # judged under its own decisions
                found["repaired"] += 1
                continue
            found["accepted"] += built.is_legal
            found["passed"] += bool(passes[row])
            if built.is_legal != bool(passes[row]):
                found["false_rejects" if built.is_legal else "false_accepts"] += 1
                found["first"] = (
                    found["first"] or f"{decisions}: TVM {'accepts' if built.is_legal else 'refuses'} it"
                )
    return found


def _passes(batch: CandidateBatch) -> np.ndarray:
    refused = nest_column(batch, "exactness.is_refused", lambda nest: nest.is_refused)
    canonical = nest_column(batch, "exactness.is_canonical", lambda nest: nest.is_canonical)
    return (refused == 0) & (canonical == 1)


def registers(path: Path, n: int, stop_at: float) -> bool:
    """Compile legal candidates until the file holds ``n`` of each workload; False if time ran out."""
    nvcc = find_nvcc()
    if nvcc is None:
        print("registers are skipped: no nvcc on the PATH, under CUDA_HOME or installed by pip", file=sys.stderr)
        return True
    rows = _read_rows(path)
    for workload in IN_REGISTERS:
        known = {json.dumps([r["sketch"], r["decisions"]]) for r in rows if r["workload"] == workload}
        for sketch, decisions, mod, target in _legal_candidates(workload):
            if len(known) >= n:
                break
            if json.dumps([sketch, decisions]) in known:
                continue
            if time.monotonic() > stop_at:
                return False
            try:
                used = asdict(registers_of(mod, target, ARCH, nvcc))
            except subprocess.TimeoutExpired:
                print(f"registers {workload}: nvcc gives up on {decisions}", file=sys.stderr)
                continue
            known.add(json.dumps([sketch, decisions]))
            rows.append({"workload": workload, "sketch": sketch, "decisions": decisions, **used})
            path.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8")
    return True


def _legal_candidates(workload: str) -> Iterator[tuple[int, list[list[int]], Any, str]]:
    """Accepted candidates that are not unrolled too far, in a fixed order, sketch by sketch in turn."""
    space, oracle = case(workload, "cuda")
    batches = [random_batch(space, sketch, 20_000, seed=3) for sketch in space.sketches]
    # Of a sketch that is read only those predicted legal are worth a replay.
    batches = [b if b.is_opaque else b.take(_passes(b) & (_bodies(b) <= MAX_BODY)) for b in batches]
    for row in range(max(map(len, batches))):
        for sketch, batch in zip(space.sketches, batches, strict=True):
            if row >= len(batch):
                continue
            decisions = batch.candidate(row).decisions
            built = oracle.realise(sketch, decisions)
            if built.is_legal and not built.is_repaired:
                yield sketch.index, [list(d) for d in decisions], built.mod, space.task.target


def _bodies(batch: CandidateBatch) -> np.ndarray:
    return nest_column(batch, "exactness.bodies", lambda nest: unrolled_body_instances(nest) * vthreads(nest))


def register_table(path: Path) -> list[Record]:
    """Registers of each kept candidate beside our symbol, where the sketch can be read and has the symbol."""
    rows = _read_rows(path)
    for row in rows:
        space, _ = case(row["workload"], "cuda")
        sketch = space.sketches[row["sketch"]]
        indices = rows_of(sketch, [tuple(d) for d in row["decisions"]])
        if sketch.nests is None or indices is None:
            row["symbol"] = None
            continue
        batch = CandidateBatch(space, sketch, indices[None, :])
        row["symbol"] = int(nest_column(batch, "registers_per_thread", registers_per_thread)[0])
    return rows


def _read_rows(path: Path) -> list[Record]:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = Path(__file__).parent
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--per-sketch", type=int, default=200)
    parser.add_argument("--legality", type=int, default=10_000)
    parser.add_argument("--registers", type=int, default=100, help="candidates of each workload")
    parser.add_argument("--registers-file", type=Path, default=here / f"registers_{ARCH}.json")
    parser.add_argument("--state", type=Path, default=Path("exactness.jsonl"))
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--max-seconds", type=float, default=float("inf"))
    parser.add_argument("--markdown", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
