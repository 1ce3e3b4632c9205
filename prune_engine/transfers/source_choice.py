"""Which model of a library to transfer from: the one that knows what a model spends its time on.

Gibson and Cano, "Transfer-Tuning" (PACT 2022), transfer from one source model, chosen, as far as it is known, by
the greatest sum over kernel classes of P^2 sqrt(W). P is the share of the untuned time that the wanted model
spends in the class, W counts the source's kernels of the class. Measured (`tests/benchmarks/transfer.py --parts
sources`) that mostly chose a wrong one: what is not covered soon takes most of the time, so the sum of P alone is
what counts, and many kernels of one class make up for nothing. A class of which a source has the main statement
alone (with something else fused to it) counts half: see ``ANCHOR_WEIGHT``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from prune_engine.errors import ConfigError
from prune_engine.library.entries import LibraryEntry, LibraryQuery
from prune_engine.strategies import Library

#: Source names with a meaning of their own.
WHOLE_LIBRARY, BEST_MODEL = "library", "best"
#: What one class adds to a source's score, by P and W.
FORMS: Mapping[str, Callable[[float, int], float]] = {
    "covered": lambda p, w: p if w else 0.0,
    "squared": lambda p, w: p * p * math.sqrt(w),
    "linear": lambda p, w: p * math.sqrt(w),
    "count": lambda p, w: float(w) if p else 0.0,
}
#: The form that decides between sources that cover as much.
_OF_EQUALS = "squared"
#: What a class adds of which a source has the main statement alone, as a share of what as many kernels of the class
#: would. Such schedules are transplanted: tiles carry over, what is fused is decided anew, they are tried behind
#: those of the class, and none tells what speed to stop at. Measured, nothing up to one half made a difference to
#: which source was chosen, and as much as the class chose a wrong one.
ANCHOR_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class KnownKernels:
    """How many kernels a model has of a class, and how many others with the same main statement (anchor)."""

    of_class: int = 0
    of_anchor: int = 0


@dataclass(frozen=True, slots=True)
class SourceScore:
    """How good a source a model is.

    ``covered`` is the share of the time in classes that it has, ``covered_by_anchor`` that in classes of which it
    has the main statement alone; together they are at most 1. ``n_kernels`` are its kernels that count.
    """

    model: str
    score: float
    covered: float
    n_kernels: int
    covered_by_anchor: float = 0.0


def rank_sources(
    secs: Mapping[str, float], kernels: Mapping[str, Mapping[str, KnownKernels]], form: str = "covered"
) -> list[SourceScore]:
    """The models of a library, the best source first; those without any of the classes or anchors are left out.

    ``secs`` is the untuned time of a call of the wanted model by class, ``kernels`` counts each model's kernels by
    class. Raises ConfigError for an unknown form.
    """
    if form not in FORMS:
        raise ConfigError("no such form", who="source_form", got=repr(form), expected=f"one of: {', '.join(FORMS)}")
    total = sum(secs.values())
    shares = {name: spent / total for name, spent in secs.items()} if total else {}
    found = []
    richness: dict[str, float] = {}
    for model, counts in kernels.items():
        of_class = {name: counts[name].of_class for name in shares if name in counts and counts[name].of_class}
        of_anchor = {name: counts[name].of_anchor for name in shares if name in counts and name not in of_class}
        of_anchor = {name: n for name, n in of_anchor.items() if n}
        if of_class or of_anchor:
            score, richness[model] = (
                _sum(f, shares, of_class) + ANCHOR_WEIGHT * _sum(f, shares, of_anchor) for f in (form, _OF_EQUALS)
            )
            covered = min(1.0, sum(shares[name] for name in of_class))
            by_anchor = min(1.0 - covered, sum(shares[name] for name in of_anchor))
            n_kernels = sum(of_class.values()) + sum(of_anchor.values())
            found.append(SourceScore(model, score, covered, n_kernels, by_anchor))
    return sorted(found, key=lambda one: (-round(one.score, 9), -richness[one.model], one.n_kernels, one.model))


def _sum(form: str, shares: Mapping[str, float], counts: Mapping[str, int]) -> float:
    return sum(FORMS[form](shares[name], n) for name, n in counts.items())


def kernels_by_model(library: Library, anchors: Mapping[str, str]) -> dict[str, dict[str, KnownKernels]]:
    """How many kernels of some classes each model of a library has, by (strict) class.

    ``anchors`` has the anchor class of each of them.
    """
    kernels: dict[str, dict[str, KnownKernels]] = defaultdict(dict)
    for strict, anchor in anchors.items():
        of_class, of_anchor = defaultdict[str, set[object]](set), defaultdict[str, set[object]](set)
        for entry in library.find(LibraryQuery(strict=strict)):
            of_class[entry.model].add(entry.kernel_class.axes)
        for entry in library.find(LibraryQuery(anchor=anchor)):
            if entry.kernel_class.strict != strict:
                of_anchor[entry.model].add((entry.kernel_class.strict, entry.kernel_class.axes))
        for model in {**of_class, **of_anchor}:
            kernels[model][strict] = KnownKernels(len(of_class[model]), len(of_anchor[model]))
    return dict(kernels)


class OnlyModel:
    """What a library has of one model."""

    def __init__(self, library: Library, model: str) -> None:
        self._library, self._model = library, model

    def find(self, query: LibraryQuery) -> Sequence[LibraryEntry]:
        """The entries asked for, fastest (flop/s) first."""
        return self._library.find(replace(query, model=self._model))
