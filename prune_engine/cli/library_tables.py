"""What `prune-engine library` prints, and how entries belong together."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prune_engine.display.tables import add_row, counted, fitting, make_table, print_line, print_table
from prune_engine.hardware.host import cpu_model
from prune_engine.library.entries import LibraryEntry


@dataclass(frozen=True, slots=True)
class TunedKernel:
    """One kernel of one model on one device with its schedules, fastest first."""

    entries: tuple[LibraryEntry, ...]

    @property
    def best(self) -> LibraryEntry:
        """Its fastest schedule."""
        return self.entries[0]

    @property
    def place(self) -> tuple[str, str, int, str]:
        """Model, device, threads and kind of target."""
        best = self.best
        return best.model, best.device_name, best.n_threads, target_words(best.target)

    @property
    def extents(self) -> str:
        """The extents of the statement with most iterators, as ``1x64x56x56x64x3x3``."""
        by_statement: dict[str, list[int]] = defaultdict(list)
        for axis, extent in self.best.kernel_class.axes:
            by_statement[axis.rpartition(".")[0]].append(extent)
        longest = max(by_statement.values(), key=lambda extents: len(extents), default=[])
        return "x".join(map(str, longest))


def grouped(entries: Iterable[LibraryEntry]) -> list[TunedKernel]:
    """Entries by kernel: model by model and device by device, the slowest kernel of each first."""
    by_kernel: dict[tuple[object, ...], list[LibraryEntry]] = defaultdict(list)
    for entry in entries:
        by_kernel[_kernel_of(entry)].append(entry)
    kernels = [TunedKernel(tuple(sorted(found, key=_secs))) for found in by_kernel.values()]
    return sorted(kernels, key=lambda kernel: (kernel.place, -kernel.best.latency_secs))


def to_remove(entries: Sequence[LibraryEntry], *, before: float | None, keep: int | None) -> list[LibraryEntry]:
    """Which entries go: those measured ``before`` (seconds since the epoch), and those after the ``keep`` fastest.

    Both None: all of them.
    """
    if before is None and keep is None:
        return list(entries)
    by_kernel: dict[tuple[object, ...], list[LibraryEntry]] = defaultdict(list)
    for entry in entries:
        by_kernel[_kernel_of(entry)[1:]].append(entry)  # whatever model it is a part of
    gone = [one for found in by_kernel.values() for one in sorted(found, key=_secs)[keep or len(found) :]]
    old = [one for one in entries if before is not None and one.measured_at < before]
    return list({one.entry_id: one for one in (*gone, *old)}.values())


def target_words(target: str) -> str:
    """A target in two words: ``llvm cascadelake``, ``cuda sm_80``."""
    try:
        config = json.loads(target)
    except ValueError:
        return target
    if not isinstance(config, dict):
        return target
    return " ".join(str(config[key]) for key in ("kind", "mcpu", "arch") if key in config)


def kernel_record(kernel: TunedKernel) -> dict[str, Any]:
    """A tuned kernel as JSON values; times in seconds."""
    best = kernel.best
    return {
        "label": best.kernel_class.label,
        "strict": best.kernel_class.strict,
        "anchor": best.kernel_class.anchor,
        "axes": dict(best.kernel_class.axes),
        "model": best.model,
        "task_name": best.task_name,
        "device_name": best.device_name,
        "n_threads": best.n_threads,
        "target": best.target,
        "flop_count": best.flop_count,
        "entries": [
            {
                "entry_id": entry.entry_id,
                "sketch_id": entry.sketch_id,
                "rank": entry.rank,
                "latency_secs": entry.latency_secs,
                "noise": entry.noise,
                "flop_per_sec": entry.flop_per_sec,
                "efficiency": entry.efficiency,
                "default_secs": entry.default_secs,
                "n_trials": entry.n_trials,
                "origin": entry.origin.value,
                "tvm_version": entry.tvm_version,
                "symbols_version": entry.symbols_version,
                "measured_at": entry.measured_at,
            }
            for entry in kernel.entries
        ],
    }


def print_kernels(kernels: Sequence[TunedKernel], place: str) -> None:
    """A table of the kernels of each model and device, and what there is in all."""
    from prune_engine.cli.console import result_console

    console = result_console()
    headers = ["kernel", "extents", "n", "ms", "GFLOP/s", "gain"]
    for where in dict.fromkeys(kernel.place for kernel in kernels):
        here = [kernel for kernel in kernels if kernel.place == where]
        model, device, n_threads, target = where
        print_line(console, f"{model} on {device}, {counted(n_threads, 'thread')}, {target}")
        cells = [_cells(kernel) for kernel in here]
        others = [list(column) for column in zip(headers[1:], *cells, strict=True)]
        table = make_table(*headers, right=headers[2:])
        names = fitting([kernel.best.kernel_class.label for kernel in here], console, others)
        for name, row in zip(names, cells, strict=True):
            add_row(table, name, *row)
        print_table(console, table)
        print_line(console, "")
    if not kernels:
        print_line(console, f"nothing in {place}; `tune` adds what it finds, `library import` what others did")
        return
    n_entries = sum(len(kernel.entries) for kernel in kernels)
    print_line(console, f"{counted(len(kernels), 'kernel')}, {counted(n_entries, 'schedule')} in {place}")


def import_record(
    source: Path,
    entries: Sequence[LibraryEntry],
    remarks: Sequence[str],
    n_records: int,
    n_new: int,
    store: str,
) -> dict[str, Any]:
    """What an import did, as JSON values."""
    counts = Counter((target_words(entry.target), entry.device_name, entry.n_threads) for entry in entries)
    return {
        "source": str(source),
        "store": store,
        "n_records": n_records,
        "n_kernels": len({_kernel_of(entry) for entry in entries}),
        "n_entries": len(entries),
        "n_new": n_new,
        "devices": [
            {"target": target, "device_name": device, "n_threads": n_threads, "n_entries": n}
            for (target, device, n_threads), n in sorted(counts.items())
        ],
        "remarks": list(remarks),
    }


def print_import(record: Mapping[str, Any]) -> None:
    """What an import did, and for which tasks it will be of use."""
    from prune_engine.cli.console import result_console

    console = result_console()
    schedules, kernels = counted(record["n_entries"], "schedule"), counted(record["n_kernels"], "kernel")
    records = counted(record["n_records"], "record")
    print_line(console, f"{schedules} of {kernels} from {records}: {record['n_new']} new in {record['store']}")
    for device in record["devices"]:
        threads = counted(device["n_threads"], "thread")
        where = f"{device['target']}, measured on {device['device_name']} with {threads}"
        print_line(console, f"{device['n_entries']} for {where}{_use_of(device)}")


def _use_of(device: Mapping[str, Any]) -> str:
    """What is to be expected of entries that were not measured on this processor."""
    return "" if device["device_name"] == cpu_model() else f"; of use to tasks for {device['target']} only"


def _kernel_of(entry: LibraryEntry) -> tuple[object, ...]:
    extents = tuple(extent for _, extent in entry.kernel_class.axes)
    return entry.model, entry.kernel_class.strict, extents, entry.device_name, entry.n_threads, entry.target


def _cells(kernel: TunedKernel) -> list[str]:
    best = kernel.best
    return [
        kernel.extents,
        str(len(kernel.entries)),
        f"{best.latency_secs * 1e3:.4g}",
        f"{best.flop_per_sec / 1e9:.4g}" if best.flop_count else "-",
        f"{best.speedup:.3g}x" if best.speedup else "-",
    ]


def _secs(entry: LibraryEntry) -> float:
    return entry.latency_secs
