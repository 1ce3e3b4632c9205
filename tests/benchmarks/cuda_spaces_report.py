"""How well the draft orders recorded CUDA spaces, what each cause is worth, and how fast it is.

    python tests/benchmarks/cuda_spaces_report.py [--profile h200] [--leave-one-out]
        [--markdown docs/benchmarks/cuda_spaces.md]

Everything but the speed is deterministic. ``top k``: run time of the best candidate of the space over that of the
best among the k that the draft ranks first; 1 is perfect. Rules that drop a recorded winner are listed.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parent))

import machine
import numpy as np
from cuda_spaces import DATA, Recorded, recorded
from kits.oracle import random_batch
from numpy.typing import NDArray
from prune_engine_draft import gpu_kernel, gpu_occupancy
from prune_engine_draft.gpu import gpu_terms
from prune_engine_draft.pruner import released_form
from prune_engine_draft.terms import DraftTerms
from prune_engine_rules import register_rules
from scipy.stats import spearmanr

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.verdicts import RuleKind

KS = (1, 4, 8, 16, 64)
#: Constants of the GPU form, all in its modules.
CONSTANTS = (
    *((gpu_kernel, n) for n in ("_FMA_CYCLES", "_SHARED_CYCLES", "_LOCAL_CYCLES", "_COPY_CYCLES", "_STAGE_CYCLES")),
    *((gpu_kernel, n) for n in ("_COPY_INSTRUCTIONS", "_LOCAL_ACCESSES", "_PIPELINED_SHARE", "_PADDED_CYCLES")),
    *((gpu_occupancy, n) for n in ("REGISTERS_BESIDE", "_DOUBLINGS", "_HALF_BUSY_WARPS")),
)
_WINNERS = 0.05

Latency = Callable[[CandidateBatch], NDArray[np.float64]]


def main() -> int:
    """Print or write the report."""
    options = _parse()
    profile = ProfileRegistry().resolve(options.profile)
    spaces = recorded(options.data)
    parts = [_head(options.data), _ranking(spaces, profile), _ablation(spaces, profile), _rules(spaces, profile)]
    if options.leave_one_out:
        parts.append(_leave_one_out(spaces, profile))
    parts += [_speed(spaces, profile), machine.as_markdown()]
    report = "\n\n".join(parts) + "\n"
    if options.markdown:
        options.markdown.write_text(report, encoding="utf-8")
    print(report)
    return 0


def quality(space: Recorded, latency: Latency) -> list[float]:
    """Best over best of the top k for each of KS, then Spearman's rank correlation."""
    secs = np.concatenate(space.secs)
    drafted = np.concatenate([latency(batch) for batch in space.batches])
    ran = np.isfinite(secs)
    secs, drafted = secs[ran], drafted[ran]
    order = np.argsort(drafted, kind="stable")
    found = [float(secs.min() / secs[order[:k]].min()) for k in KS]
    return [*found, float(spearmanr(drafted, secs)[0])]


def mean(rows: list[list[float]]) -> list[float]:
    """Geometric means of the ratios, the arithmetic mean of the correlation."""
    table = np.array(rows)
    return [*np.exp(np.log(table[:, :-1]).mean(axis=0)).tolist(), float(table[:, -1].mean())]


def _head(path: Path) -> str:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        head = json.loads(file.readline())
        drawn = [r for r in map(json.loads, file) if r["kind"] == "candidate"]
    n = sum(r["secs"] is not None for r in drawn)
    wrong = sum(bool(r.get("wrong")) for r in drawn)
    lost = sum("not_compiled" in r for r in drawn)
    name, driver = (field.strip() for field in head["device_before"][1].split(",")[:2])
    clock = head["device_after"][1].split(",")[2].strip()
    return (
        "# The draft on recorded CUDA spaces\n\nWritten by `tests/benchmarks/cuda_spaces_report.py`.\n\n"
        f"{n} random legal candidates, measured on {name} (driver {driver}, SM clock {clock} under load,"
        f" nvcc {head['nvcc'][-1]}, {head['arch']}, {head['date']}); {lost} more took nvcc over 45 s or came too"
        f" late, {wrong} gave a wrong result. Of what is legal only candidates unrolled to at most 1024 copies were"
        " asked for. Times are medians of seven CUDA graphs of launches back to back, the L2 cache warm; timed"
        f" again at the end, the best five of each space took {min(head['drift']):.2f} to"
        f" {max(head['drift']):.2f} times as long."
    )


def _ranking(spaces: list[Recorded], profile: HardwareProfile) -> str:
    forms: Mapping[str, Latency] = {
        "the draft": lambda batch: gpu_terms(batch, profile).latency_secs,
        "the form of Pruner's released code": lambda batch: released_form(batch, profile).latency_secs,
    }
    parts = []
    for title, latency in forms.items():
        rows = [quality(space, latency) for space in spaces]
        lines = [
            f"| {space.name} | {_number(space)} | {_best(space)} | {_listed(row)} |"
            for space, row in zip(spaces, rows, strict=True)
        ]
        head = " | ".join(f"top {k}" for k in KS)
        parts.append(
            f"## Ranking by {title}\n\n| space | candidates | best, µs | {head} | rank correlation |\n"
            f"|---|---|---|{'---|' * (len(KS) + 1)}\n"
            + "\n".join(lines)
            + f"\n| mean | | | {_listed(mean(rows))} |"
        )
    return "\n\n".join(parts)


