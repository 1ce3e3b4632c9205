"""How well the verifier ranks recorded CPU spaces: after how many measurements, with which prior.

    python tests/benchmarks/verifier_replay.py --spaces DIR [--json FILE] [--only NAME] [--cases CASE ...]

DIR (or PRUNE_ENGINE_SPACES) holds ``cpu_1thread/NAME/`` and ``cpu_2threads/NAME/``, MetaSchedule databases. What is
printed is the best found over the best of the space (1 is perfect) among the measured and the 8 ranked first of the
others, after 32 and 64 measurements, chosen by the engine's own loop or at random. Everything is deterministic.

A prior is made of the *other* workloads under one thread: a kernel never sees its own measurements, under either
number of threads.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from prune_engine.config import EngineConfig
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.metaschedule.recorded import load_recorded
from prune_engine.recorded.judge import Judge
from prune_engine.recorded.ranking import random_lessons, rank
from prune_engine.recorded.spaces import RecordedSpace
from prune_engine.store.open import open_store

PROFILE = "amd-epyc-9654"
FOLDERS = {"cpu_1thread": 1, "cpu_2threads": 2}
#: Case -> verifier, whether with a prior, and further options.
CASES = {
    "draft": (None, False, {}),
    "decisions": ("lightgbm.decisions", False, {}),
    "residual": ("lightgbm.residual", False, {}),
    "residual, no draft": ("lightgbm.residual", False, {"draft_scorer": None}),
    "residual + prior": ("lightgbm.residual", True, {}),
}
PLANS = (("loop", 0), ("loop", 32), ("loop", 64), ("random", 32), ("random", 64))
N_PICKS = 8
RANDOM_SEEDS = 4


@dataclass(frozen=True)
class Space:
    """A recorded space and where it was recorded."""

    folder: str
    recorded: RecordedSpace

    @property
    def profile(self) -> HardwareProfile:
        return ProfileRegistry().resolve(PROFILE, n_threads=FOLDERS[self.folder])

    @property
    def workload(self) -> str:
        return self.recorded.name


@dataclass
class Results:
    """Best found over best, by (case, sampling, samples), one per space."""

    found: dict[str, dict[str, float]] = field(default_factory=dict)

    def add(self, case: str, plan: str, space: Space, value: float) -> None:
        self.found.setdefault(f"{case} | {plan}", {})[f"{space.folder}/{space.workload}"] = value

    def lines(self) -> Iterator[str]:
        for name, values in self.found.items():
            mean = math.exp(float(np.mean(np.log(list(values.values())))))
            worst = min(values, key=lambda space: values[space])
            yield f"{name:40s} {mean:.4f}  worst {values[worst]:.3f} ({worst}), {len(values)} spaces"


def recorded_spaces(folder: Path, only: str | None = None, folders: Sequence[str] = tuple(FOLDERS)) -> list[Space]:
    """All spaces below a folder, by name."""
    return [
        Space(name, recorded)
        for name in folders
        for path in sorted((folder / name).iterdir())
        if only is None or only in path.name
        for recorded in (renamed(one, path.name) for one in load_recorded(path))
    ]


def renamed(recorded: RecordedSpace, name: str) -> RecordedSpace:
    """The recording under its folder's name, which tells shapes apart."""
    return RecordedSpace(name, recorded.task, recorded.space, recorded.batches, recorded.run_secs)


def write_prior(spaces: Sequence[Space], path: Path, *, n_rows: int = 600) -> None:
    """Teach a fresh verifier these spaces, all of the same folder, and save it."""
    judge = Judge(EngineConfig.of(verifier="lightgbm.residual", prior="none", draft_scorer=None), spaces[0].profile)
    for space in spaces:
        judge.teach(random_lessons(judge.adopted(space.recorded), n_rows, 0))
    assert judge.verifier is not None
    judge.verifier.save(path)


def main() -> None:
    """Run the cases and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spaces", type=Path, default=os.environ.get("PRUNE_ENGINE_SPACES"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", help="part of a space's name")
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--plans", nargs="*", help="such as loop-64")
    arguments = parser.parse_args()
    if arguments.spaces is None:
        parser.error("name the recorded spaces by --spaces or PRUNE_ENGINE_SPACES")
    results = Results()
    everything = recorded_spaces(Path(arguments.spaces))
    spaces = [s for s in everything if arguments.only is None or arguments.only in s.workload]
    plans = [p for p in PLANS if arguments.plans is None or f"{p[0]}-{p[1]}" in arguments.plans]
    with tempfile.TemporaryDirectory() as scratch:
        for space in spaces:
            prior = Path(scratch) / f"{space.workload}.npz"
            if not prior.exists() and any(CASES[case][1] for case in arguments.cases):
                write_prior(
                    [s for s in everything if s.folder == "cpu_1thread" and s.workload != space.workload], prior
                )
            for case in arguments.cases:
                verifier, with_prior, options = CASES[case]
                chosen = {"verifier": verifier, "prior": str(prior) if with_prior else "none", **options}
                for sampling, n in plans:
                    seeds = range(RANDOM_SEEDS if sampling == "random" else 1)
                    values = [found(space, EngineConfig.of(**chosen, seed=seed), sampling, n) for seed in seeds]
                    results.add(case, f"{sampling} {n} + {N_PICKS}", space, float(np.mean(values)))
                    print(
                        f"{space.folder}/{space.workload} {case}, {sampling} {n}: {np.mean(values):.3f}", flush=True
                    )
    print("\n".join(results.lines()))
    if arguments.json:
        arguments.json.write_text(json.dumps(results.found, indent=1))


def found(space: Space, config: EngineConfig, sampling: str, n_samples: int) -> float:
    """Best found over best among the measured and the 8 ranked first of the others."""
    ranking = rank(
        space.recorded,
        config,
        space.profile,
        store=open_store("sqlite://"),
        n_samples=n_samples,
        sampling="random" if sampling == "random" else "loop",
        picks=(N_PICKS,),
    )
    return ranking.found[N_PICKS]


if __name__ == "__main__":
    main()
