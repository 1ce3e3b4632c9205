"""The whitelist as a library: proven schedules as donors for kernels of their class with other extents."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prune_engine.library.entries import LibraryEntry, LibraryQuery, Origin
from prune_engine.whitelist.entries import Check, Whitelist, WhitelistEntry

#: Which model they are told to be of.
MODEL = "whitelist"


@dataclass(frozen=True, slots=True)
class WhitelistLibrary:
    """Finds whitelisted schedules that passed their last check on some machine, with the times of that check.

    For kernels of the very same extents they are whitelisted anyway; for others they are a guess like any donor.
    """

    entries: tuple[LibraryEntry, ...]

    @staticmethod
    def of(listed: Whitelist) -> WhitelistLibrary:
        """The entries of a whitelist, one for each machine and number of threads."""
        found = (donor for entry in listed.entries.values() for donor in _donors(entry))
        return WhitelistLibrary(tuple(sorted(found, key=lambda entry: -entry.flop_per_sec)))

    def find(self, query: LibraryQuery) -> Sequence[LibraryEntry]:
        """The entries asked for, fastest (flop/s) first."""
        return [entry for entry in self.entries if query.matches(entry)][: query.limit]


def _donors(entry: WhitelistEntry) -> Iterator[LibraryEntry]:
    last: dict[tuple[str, int], Check] = {(check.device_name, check.n_threads): check for check in entry.checks}
    for (device_name, n_threads), check in last.items():
        if not check.is_passed or not check.run_secs or not entry.flop_count:
            continue
        yield LibraryEntry(
            kernel_class=entry.kernel_class,
            target=entry.target,
            device_name=device_name,
            n_threads=n_threads,
            sketch_id=entry.sketch_id,
            choices=entry.choices,
            trace_json=entry.trace_json,
            run_secs=check.run_secs,
            default_secs=statistics.median(check.default_secs) if check.default_secs else None,
            flop_count=entry.flop_count,
            peak_flop_per_sec=None,
            n_trials=1,
            model=MODEL,
            task_name=entry.task_name,
            origin=Origin.WHITELIST,
            tvm_version=check.tvm_version,
            symbols_version=check.symbols_version,
            measured_at=check.checked_at,
        )