def _ablation(spaces: list[Recorded], profile: HardwareProfile) -> str:
    known = {id(batch): gpu_terms(batch, profile) for space in spaces for batch in space.batches}
    names = [*gpu_kernel.TERMS, "busy"]
    rows = [("(nothing)", _without(spaces, known, ""))]
    rows += [(name, _without(spaces, known, name)) for name in names]
    lines = [f"| {name} | {_listed(row)} |" for name, row in rows]
    head = " | ".join(f"top {k}" for k in KS)
    return (
        "## What each cause is worth\n\nMeans over all spaces with one cause left out; `busy` is the penalty for"
        f" too few warps.\n\n| left out | {head} | rank correlation |\n|---|{'---|' * (len(KS) + 1)}\n"
        + "\n".join(lines)
    )


def _without(spaces: list[Recorded], known: Mapping[int, DraftTerms], name: str) -> list[float]:
    """Means with the causes put together anew, kernels of a candidate as one."""

    def latency(batch: CandidateBatch) -> NDArray[np.float64]:
        found = known[id(batch)]
        terms = dict(found.terms)
        if name == "busy":
            for term in ("compute", "issue", "shared", "l1", "matrix"):
                terms[term] = terms[term] * found.penalties["busy"]
        causes = [terms[n] for n in gpu_kernel.OVERLAPPING if n != name]
        on_top = [terms[n] for n in ("latency", "launch") if n != name]
        together: NDArray[np.float64] = np.sum([c**3 for c in causes], axis=0) ** (1 / 3) + np.sum(on_top, axis=0)
        return together

    return mean([quality(space, latency) for space in spaces])


def _rules(spaces: list[Recorded], profile: HardwareProfile) -> str:
    lines = []
    for rule, space in itertools.product(register_rules(), spaces):
        if rule.kind is not RuleKind.HEURISTIC:
            continue
        secs = np.concatenate(space.secs)
        keeps = []
        for batch in space.batches:
            keep = rule.mask(batch, profile).copy()
            restriction = rule.restrict(batch.space, profile)
            for (sketch, variable), rows in (restriction.keep if restriction else {}).items():
                if sketch == batch.sketch.index:
                    keep &= rows[batch.indices[:, variable]]
            keeps.append(keep)
        ran = np.isfinite(secs)
        dropped, secs = ~np.concatenate(keeps)[ran], secs[ran]
        if dropped.any():
            order = np.argsort(secs)
            winners = dropped[order[: max(1, int(_WINNERS * len(secs)))]].mean()
            best = secs.min() / secs[dropped].min()
            lines.append(f"| `{rule.name}` | {space.name} | {dropped.mean():.2f} | {winners:.2f} | {best:.2f} |")
    return (
        "## What heuristic rules drop\n\n"
        "| rule | space | share dropped | of the fastest 5 % | best over best dropped |\n|---|---|---|---|---|\n"
        + "\n".join(lines)
    )


def _leave_one_out(spaces: list[Recorded], profile: HardwareProfile) -> str:
    """The change of one constant that helps all spaces but one most, and what it does to that one."""

    def figure(space: Recorded) -> float:
        row = quality(space, lambda batch: gpu_terms(batch, profile).latency_secs)
        return float(np.mean(row[:4]) + row[-1])

    base = np.array([figure(space) for space in spaces])
    tried = {}
    for (module, name), factor in itertools.product(CONSTANTS, (0.5, 0.75, 1.33, 2.0)):
        was = getattr(module, name)
        setattr(module, name, was * factor)
        tried[f"{name.strip('_').lower()} x {factor}"] = np.array([figure(space) for space in spaces]) - base
        setattr(module, name, was)
    lines = []
    for number, space in enumerate(spaces):
        others = np.arange(len(spaces)) != number
        best = max(tried, key=lambda key: float(tried[key][others].mean()))
        gain, own = tried[best][others].mean(), tried[best][number]
        lines.append(f"| {space.name} | {best} | {gain:+.3f} | {own:+.3f} |")
    return (
        "## Leave one out\n\nFigure: mean of top 1, 4, 8, 16 plus the rank correlation (2 is perfect). For each"
        " space the change of one constant (to 0.5, 0.75, 1.33 or 2 times) that helps the others most.\n\n"
        "| left out | change | the others | the one left out |\n|---|---|---|---|\n" + "\n".join(lines)
    )


def _speed(spaces: list[Recorded], profile: HardwareProfile) -> str:
    lines = []
    for space in spaces:
        batch = space.batches[0]
        gpu_terms(random_batch(batch.space, batch.sketch, 1000, seed=8), profile)
        drawn = random_batch(batch.space, batch.sketch, 100_000, seed=9)
        began = time.process_time()
        gpu_terms(drawn, profile)
        lines.append(f"| {space.name} | {100_000 / (time.process_time() - began):,.0f} |")
    return "## Speed\n\n| space | candidates per second of one core |\n|---|---|\n" + "\n".join(lines)


def _number(space: Recorded) -> int:
    return int(np.isfinite(np.concatenate(space.secs)).sum())


def _best(space: Recorded) -> str:
    return f"{np.nanmin(np.concatenate(space.secs)) * 1e6:.1f}"


def _listed(row: list[float]) -> str:
    return " | ".join(f"{value:.3f}" for value in row)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--profile", default="h200")
    parser.add_argument("--leave-one-out", action="store_true")
    parser.add_argument("--markdown", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
