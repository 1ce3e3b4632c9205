"""Distinct legal candidates of a space, drawn by an explorer, without anything being measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_engine import contracts
from prune_engine.candidates import CandidateBatch, SeenRows
from prune_engine.census import MAX_COUNTED
from prune_engine.contracts import STRATEGY_FAILURES
from prune_engine.enumeration import all_batches
from prune_engine.errors import PluginContractError, PluginTimeoutError
from prune_engine.funnel import Funnel
from prune_engine.pipeline import Pipeline
from prune_engine.space import DesignSpace, Int32Array, Sketch
from prune_engine.stages.vetting import unsure
from prune_engine.strategies import Explorer

#: What the compiler makes of candidate ``row`` of a batch, int32 (v,): the rows that run, or None if it refuses.
Checker = Callable[[CandidateBatch, int], "Int32Array | None"]
OnProgress = Callable[[int, int], None]

#: Candidates per candidate wanted that the first round asks for, and the most that any round asks for.
_FIRST_ASK, _MAX_ASK = 4, 1 << 16
#: Candidates looked at before a space counts as one in which no more can be found.
_MAX_DRAWN = 5_000_000
#: Candidates of opaque sketches that the compiler is asked about, per candidate wanted, likewise.
_MAX_CHECKED = 100


@dataclass(frozen=True, slots=True)
class Proposals:
    """At most as many distinct candidates as were wanted.

    Candidate i is row ``rows[i]`` of ``batches[owners[i]]``, both int64 (n,), in random order; there is a batch
    per sketch. ``n_drawn`` were looked at, repeats included, ``n_checked`` of them by the compiler. ``is_all``
    says that the space has no others.
    """

    batches: tuple[CandidateBatch, ...]
    owners: NDArray[np.int64]
    rows: NDArray[np.int64]
    n_drawn: int
    n_checked: int
    is_all: bool

    def __len__(self) -> int:
        return len(self.owners)


class Proposer:
    """Finds candidates of one space that every rule of a pipeline keeps."""

    def __init__(
        self,
        space: DesignSpace,
        pipeline: Pipeline,
        explorer: Explorer,
        check: Checker,
        rng: np.random.Generator,
        on_progress: OnProgress = lambda _found, _of: None,
    ) -> None:
        """Restrict the space. ``check`` is asked about candidates of sketches that could not be read."""
        self._space, _ = pipeline.restrict(space)
        self._pipeline, self._explorer, self._check = pipeline, explorer, check
        self._rng, self._on_progress = rng, on_progress
        self._taken = SeenRows()
        self._found: list[list[Int32Array]] = [[] for _ in space.sketches]
        self._n_drawn = self._n_found = self._n_checked = 0

    def propose(self, n: int) -> Proposals:
        """Find ``n`` candidates, fewer only if there are no more or they are too rare to be found.

        Raises PluginContractError if the explorer fails.
        """
        ask = min(max(_FIRST_ASK * n, 64), _MAX_ASK)
        max_drawn = min(_MAX_DRAWN, self._space.size)
        while self._n_found < n and self._n_drawn < max_drawn and self._may_check(n):
            batches = [batch for batch in self._proposed(ask) if len(batch)]
            for number, batch in enumerate(batches):
                missing = n - self._n_found
                self._take(batch, n, quota=-(-missing // (len(batches) - number)))
            if not batches:
                break
            ask = min(2 * ask, _MAX_ASK)
        is_all = self._n_found < n and self._space.size <= MAX_COUNTED and self._enumerate(n)
        return self._chosen(n, is_all)

    def _may_check(self, n: int) -> bool:
        return self._n_checked < _MAX_CHECKED * n

    def _proposed(self, n: int) -> Sequence[CandidateBatch]:
        try:
            propose = self._explorer.propose
            proposed = self._pipeline.ask(self._explorer, propose, self._space, n, None, self._rng)
        except PluginTimeoutError:
            raise
        except STRATEGY_FAILURES as error:
            raise PluginContractError(
                "raised an exception",
                who=f"strategy {self._explorer.name}",
                got=f"{type(error).__name__}: {error}",
                remedy="Choose another by --explorer, or report it to the plugin's author.",
            ) from error
        return contracts.check_batches(self._explorer.name, proposed, self._space)

    def _enumerate(self, n: int) -> bool:
        """Look at every candidate until there are enough. Returns whether the space has no others."""
        for batch in all_batches(self._space):
            if self._n_found >= n or not self._may_check(n):
                return False
            self._take(batch, n, quota=n - self._n_found)
        return self._may_check(n)

    def _take(self, batch: CandidateBatch, n: int, quota: int) -> None:
        """Keep what the rules keep of a batch; at most ``quota`` of it if the compiler has to be asked."""
        self._n_drawn += len(batch)
        _, keep = self._pipeline.judge(batch, Funnel())
        kept = batch.take(keep)
        is_unsure = unsure(kept)
        self._add(kept.take(~is_unsure))
        if is_unsure.any():
            self._take_checked(kept.take(is_unsure), n, min(quota, n - self._n_found))
        self._on_progress(min(self._n_found, n), n)

    def _take_checked(self, batch: CandidateBatch, n: int, quota: int) -> None:
        """Keep what the compiler accepts of a batch, as it would run, until ``quota`` are new."""
        wanted = self._n_found + quota
        for row in range(len(batch)):
            if self._n_found >= wanted or not self._may_check(n):
                break
            self._n_checked += 1
            actual = self._check(batch, row)
            if actual is not None:
                self._add(CandidateBatch(batch.space, batch.sketch, actual[None]))
            self._on_progress(min(self._n_found, n), n)

    def _add(self, batch: CandidateBatch) -> None:
        """Keep those that were not found before."""
        new = batch.take(self._taken.unseen(batch)).indices
        self._taken.add(batch.sketch.index, new)
        self._found[batch.sketch.index].append(new)
        self._n_found += len(new)

    def _chosen(self, n: int, is_all: bool) -> Proposals:
        batches = tuple(
            CandidateBatch(self._space, sketch, np.concatenate(found) if found else _no_rows(sketch))
            for sketch, found in zip(self._space.sketches, self._found, strict=True)
        )
        sizes = [len(batch) for batch in batches]
        owners = np.repeat(np.arange(len(batches), dtype=np.int64), sizes)
        rows = np.concatenate([np.arange(size, dtype=np.int64) for size in sizes] or [owners])
        order = self._rng.permutation(len(owners))[:n]
        return Proposals(batches, owners[order], rows[order], self._n_drawn, self._n_checked, is_all)


def _no_rows(sketch: Sketch) -> Int32Array:
    return np.empty((0, len(sketch.variables)), dtype=np.int32)
