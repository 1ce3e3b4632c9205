"""Turn measurements of this machine into a profile. What runs and times the kernels is passed in."""

from __future__ import annotations

import math
import os
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from prune_engine import __version__
from prune_engine.hardware.host import cpu_model
from prune_engine.hardware.load import LoadMeter
from prune_engine.hardware.schema import HardwareProfile, MemoryLevel, Probe, Rate

#: Off-chip memory is read in a working set so many times the last cache's size.
_DRAM_FACTOR = 4
_MIN_DRAM_BYTES, _MAX_DRAM_BYTES = 64 << 20, 2 << 30
#: Where a container's memory limit and its use stand, in versions 2 and 1 of the kernel's interface.
_CGROUP_FILES = (
    ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current"),
    ("sys/fs/cgroup/memory/memory.limit_in_bytes", "sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
#: Samples that differ by more than this share of the median were disturbed.
_QUIET_SPREAD = 0.1
#: Others that take more of the processors than this slow what is measured, be it evenly.
_QUIET_SHARE = 0.05


class Kernels(Protocol):
    """Kernels that use ``n_threads`` threads at once and are timed several times."""

    n_threads: int

    def flop_rates(self, dtype: str) -> Sequence[float]:
        """Samples of operations per second of all threads (a multiply-add is two), empty if it has no kernel."""

    def read_rates(self, bytes_per_thread: int) -> Sequence[float]:
        """Samples of bytes per second that all threads together read, each its own working set again and again."""

    def fork_join_secs(self) -> Sequence[float]:
        """Samples of the seconds that one parallel region costs; empty with one thread."""


def probe_host(
    host: HardwareProfile, kernels: Kernels, *, measured_at: str, say: Callable[[str], None] = lambda _: None
) -> HardwareProfile:
    """Measure this machine: peaks by dtype, bandwidth of each data level, cost of a parallel region.

    ``host`` is what the operating system reports, from `host_profile` with the kernels' thread count; take it
    before any kernel runs, for thread pools bind this thread to a processor and then only that one shows.
    Every measured number is the median of several samples and has a source that says how it came about.
    ``say`` gets one line per measurement.
    """
    model = cpu_model()
    notes, load = _Notes(say), LoadMeter()
    peaks = {
        dtype: notes.rate(f"peak-{dtype}", kernels.flop_rates(dtype), what, "flop/s")
        for dtype, what in (
            ("float32", "independent chains of fused multiply-adds in registers, all threads"),
            ("float64", "independent chains of fused multiply-adds in registers, all threads"),
            ("int8", "independent chains of 8-bit dot products into 32 bits in registers, all threads"),
        )
    }
    memory = tuple(_with_bandwidth(level, host, kernels, notes) for level in host.memory)
    launch = notes.rate(
        "fork-join",
        kernels.fork_join_secs(),
        "one parallel region of TVM's thread pool, back to back, less the same work in one thread",
        "s",
    )
    share = load.others_share()
    if share is not None and share > _QUIET_SHARE:
        say(f"other programs used {share:.0%} of the processors meanwhile; measure again when they are idle")
    units = tuple(
        unit.model_copy(update={"peak_flop_per_sec": {k: v for k, v in peaks.items() if v is not None}})
        if unit.name == "vector"
        else unit
        for unit in host.compute
    )
    return HardwareProfile(
        **{
            **{name: getattr(host, name) for name in host.model_fields_set},
            "name": probe_name(model, kernels.n_threads),
            "memory": memory,
            "compute": units,
            "launch_secs": launch,
            "sources": {**host.sources, **notes.sources},
            "probe": Probe(
                cpu_model=model,
                n_threads=kernels.n_threads,
                measured_at=measured_at,
                version=__version__,
                others_share=None if share is None else round(share, 3),
            ),
        }
    )


def probe_name(model: str, n_threads: int) -> str:
    """What the profile measured on such a processor is called."""
    slug = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")[:50].strip("-")
    return f"probe-{slug or 'cpu'}-{n_threads}t"


def working_set_bytes(level: str, host: HardwareProfile, n_threads: int) -> int | None:
    """Bytes per thread to read so that they come from this level and no other; None if that cannot be had.

    The innermost cache is half filled; further out it is the geometric mean of what the level inside and the
    level itself hold, as far from both as possible.
    """
    caches = [m for m in host.memory if m.name not in ("l1i", "dram")]
    held = {m.name: _held_bytes(m, n_threads) for m in caches}
    if level == "dram":
        known = [size for size in held.values() if size]
        wanted = max(_MIN_DRAM_BYTES, _DRAM_FACTOR * max(known, default=0))
        total = min(wanted, _MAX_DRAM_BYTES, _free_bytes() // 2)
        return None if total < 2 * max(known, default=0) else total // n_threads
    size = held.get(level)
    if not size:
        return None
    inner = caches[[m.name for m in caches].index(level) - 1] if caches[0].name != level else None
    inside = held[inner.name] if inner else None
    total = int(math.sqrt(size * inside)) if inside else size // 2
    return total // n_threads if total < size else None


def _held_bytes(level: MemoryLevel, n_threads: int) -> int | None:
    """What the instances that the threads use hold together, as far as known."""
    return level.capacity_bytes.value * _used_instances(level, n_threads) if level.capacity_bytes else None


def _used_instances(level: MemoryLevel, n_threads: int) -> int:
    """Each thread is taken to run on another core; fewer threads than instances leave some idle."""
    return min(level.instances.value, n_threads) if level.instances else 1


def _with_bandwidth(level: MemoryLevel, host: HardwareProfile, kernels: Kernels, notes: _Notes) -> MemoryLevel:
    size = working_set_bytes(level.name, host, kernels.n_threads)
    if size is None:
        return level
    instances = _used_instances(level, kernels.n_threads)
    share = f", divided by {instances} instances" if instances > 1 else ""
    rate = notes.rate(
        f"read-{level.name}",
        [sample / instances for sample in kernels.read_rates(size)],
        f"reading {size} bytes per thread again and again, all threads{share}",
        "bytes/s",
    )
    return level.model_copy(update={"bandwidth_bytes_per_sec": rate})


class _Notes:
    """The sources of what was measured."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._sources: dict[str, str] = {}

    @property
    def sources(self) -> Mapping[str, str]:
        return self._sources

    def rate(self, tag: str, samples: Sequence[float], what: str, unit: str) -> Rate | None:
        """The median of samples, with its source; None if there are none or it means nothing."""
        median = statistics.median(samples) if samples else 0.0
        if median <= 0:
            self._say(f"{tag}: unknown")
            return None
        spread = (max(samples) - min(samples)) / median
        disturbed = "" if spread <= _QUIET_SPREAD else "; something disturbed them"
        self._sources[tag] = f"median of {len(samples)} samples that differ by {spread:.0%}: {what}"
        self._say(f"{tag}: {median:.3g} {unit} (samples differ by {spread:.0%}{disturbed})")
        return Rate(value=float(f"{median:.4g}"), source=tag, origin="measured")


def _free_bytes(root: Path = Path("/")) -> int:
    """Memory that may still be used: the machine's, or what a container's limit leaves."""
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        free = 0
    for limit, usage in _CGROUP_FILES:
        try:
            left = int((root / limit).read_text()) - int((root / usage).read_text())
        except (OSError, ValueError):  # no such controller, or "max"
            continue
        free = min(free, max(0, left))
    return free
