"""Which entries of the library a task can start from, and in what order they are looked at."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from prune_engine.library import KernelClass, LibraryEntry, LibraryQuery
from prune_engine.strategies import TransferContext
from prune_engine.task import TuningTask

#: Stands for all policies where an entry is of no use to any.
ANY_POLICY = "any"
#: Entries the library is asked for at a time: a class has a few hundred at most, a big one need not be read whole.
_N_ASKED = 256
#: What of a target decides which instructions its kernels are made of.
_INSTRUCTION_SET = ("kind", "mcpu", "arch", "mtriple")
#: Trials after which a search is taken to have found what there is.
_FULL_SEARCH_TRIALS = 64
#: An entry says what a kernel can reach if it does at least this share of the kernel's work.
_COMPARABLE_WORK = 0.5


@dataclass(frozen=True, slots=True)
class Donor:
    """An entry that may be re-fitted.

    ``is_here`` says that it was measured on this device with as many threads, ``is_alike`` that it was made for the
    same instructions, ``shape_distance`` is the sum of |log2| of the extents' ratios, 0 for the very same
    shape. ``is_strict`` says that it is of the very same class, not only of one with the same anchor.
    """

    entry: LibraryEntry
    is_strict: bool
    is_here: bool
    is_alike: bool
    shape_distance: float

    @property
    def strangeness(self) -> int:
        """How foreign the device is: 0 this one, 1 another that takes the same instructions, 2 any other."""
        return 0 if self.is_here else 1 if self.is_alike else 2

    @property
    def is_same_kernel(self) -> bool:
        """Whether it is a schedule of this very kernel."""
        return self.is_strict and self.shape_distance == 0


@dataclass(frozen=True, slots=True)
class Donors:
    """The entries to be re-fitted, the most promising first, and what was left out by (policy, reason)."""

    chosen: tuple[Donor, ...] = ()
    n_sources: dict[str, int] = field(default_factory=dict)
    misses: Counter[tuple[str, str]] = field(default_factory=Counter)
    goal_flop_per_sec: float | None = None


def donors_of(task: TuningTask, context: TransferContext, n: int) -> Donors:
    """At most ``n`` entries of the task's class: those of this device, its class and the nearest shape first."""
    wanted = task.kernel_class
    if wanted is None:
        return Donors(misses=Counter({(ANY_POLICY, "the kernel's class is not known"): 1}))
    found: list[Donor] = []
    misses: Counter[tuple[str, str]] = Counter()
    target = instruction_set(task.target)
    for entry in _entries(wanted, context):
        made_for = instruction_set(entry.target)
        if made_for[0] != target[0]:
            misses[ANY_POLICY, "was tuned for another kind of target"] += 1
            continue
        is_alike = made_for == target
        is_here = is_alike and (entry.device_name, entry.n_threads) == (context.device_name, context.n_threads)
        is_strict = entry.kernel_class.strict == wanted.strict
        distance = shape_distance(entry.kernel_class, wanted)
        found.append(Donor(entry, is_strict, is_here, is_alike, distance))
    found.sort(key=_unlikeness)
    matches = Counter("strict" if donor.is_strict else "anchor" for donor in found)
    return Donors(tuple(found[:n]), dict(matches), misses, _goal(task, found))


def _unlikeness(donor: Donor) -> tuple[int, bool, float, int, float]:
    entry = donor.entry
    return donor.strangeness, not donor.is_strict, donor.shape_distance, entry.rank, -entry.flop_per_sec


def instruction_set(target: str) -> tuple[str, ...]:
    """Which instructions the kernels of a target are made of: kind, processor or architecture, features.

    A text that cannot be read is like no other.
    """
    if target.lstrip().startswith("{"):
        try:
            options = json.loads(target)
        except ValueError:
            return (target,)
    else:
        kind, *words = target.replace("=", " ").split() or [""]
        options = {
            "kind": kind,
            **{k.lstrip("-"): v for k, v in pairwise(words) if k[:1] == "-"},
        }
    features = options.get("mattr") or []
    names = features.split(",") if isinstance(features, str) else features
    return (*(str(options.get(key, "")) for key in _INSTRUCTION_SET), ",".join(sorted(map(str, names))))


def shape_distance(source: KernelClass, wanted: KernelClass) -> float:
    """Sum of |log2| of the ratios of extents; of kernels with other statements, over the iterators both have."""
    ours, theirs = wanted.extents(), source.extents()
    if source.strict == wanted.strict and len(ours) == len(theirs):
        pairs = list(zip(ours.values(), theirs.values(), strict=True))  # statements may have other names
    else:
        pairs = [(extent, theirs[axis]) for axis, extent in ours.items() if axis in theirs]
    return float(sum(abs(math.log2(mine / max(other, 1))) for mine, other in pairs))


def _entries(wanted: KernelClass, context: TransferContext) -> Iterator[LibraryEntry]:
    """What the library has of the class, then of its anchor: of this device, then of any."""
    seen: set[str] = set()
    for kin in (LibraryQuery(strict=wanted.strict), LibraryQuery(anchor=wanted.anchor)):
        here = replace(kin, device_name=context.device_name, n_threads=context.n_threads)
        for query in (here, kin):
            for entry in context.library.find(replace(query, limit=_N_ASKED)):
                if entry.entry_id not in seen:
                    seen.add(entry.entry_id)
                    yield entry


def _goal(task: TuningTask, found: Sequence[Donor]) -> float | None:
    """What full searches of such kernels reached here. A small kernel does not say what a big one can reach."""
    comparable = _COMPARABLE_WORK * task.flop_count
    reached = (
        donor.entry.flop_per_sec
        for donor in found
        if donor.is_here
        and donor.is_strict
        and donor.entry.n_trials >= _FULL_SEARCH_TRIALS
        and donor.entry.flop_count >= max(comparable, 1)
    )
    return max(reached, default=None)
