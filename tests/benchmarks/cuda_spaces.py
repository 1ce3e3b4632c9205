"""Recorded CUDA spaces: one compact file of measured candidates, and batches of them.

    python tests/benchmarks/cuda_spaces.py pack kernels.jsonl.gz results.json [--out data/cuda_h200.jsonl.gz]

The file's first line says where the numbers come from; then one line per workload and one per candidate: its
sketch, decisions, run time, the registers, stack and spills that ptxas reports (largest of its kernels), and how
far its result was off.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parent))

import numpy as np
from cuda_spaces_prepare import design_space
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch, rows_of

DATA = Path(__file__).parent / "data" / "cuda_h200.jsonl.gz"

Record = dict[str, Any]


@dataclass(frozen=True)
class Recorded:
    """One workload: batches per sketch, and for each candidate of theirs its run time and what ptxas said.

    ``secs`` is NaN where a candidate's result was wrong or it did not run. ``resources``: registers, stack
    bytes, spill store and load bytes, static shared bytes.
    """

    name: str
    batches: tuple[CandidateBatch, ...]
    secs: tuple[NDArray[np.float64], ...]
    resources: tuple[NDArray[np.int64], ...]


def recorded(path: Path = DATA, device: str = "h100", workloads: list[str] | None = None) -> list[Recorded]:
    """All workloads of a file, or those named. Spaces are made anew, so this takes some seconds."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    names = [r["workload"] for r in records if r["kind"] == "workload"]
    return [_one(name, records, device) for name in names if workloads is None or name in workloads]


def _one(name: str, records: list[Record], device: str) -> Recorded:
    space, _ = design_space(name, device)
    batches, secs, resources = [], [], []
    for sketch in space.sketches:
        mine = [
            r for r in records if r["kind"] == "candidate" and (r["workload"], r["sketch"]) == (name, sketch.index)
        ]
        found = [(rows_of(sketch, [tuple(d) for d in r["decisions"]]), r) for r in mine]
        kept = [(rows, r) for rows, r in found if rows is not None]
        if len(kept) < len(mine):
            print(f"{name}: {len(mine) - len(kept)} candidates are no longer in the space", file=sys.stderr)
        if not kept:
            continue
        batches.append(CandidateBatch(space, sketch, np.array([rows for rows, _ in kept], dtype=np.int32)))
        secs.append(np.array([r["secs"] if r["secs"] and not r.get("wrong") else np.nan for _, r in kept]))
        resources.append(np.array([r["resources"] for _, r in kept], dtype=np.int64))
    return Recorded(name, tuple(batches), tuple(secs), tuple(resources))


def pack(kernels: Path, results: Path, out: Path) -> None:
    """Join what was asked with what came back; sources and samples are left out."""
    with gzip.open(kernels, "rt", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    result = json.loads(results.read_text(encoding="utf-8"))
    candidates = [r for r in records if r["kind"] == "candidate"]
    timed = {t["number"]: t for t in result["timed"] if "secs" in t and not t.get("again")}
    again = {t["number"]: t["secs"] for t in result["timed"] if "secs" in t and t.get("again")}
    head = {key: result[key] for key in ("device_before", "device_after", "nvcc", "arch", "date", "machine")}
    head["drift"] = sorted(again[n] / timed[n]["secs"] for n in again if n in timed)
    head["method"] = "see cuda_spaces_record.py"
    out.parent.mkdir(exist_ok=True)
    with gzip.open(out, "wt", encoding="utf-8", compresslevel=9) as file:
        for record in [{"kind": "provenance", **head}, *(r for r in records if r["kind"] == "workload")]:
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
        for number, candidate in enumerate(candidates):
            record = _packed(candidate, result["compiled"][number], timed.get(number))
            file.write(json.dumps(record, separators=(",", ":")) + "\n")


def _packed(candidate: Record, compiled: Record, timed: Record | None) -> Record:
    used = np.array(list(compiled.get("kernels", {}).values()) or [[0] * 5])
    found = {
        **{key: candidate[key] for key in ("kind", "workload", "sketch", "decisions")},
        "secs": round(timed["secs"], 10) if timed else None,
        "resources": used.max(axis=0).tolist(),
        "source_bytes": len(candidate["source"]),
    }
    if not compiled["ok"]:
        found["not_compiled"] = compiled["error"][:80]
    if timed and timed.get("wrong"):
        found["wrong"] = True
    if timed and timed.get("slow"):
        found["slow"] = True
    return found


def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    packing = commands.add_parser("pack")
    packing.add_argument("kernels", type=Path)
    packing.add_argument("results", type=Path)
    packing.add_argument("--out", type=Path, default=DATA)
    options = parser.parse_args()
    pack(options.kernels, options.results, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(_main())
