"""Which model of a library to transfer from: the one that knows what a model spends its time on.

After Gibson and Cano, "Transfer-Tuning" (PACT 2022), which transfers from one source model: the published choice
is, as far as it is known, the model with the greatest sum over kernel classes of P^2 sqrt(W). P is the share of the
untuned time that the wanted model spends in the class, W counts the source's kernels of the class.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from prune_engine.errors import ConfigError
from prune_engine.library.entries import LibraryEntry, LibraryQuery
from prune_engine.strategies import Library

#: Source names with a meaning of their own.
WHOLE_LIBRARY, BEST_MODEL = "library", "best"
#: What one class adds to a source's score, by P and W.
FORMS: Mapping[str, Callable[[float, int], float]] = {
    "squared": lambda p, w: p * p * math.sqrt(w),
    "linear": lambda p, w: p * math.sqrt(w),
    "covered": lambda p, w: p if w else 0.0,
    "count": lambda p, w: float(w) if p else 0.0,
}


@dataclass(frozen=True, slots=True)
class SourceScore:
    """How good a source a model is. ``covered`` is the share of the time in classes that it has, in [0, 1]."""

    model: str
    score: float
    covered: float
    n_kernels: int


def rank_sources(
    secs: Mapping[str, float], kernels: Mapping[str, Mapping[str, int]], form: str = "squared"
) -> list[SourceScore]:
    """The models of a library, the best source first; those without any of the classes are left out.

    ``secs`` is the untuned time of a call of the wanted model by class, ``kernels`` counts each model's kernels by
    class. Raises ConfigError for an unknown form.
    """
    if form not in FORMS:
        raise ConfigError("no such form", who="source_form", got=repr(form), expected=f"one of: {', '.join(FORMS)}")
    total = sum(secs.values())
    shares = {name: spent / total for name, spent in secs.items()} if total else {}
    found = []
    for model, counts in kernels.items():
        known = {name: p for name, p in shares.items() if counts.get(name)}
        if known:
            score = sum(FORMS[form](p, counts[name]) for name, p in known.items())
            n_kernels = sum(counts[name] for name in known)
            found.append(SourceScore(model, score, min(1.0, sum(known.values())), n_kernels))
    return sorted(found, key=lambda one: (-one.score, one.n_kernels, one.model))


def kernels_by_model(library: Library, classes: Sequence[str]) -> dict[str, Counter[str]]:
    """How many kernels of some (strict) classes each model of a library has, by class."""
    kernels: dict[str, dict[str, set[object]]] = defaultdict(lambda: defaultdict(set))
    for name in dict.fromkeys(classes):
        for entry in library.find(LibraryQuery(strict=name)):
            kernels[entry.model][name].add(entry.kernel_class.axes)
    return {model: Counter({name: len(axes) for name, axes in by.items()}) for model, by in kernels.items()}


class OnlyModel:
    """What a library has of one model."""

    def __init__(self, library: Library, model: str) -> None:
        self._library, self._model = library, model

    def find(self, query: LibraryQuery) -> Sequence[LibraryEntry]:
        """The entries asked for, fastest (flop/s) first."""
        return self._library.find(replace(query, model=self._model))
