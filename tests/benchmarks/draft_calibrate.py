"""How well the untrained draft orders recorded CPU spaces, what each term is worth, and the weights that ship.

    python tests/benchmarks/draft_calibrate.py --spaces DIR [--profile amd-epyc-9654] [--write]

DIR (or the environment variable PRUNE_ENGINE_SPACES) has MetaSchedule databases in ``cpu_1thread/*/`` and
``cpu_2threads/*/``. Prints best found ÷ best of the recording in the draft's first 1, 4, 8, 16 and 64 and the rank
correlation: as the draft is, with each term left out, with weights fitted on all *other* workloads (both thread
counts of a workload are left out together), and with weights fitted to 16, 32 and 64 random labels of the task.
``--write`` fits weights on everything and writes them into the plugin, if weights of the other workloads order the
recordings better than none do: without that they would be no more than a memory of these. Nothing is timed; equal
runs print equal figures.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from prune_engine_draft.calibration import Labels, agreement, fitted
from prune_engine_draft.cpu import TERMS
from prune_engine_draft.priors import PRIORS_FILE, family_of
from prune_engine_draft.scorer import terms_of

from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.hardware.slice import with_threads
from prune_engine.metaschedule.recorded import load_recorded

_FIRST = (1, 4, 8, 16, 64)
_THREADS = {"cpu_1thread": 1, "cpu_2threads": 2}
#: Ridge of weights for all tasks, in labels; a prior should not lean on one recording.
_RIDGE = 10.0
_SEEDS = range(5)


@dataclass(frozen=True)
class Recorded:
    """One recording: terms (n, t) and latencies (n,) of all its candidates."""

    workload: str
    folder: str
    labels: Labels

    @property
    def scaled(self) -> Labels:
        """In units of its own median, so that recordings of slow workloads count no more than others."""
        middle = float(np.median(self.labels.latency_secs))
        return Labels(self.labels.terms / middle, self.labels.latency_secs / middle, self.labels.is_censored)


def read(folder: Path, profile: HardwareProfile) -> list[Recorded]:
    """All recordings below a folder, in the order of their names."""
    found = []
    for kind, threads in _THREADS.items():
        for database in sorted((folder / kind).glob("*/")):
            for recorded in load_recorded(database):
                terms, secs = [], []
                for batch, run_secs in zip(recorded.batches, recorded.run_secs, strict=True):
                    if batch.is_opaque or not len(batch):
                        continue
                    ok = np.isfinite(run_secs)
                    drafted = terms_of(batch.take(ok), with_threads(profile, threads)).terms
                    terms.append(np.stack([drafted[name] for name in TERMS], axis=1))
                    secs.append(run_secs[ok])
                latency = np.concatenate(secs)
                labels = Labels(np.concatenate(terms), latency, np.zeros(len(latency), dtype=np.bool_))
                found.append(Recorded(database.name, kind, labels))
    return found


def marks(labels: Labels, weights: np.ndarray) -> list[float]:
    """Best of the first 1, 4, ... ÷ best of all, and the rank correlation."""
    order = np.argsort(labels.terms @ weights, kind="stable")
    best = labels.latency_secs.min()
    return [*(float(best / labels.latency_secs[order[:k]].min()) for k in _FIRST), agreement(labels, weights)]


def mean(rows: Iterable[list[float]]) -> list[float]:
    """Geometric means of the ratios, the arithmetic mean of the rank correlations."""
    table = np.array(list(rows))
    return [*np.exp(np.log(table[:, :-1]).mean(axis=0)), float(table[:, -1].mean())]


def together(recordings: Iterable[Recorded]) -> Labels:
    """The labels of several recordings as one."""
    parts = [recorded.scaled for recorded in recordings]
    return Labels(
        np.concatenate([p.terms for p in parts]),
        np.concatenate([p.latency_secs for p in parts]),
        np.concatenate([p.is_censored for p in parts]),
    )


def line(name: str, values: list[float]) -> str:
    return f"{name:44s}" + "".join(f"{v:8.3f}" for v in values)


def report(recordings: list[Recorded]) -> bool:
    """Print all; whether weights of other workloads rank better, with nothing lost in the first 16."""
    ones = np.ones(len(TERMS))
    print(line("best found ÷ best in the first", []) + "".join(f"{k:8d}" for k in _FIRST) + "    rank")
    for recorded in recordings:
        print(line(f"{recorded.workload}, {recorded.folder}", marks(recorded.labels, ones)))
    plain = mean(marks(r.labels, ones) for r in recordings)
    print(line("all weights 1", plain))
    for position, name in enumerate(TERMS):
        without = ones.copy()
        without[position] = 0
        if all((r.labels.terms @ without > 0).all() for r in recordings):
            print(line(f"  without {name}", mean(marks(r.labels, without) for r in recordings)))
    held_out = []
    for recorded in recordings:
        others = together(r for r in recordings if r.workload != recorded.workload)
        held_out.append(marks(recorded.labels, fitted(others, ones, _RIDGE)))
    carried = mean(held_out)
    print(line("weights of all other workloads", carried))
    for n in (16, 32, 64):
        rows = []
        for recorded in recordings:
            for seed in _SEEDS:
                chosen = np.zeros(len(recorded.labels), dtype=np.bool_)
                chosen[np.random.default_rng(seed).choice(len(recorded.labels), n, replace=False)] = True
                rows.append(marks(recorded.labels, fitted(recorded.labels.take(chosen), ones)))
        print(line(f"weights of {n} labels of the task", mean(rows)))
    return carried[-1] > plain[-1] and carried[3] >= plain[3]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spaces", type=Path, default=os.environ.get("PRUNE_ENGINE_SPACES"))
    parser.add_argument("--profile", default="amd-epyc-9654")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.spaces is None or not (recordings := read(Path(options.spaces), _profile(options.profile))):
        print("no recorded spaces: name their folder by --spaces")
        return 2
    are_better = report(recordings)
    if options.write and not are_better:
        print("not written: weights of other workloads order no better than none do")
    elif options.write:
        profile = _profile(options.profile)
        weights = fitted(together(recordings), np.ones(len(TERMS)), _RIDGE)
        weights = np.maximum(
            weights, 0.05 * np.median(weights)
        )  # a cause that none of these had is one all the same
        # How fast the machine was that made the recordings is not the family's affair.
        weights /= np.exp(np.log(weights).mean())
        known = json.loads(PRIORS_FILE.read_text())
        known[family_of(profile)] = {
            "made_of": f"{len(recordings)} recordings of {len({r.workload for r in recordings})} workloads, "
            f"{sum(len(r.labels) for r in recordings)} candidates, profile {profile.name}",
            "weights": {name: round(float(w), 3) for name, w in zip(TERMS, weights, strict=True)},
        }
        PRIORS_FILE.write_text(json.dumps(known, indent=2) + "\n")
        print(f"wrote {PRIORS_FILE}")
    return 0


def _profile(name: str) -> HardwareProfile:
    return ProfileRegistry().resolve(name)


if __name__ == "__main__":
    sys.exit(main())
