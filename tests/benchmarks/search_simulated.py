"""How close a search gets to the best of a whole space whose true latencies are a formula unlike the draft's.

    python tests/benchmarks/search_simulated.py [--workloads NAME ...] [--truths 3] [--no-probes]

Recorded spaces hold a few hundred random candidates, so a search in them cannot be led astray by what a model
thinks of the millions that nobody measured. Here it can: the space is the one that `tune` searches, and the truth
of each candidate is the draft's terms with other weights, with more or less overlap between them, times what random
pairs of decisions add. Prints, for each truth, the best of the space over the best found after 16 to 96
trials, and over the median of each sixth of the run. Nothing is timed: equal runs print equal figures.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from prune_engine_draft.cpu import cpu_terms

from prune_engine.candidates import CandidateBatch
from prune_engine.config import EngineConfig
from prune_engine.engine import Engine
from prune_engine.enumeration import numbered
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.metaschedule.materialise import Materialiser
from prune_engine.metaschedule.targets import resolve_target
from prune_engine.metaschedule.workloads.loading import load_tasks
from prune_engine.plugins import PluginHost
from prune_engine.space import DesignSpace, Sketch, VariableKind
from prune_engine.store import open_store
from prune_engine.strategy_set import load_strategies
from prune_engine.testing import FakeWorkbench

MARKS = (16, 32, 48, 64, 96)
WORKLOADS = ("gemm:512x512x512", "conv2d:1x64x56x56,64x3x3,p1", "conv2d:1x96x56x56,96x3x3,p1,g96")
#: Spread (natural logarithm) of the weights of the draft's terms, and (log2) of what a pair of decisions adds.
_WEIGHT_SPREAD, _PAIR_SPREAD, _N_PAIRS = 0.5, 0.12, 16
_INSIDE = ("core", "results", "spills", "loops", "code", "calls")
_MEMORY = ("l1d", "l2", "l3")
#: Exponents by which what a core does and what it waits for are joined: 1 adds them up, 8 takes the larger.
_OVERLAPS = (1.0, 3.0, 8.0)
_SAMPLE = 1 << 19


class Truth:
    """The true latencies of a task's candidates."""

    def __init__(self, profile: HardwareProfile, seed: int) -> None:
        self._profile, self._seed = profile, seed
        rng = np.random.default_rng(seed)
        self.overlap = _OVERLAPS[seed % len(_OVERLAPS)]
        self._weights = {name: float(np.exp(rng.normal(0, _WEIGHT_SPREAD))) for name in (*_INSIDE, *_MEMORY)}

    def secs(self, batch: CandidateBatch) -> NDArray[np.float64]:
        """Seconds of each candidate, float64 (n,)."""
        if not len(batch):
            return np.empty(0)
        terms = cpu_terms(batch, self._profile).terms
        weighted = {name: terms[name] * weight for name, weight in self._weights.items()}
        inside = sum((weighted[name] for name in _INSIDE), np.zeros(len(batch)))
        parts = [inside, *(weighted[name] for name in _MEMORY)]
        joined = sum(part**self.overlap for part in parts) ** (1 / self.overlap)
        secs: NDArray[np.float64] = (joined + terms["fork"] + terms["tasks"]) * np.exp2(self._pairs(batch))
        return secs

    def _pairs(self, batch: CandidateBatch) -> NDArray[np.float64]:
        """What random pairs of decisions add, log2: the same for all sketches that decide the same."""
        rng = np.random.default_rng(self._seed + 1000)
        found = np.zeros(len(batch))
        columns = [
            np.log2(batch.column(v)[:, p])
            for v, variable in enumerate(batch.sketch.variables)
            if variable.kind is VariableKind.TILE
            for p in range(variable.table.shape[1])
        ]
        for _ in range(_N_PAIRS if columns else 0):
            a, b = rng.integers(1 << 16, size=2)
            limits, effect = rng.uniform(0, 5, size=2), rng.normal(0, _PAIR_SPREAD)
            x, y = columns[a % len(columns)], columns[b % len(columns)]
            found += effect * ((x > limits[0]) ^ (y > limits[1]))
        return found


