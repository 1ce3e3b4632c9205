"""How much of what is best by the draft the explorer finds, at what cost, on real design spaces.

    python tests/benchmarks/explore_quality.py [--rounds 3] [--seeds 3] [--only gemm_square] [--json FILE]

Spaces that can be scored completely in minutes are: the share of the best 512 that are proposed is then exact.
Others are held against a search of twenty times the effort. Times are of the processor, the first reading of each
loop structure included, so that the first round of a task is the dearest.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import machine
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from kits.workloads import TARGETS, WORKLOADS
from prune_engine_draft.scorer import SymbolDraft
from prune_engine_explore.evolution import FIRST, LATER, EvolutionExplorer
from prune_engine_explore.uniform import UniformExplorer

from prune_engine.candidates import CandidateBatch
from prune_engine.cli.study_options import open_study
from prune_engine.enumeration import all_batches
from prune_engine.funnel import Funnel
from prune_engine.space import DesignSpace
from prune_engine.verdicts import Float64Array

#: Workloads and the kinds of target they are looked at on; the first are small enough to be scored completely.
COMPLETE = (("gemm_square", "llvm"), ("layer_norm", "llvm"), ("bmm", "llvm"))
SEARCHED = (
    *(("conv3x3", "llvm"), ("conv_depthwise", "llvm"), ("softmax", "llvm"), ("gemm_bias_gelu", "llvm")),
    *(("gemm_square", "cuda"), ("conv3x3", "cuda")),
)
N_BEST, N_PROPOSED = 512, 2048
_CHUNK = 1 << 16
_EXTRA_EFFORT = 20


@dataclass(frozen=True)
class Figure:
    """One round of a task. ``found`` is the share of the best 512, ``best`` the best score over the best known."""

    workload: str
    target: str
    space_size: int
    is_complete: bool
    explorer: str
    seed: int
    round: int
    found: float
    best: float
    mean_16: float
    n_scored: int
    cpu_secs: float


class DraftFitness:
    """The draft where every rule keeps the candidate, else 0; counts what it is asked."""

    def __init__(self, workload: str, kind: str) -> None:
        options = dict.fromkeys(("threads", "shape", "dim", "disabled_rules", "blocked_plugins", "plugin_files"))
        study = open_study(
            WORKLOADS[workload].text,
            target=TARGETS[kind],
            profile=None,
            strict=False,
            **options,  # type: ignore[arg-type]
        )
        self._pipeline, self._profile = study.pipeline(), study.device.profile
        self.space, _ = self._pipeline.restrict(study.space(study.tasks[0]))
        self._draft = SymbolDraft()
        self.n_scored = 0

    def __call__(self, batch: CandidateBatch) -> Float64Array:
        """Fitness, float64 (n,)."""
        scores = np.zeros(len(batch))
        self.n_scored += len(batch)
        for start in range(0, len(batch), _CHUNK):
            part = batch.take(np.arange(start, min(start + _CHUNK, len(batch))))
            _, keep = self._pipeline.judge(part, Funnel())
            if keep.any():
                scores[start : start + len(part)][keep] = self._draft.score(part.take(keep), self._profile).scores
        return scores


def best_scores(fitness: DraftFitness, is_complete: bool) -> Float64Array:
    """The best scores of a space, best first: of all, or of what a long search finds."""
    batches = all_batches(fitness.space) if is_complete else _long_search(fitness)
    best = np.empty(0)
    for batch in batches:
        best = np.sort(np.concatenate([best, fitness(batch)]))[::-1][:N_BEST]
    return best


def _long_search(fitness: DraftFitness) -> list[CandidateBatch]:
    effort = replace(FIRST, n_scored=FIRST.n_scored * _EXTRA_EFFORT, n_structures=FIRST.n_structures * 8)
    return list(
        EvolutionExplorer(first=effort).propose(fitness.space, N_PROPOSED, fitness, np.random.default_rng(99))
    )


def figures(workload: str, kind: str, is_complete: bool, n_rounds: int, seeds: int) -> list[Figure]:
    """Rounds of the explorer, and as many random draws as its first round scores."""
    fitness, rows = DraftFitness(workload, kind), []
    best = best_scores(fitness, is_complete)

    def figure(name: str, seed: int, number: int, n: int, secs: float, batches: list[CandidateBatch]) -> Figure:
        scores = np.sort(np.concatenate([fitness(b) for b in batches]))[::-1]
        found = min(1.0, float((scores >= best[-1] * (1 - 1e-12)).sum()) / len(best))
        size = fitness.space.size
        quality = float(scores[0] / best[0]), float(scores[:16].mean() / best[:16].mean())
        return Figure(workload, kind, size, is_complete, name, seed, number, found, *quality, n, secs)

    for seed in range(seeds):
        explorer, rng = EvolutionExplorer(), np.random.default_rng(seed)
        for number in range(n_rounds):
            fitness.n_scored, started = 0, time.process_time()
            batches = list(explorer.propose(fitness.space, N_PROPOSED, fitness, rng))
            secs = time.process_time() - started
            rows.append(figure(explorer.name, seed, number, fitness.n_scored, secs, batches))
    drawn = _uniform(fitness.space, FIRST.n_scored)
    return [*rows, figure(UniformExplorer.name, 0, 0, FIRST.n_scored, 0.0, drawn)]


def _uniform(space: DesignSpace, n: int) -> list[CandidateBatch]:
    return list(UniformExplorer().propose(space, n, None, np.random.default_rng(0)))


def main() -> None:
    """Print a table; write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", action="append", help="a workload of tests/kits/workloads.py; may be repeated")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cases = [(w, k, True) for w, k in COMPLETE] + [(w, k, False) for w, k in SEARCHED]
    rows: list[Figure] = []
    print(f"effort: first {FIRST}, later {LATER}")
    titles = [
        "workload",
        "target",
        "candidates",
        "reference",
        "explorer",
        "seed",
        "round",
        "found",
        "best",
        "top-16",
        "scored",
        "s",
    ]
    print("| " + " | ".join(titles) + " |")
    print("|" + "---|" * len(titles))
    for workload, kind, is_complete in cases:
        if options.only and workload not in options.only:
            continue
        for f in figures(workload, kind, is_complete, options.rounds, options.seeds):
            rows.append(f)
            reference = "all" if f.is_complete else "long search"
            cells = (
                *(f.workload, f.target, f"{f.space_size:,}", reference, f.explorer, f.seed, f.round),
                *(f"{f.found:.3f}", f"{f.best:.3f}", f"{f.mean_16:.3f}", f"{f.n_scored:,}", f"{f.cpu_secs:.2f}"),
            )
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    if options.json:
        record = {"machine": machine.describe(), "figures": [asdict(f) for f in rows]}
        options.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
