"""Makes the library that is shipped: tunes kernels and models on this machine and writes what is worth keeping.

    python tests/benchmarks/builtin_library.py [--seconds 60] [--model-seconds 300] [--budget-seconds 7200]

Workloads of usual sizes and real models are tuned one after the other, each for so many seconds and from nothing,
into one store. What is done is noted beside the store and not done again. Of each kernel the best ``--keep``
schedules are written with where they come from: the machine, versions, date, seconds and trials. Run it on an idle
machine: what it measures is what every user starts from. With --evaluation what the evaluation of transfer tuned
(tests/benchmarks/transfer.py, its state file) is taken in, too, and its models are not tuned again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import machine
from transfer_records import State
from transfer_subjects import MODEL_NAMES, SUBJECTS, Subject, target_of

from prune_engine import __version__
from prune_engine.library import LibraryEntry, LibraryQuery, Origin
from prune_engine.library.files import write_library
from prune_engine.store.open import open_store

ROOT = Path(__file__).parents[2]
OUT = ROOT / "plugins" / "prune_engine_transfer" / "library.jsonl.gz"
#: One or more of each class of kernel that usual layers become; sizes are spread, as any size is re-fitted.
WORKLOADS = (
    *("gemm:512x512x512", "gemm:128x768x768+bias", "gemm:128x3072x768+bias+gelu", "gemm:1x1000x2048+bias"),
    *(
        "gemm:256x1024x1024+bias+relu",
        "gemm:64x256x256+bias+add",
        "gemm:128x768x768:nt",
        "gemm:128x768x768:nt+bias",
    ),
    *("bmm:12x128x128x64", "bmm:12x128x64x128", "bmm:12x128x128x64:nt", "bmm:8x64x64x32"),
    *("conv2d:1x3x224x224,64x7x7,s2,p3", "conv2d:1x3x224x224,32x3x3,s2,p1+bias+relu"),
    *("conv2d:1x64x56x56,64x3x3,p1+bias+relu", "conv2d:1x128x28x28,128x3x3,p1+bias+add+relu"),
    *("conv2d:1x64x56x56,128x3x3,s2,p1+bias+relu", "conv2d:1x512x7x7,512x3x3,p1+bias+relu"),
    *("conv2d:1x256x56x56,64x1x1+bias+relu", "conv2d:1x64x56x56,256x1x1+bias+add+relu"),
    *("conv2d:1x256x56x56,512x1x1,s2+bias", "conv2d:1x96x14x14,576x1x1+bias+silu"),
    *("conv2d:1x96x56x56,96x3x3,p1,g96+bias+relu", "conv2d:1x144x28x28,144x3x3,s2,p1,g144+bias+silu"),
    *("conv2d:1x240x14x14,240x5x5,p2,g240+bias+relu", "conv2d:1x128x28x28,128x3x3,p1,g32+bias+relu"),
    *("conv1d:1x64x1000,128x3,p1+bias+relu", "conv1d:1x80x3000,384x3,s2,p1+bias+gelu"),
    *("conv2d_transpose:1x64x28x28,32x4x4,s2,p1+bias", "conv3d:1x16x8x28x28,32x3x3x3,p1+bias+relu"),
    *("max_pool2d:1x64x112x112,3x3,s2,p1", "avg_pool2d:1x64x56x56,3x3,s2,p1", "global_avg_pool:1x512x7x7"),
    *("softmax:1x12x128x128", "softmax:12x128x128", "softmax:1x1000", "log_softmax:128x768"),
    *("layer_norm:1x128x768", "layer_norm:128x768", "rms_norm:1x128x768", "rms_norm:128x768"),
    *("reduce_sum:128x768", "reduce_mean:128x768", "reduce_max:128x768"),
)
#: Of the transformer's lengths one is enough: the other is re-fitted.
MODELS = (*MODEL_NAMES, "resnet50", "shufflenet", "yolox")
#: A schedule that gains less than this over the untuned kernel is not worth its bytes.
_MIN_SPEEDUP = 1.1


def main() -> int:
    """Tune what is left to tune, as far as the seconds go, and write the file from all that is there."""
    options = _options()
    deadline = time.monotonic() + options.budget_seconds if options.budget_seconds else None
    journal = options.store.with_suffix(".done.json")
    done: dict[str, float] = json.loads(journal.read_text(encoding="utf-8")) if journal.exists() else {}
    subjects = [(Subject(name, "kernel", name), options.seconds) for name in options.workloads]
    subjects += [(SUBJECTS[name], options.model_seconds) for name in options.models]
    options.store.parent.mkdir(parents=True, exist_ok=True)
    evaluated = _evaluated(options.evaluation, options.threads) if options.evaluation else {}
    for subject, seconds in subjects:
        if max(done.get(subject.name, 0.0), evaluated.get(subject.name, 0.0)) >= seconds:
            continue
        if deadline is not None and time.monotonic() + seconds + 30 > deadline:
            print(f"no time left for {subject.name}", file=sys.stderr)
            continue
        print(f"{time.strftime('%H:%M:%S')} {subject.name}, {seconds:g} s", flush=True)
        if _tune(subject, seconds, options.threads, options.store):
            done[subject.name] = seconds
            journal.write_text(json.dumps(done, indent=1) + "\n", encoding="utf-8")
    stores = [options.store, *(options.evaluation.with_suffix("") / f"{name}.sqlite3" for name in evaluated)]
    _write(stores, options.out, options.keep, options.threads, {**evaluated, **done})
    return 0


def _evaluated(state: Path, n_threads: int) -> dict[str, float]:
    """Seconds that the evaluation tuned its subjects for, with as many threads."""
    tuned = State(state).tuned.values()
    return {run.subject: run.seconds for run in tuned if run.n_threads == n_threads}


def _tune(subject: Subject, seconds: float, n_threads: int, store: Path) -> bool:
    with TemporaryDirectory() as scratch:
        command = [
            *(sys.executable, "-m", "prune_engine.cli", "tune", subject.source, *subject.options, "--quiet"),
            *("--seconds", str(seconds), "--threads", str(n_threads), "--no-transfer", "--no-builtin-library"),
            *("--store", str(store), "--out", str(Path(scratch) / "out")),
        ]
        env = {**os.environ, "TVM_NUM_THREADS": str(n_threads)}
        finished = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if finished.returncode:
        print(f"  failed: {finished.stderr.strip()[-500:]}", file=sys.stderr)
    return finished.returncode == 0


def _write(stores: Iterable[Path], out: Path, keep: int, n_threads: int, tuned_secs: Mapping[str, float]) -> None:
    found: list[LibraryEntry] = []
    for store in stores:
        opened = open_store(str(store))
        try:
            found += opened.find(LibraryQuery(n_threads=n_threads))
        finally:
            opened.close()
    chosen = worth_keeping(found, keep)
    provenance = {
        "made_by": f"tests/benchmarks/{Path(__file__).name}",
        "prune_engine": __version__,
        "target": json.loads(target_of(n_threads)),
        "n_threads": n_threads,
        "machine": machine.describe(),
        "tuned_secs": dict(tuned_secs),
        "n_trials": _n_trials(found),
    }
    n_written = write_library(out, chosen, provenance)
    classes = Counter(entry.kernel_class.strict for entry in chosen)
    print(
        f"{n_written} schedules of {len({_kernel(entry) for entry in chosen})} kernels in {len(classes)} classes, "
        f"{out.stat().st_size / 1024:.0f} KiB, of {len(found)} found: {out}"
    )


def worth_keeping(entries: Iterable[LibraryEntry], keep: int) -> list[LibraryEntry]:
    """The best ``keep`` schedules of each kernel that gain anything, as entries of a shipped library.

    They are in the order of their classes and ranks, so that the same entries always give the same file.
    """
    by_kernel: dict[tuple[object, ...], list[LibraryEntry]] = defaultdict(list)
    for entry in entries:
        if entry.speedup is not None and entry.speedup >= _MIN_SPEEDUP:
            by_kernel[_kernel(entry)].append(entry)
    chosen = []
    for found in by_kernel.values():
        found.sort(key=lambda entry: (entry.latency_secs, entry.entry_id))
        chosen += [replace(entry, origin=Origin.BUILTIN, rank=rank) for rank, entry in enumerate(found[:keep])]
    return sorted(chosen, key=lambda e: (e.kernel_class.label, e.kernel_class.strict, _kernel(e), e.rank))


def _kernel(entry: LibraryEntry) -> tuple[object, ...]:
    return entry.kernel_class.strict, entry.kernel_class.axes


def _n_trials(entries: Sequence[LibraryEntry]) -> int:
    """Measurements behind the entries: each kernel's once."""
    return sum({_kernel(entry): entry.n_trials for entry in entries}.values())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--models", nargs="*", choices=list(SUBJECTS), default=list(MODELS))
    parser.add_argument("--seconds", type=float, default=60.0, help="of tuning a workload")
    parser.add_argument("--model-seconds", type=float, default=300.0)
    parser.add_argument("--keep", type=int, default=2, help="schedules of each kernel")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--budget-seconds", type=float, help="start nothing that would not end by then")
    parser.add_argument("--evaluation", type=Path, metavar="STATE", help="state file of transfer.py")
    parser.add_argument("--store", type=Path, default=ROOT / "build" / "builtin_library.sqlite3")
    parser.add_argument("--out", type=Path, default=OUT)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