class SimulatedWorkbench(FakeWorkbench):
    """Measures by a truth."""

    def __init__(self, space: DesignSpace, truth: Truth, default_secs: float) -> None:
        task = space.task
        ratio = default_secs * 1e9 / max(task.flop_count, 1)
        super().__init__(spaces={task.task_id: space}, noise=0.02, default_ratio=ratio, threads=1)
        self._truth = truth

    def true_latency_secs(self, batch: CandidateBatch) -> NDArray[np.float64]:
        """By the truth."""
        return self._truth.secs(batch)


class Setting:
    """A workload with its space and what `tune` searches of it."""

    def __init__(self, name: str, config: EngineConfig) -> None:
        (self.task,) = load_tasks(name, resolve_target("native", 1))
        self.profile = ProfileRegistry().choose("auto", n_threads=1).profile
        host = PluginHost(config)
        host.load()
        self._symbols = load_strategies(host, config).symbols
        made = Materialiser(self.task, 0).design_space()
        self.space = replace(made, symbols=self._symbols)
        self._rng = np.random.default_rng(0)

    def best_secs(self, truth: Truth) -> tuple[float, float]:
        """The best and the median of the space, or of a large sample of each sketch where it is larger."""
        best, middles = np.inf, []
        for sketch in self.space.sketches:
            secs = np.concatenate([truth.secs(batch) for batch in self._batches(sketch)])
            best, middles = min(best, float(secs.min())), [*middles, float(np.median(secs))]
        return best, float(np.median(middles))

    def _batches(self, sketch: Sketch) -> Sequence[CandidateBatch]:
        n = min(sketch.size, _SAMPLE)
        numbers = np.arange(n) if n == sketch.size else self._rng.integers(sketch.size, size=n)
        parts = np.array_split(numbers.astype(np.int64), max(1, n >> 16))
        return [CandidateBatch(self.space, sketch, numbered(sketch, part)) for part in parts]


def search(setting: Setting, truth: Truth, config: EngineConfig) -> list[float]:
    """Best of the space over what each trial of a run took, in order."""
    best, middle = setting.best_secs(truth)
    bench = SimulatedWorkbench(setting.space, truth, 10 * middle)
    store = open_store("sqlite://")
    engine = Engine(config, bench, store, setting.profile)
    engine.run([setting.task])
    rows = [
        row
        for row in store.candidates(setting.task.task_id, bench.device_name(), 1)
        if row.sketch_index is not None
    ]
    store.close()
    return [best / (row.measurement.latency_secs or np.inf) for row in rows]


def main() -> int:
    """Search every workload under every truth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS))
    parser.add_argument("--truths", type=int, default=3)
    parser.add_argument("--trials", type=int, default=96)
    parser.add_argument("--verifier", default="lightgbm.residual", help="or none")
    parser.add_argument("--no-probes", action="store_true", help="measure only what is thought best")
    options = parser.parse_args()
    config = EngineConfig.of(
        n_trials=options.trials,
        plateau_trials=10**6,
        verifier=None if options.verifier == "none" else options.verifier,
        transfer=False,
        **({"first_probe_share": 0.0, "probe_share": 0.0} if options.no_probes else {}),
    )
    marks = [mark for mark in MARKS if mark <= options.trials]
    found = []
    for name in options.workloads:
        setting = Setting(name, config)
        for seed in range(options.truths):
            truth = Truth(setting.profile, seed)
            shares = np.array(search(setting, truth, config.model_copy(update={"seed": seed})))
            best = np.maximum.accumulate(shares)
            found.append([best[min(mark, len(best)) - 1] for mark in marks])
            medians = " ".join(f"{np.median(part):.2f}" for part in np.array_split(shares, 6))
            told = " ".join(f"{x:.3f}" for x in found[-1])
            print(f"{name:36s} overlap {truth.overlap:3g}  best {told}  median of sixths {medians}", flush=True)
    means = np.exp(np.log(found).mean(axis=0))
    print("geometric means  " + " ".join(f"{mark}: {x:.3f}" for mark, x in zip(marks, means, strict=True)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
