"""The strategy: library entries of a kernel's class, re-fitted to its extents and ranked."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import ClassVar

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.library import KernelClass
from prune_engine.space import DesignSpace, VariableKind
from prune_engine.strategies import RewrittenTrace, ScheduleTransfer, Seeds, TransferContext, TransferProposal
from prune_engine.task import TuningTask
from prune_engine_transfer.ceiling import CEIL, UNREADABLE, Ceiled, ceiled
from prune_engine_transfer.donors import ANY_POLICY, Donor, donors_of
from prune_engine_transfer.matching import OTHER_TILES, Match, matches, statement_names
from prune_engine_transfer.padded_trace import padded_trace
from prune_engine_transfer.padding import PAD, padded_tilings
from prune_engine_transfer.policies import NEAREST, REPAIR, refitted
from prune_engine_transfer.ranking import COPY, Ranking, Refit, Refitted, Rewrite, ranked

#: Entries that are re-fitted for one task.
_N_DONORS = 32


class RefitTransfer(ScheduleTransfer):
    """Re-fits decisions to the task's choice tables, and traces to extents that their factors do not divide.

    The policies: ``copy`` (a schedule of this very kernel), ``repair`` (as TVM makes factors fit), ``nearest``
    (rows near the factors, and near the rescaled ones), and as rewritten traces ``ceil`` (the outermost loop is
    rounded up) and ``pad`` (operands are copied into larger buffers whose extents divide).
    """

    name: ClassVar[str] = "transfer.refit"

    def propose(
        self, task: TuningTask, space: DesignSpace, context: TransferContext, limit: int
    ) -> TransferProposal:
        """Return at most ``limit`` seeds, those of this very kernel first. What does not fit is a miss."""
        donors = donors_of(task, context, _N_DONORS)
        misses = Counter(donors.misses)
        if task.kernel_class is None:
            return TransferProposal(misses=dict(misses))
        work = _Work(task.kernel_class, space, misses)
        for donor in donors.chosen:
            work.take(donor)
        ranking = ranked(work.refits, work.rewrites, space, context.fitness, limit)
        if ranking.n_dropped:
            misses[ANY_POLICY, "a rule drops it"] += ranking.n_dropped
        seeds, rewritten = _chosen(ranking, space)
        return TransferProposal(
            seeds=seeds,
            rewritten=rewritten,
            misses=dict(misses),
            n_sources=donors.n_sources,
            goal_flop_per_sec=donors.goal_flop_per_sec,
        )


class _Work:
    """What becomes of a task's donors."""

    def __init__(self, wanted: KernelClass, space: DesignSpace, misses: Counter[tuple[str, str]]) -> None:
        self._class, self._space, self._misses = wanted, space, misses
        self.refits: list[Refit] = []
        self.rewrites: list[Rewrite] = []

    def take(self, donor: Donor) -> None:
        """Re-fit a donor by every policy."""
        if any(
            choice.kind is VariableKind.TILE and min(choice.values, default=0) < 1 for choice in donor.entry.choices
        ):
            self._misses[ANY_POLICY, "its factors are no numbers above 0"] += 1
            return
        fitting = matches(donor.entry, self._space.sketches, self._class)
        if not fitting:
            self._misses[ANY_POLICY, OTHER_TILES] += 1
            return
        for match in fitting:
            self._refit(donor, match)
        self._rewrite(donor, fitting[0])

    def _refit(self, donor: Donor, match: Match) -> None:
        is_copy = donor.is_same_kernel and not match.is_transplant
        for policy in (REPAIR, NEAREST):
            found = refitted(match, policy)
            if isinstance(found, str):
                self._misses[policy, found] += 1
            else:
                name = COPY if is_copy and policy == REPAIR else policy
                self.refits.append(Refit(donor, match.sketch.index, name, found.rows, found.distances))

    def _rewrite(self, donor: Donor, match: Match) -> None:
        if not donor.is_strict:  # its trace names statements that are not there
            return
        renamed = statement_names(donor.entry.kernel_class, self._class)
        found = ceiled(donor.entry, match.extents, renamed)
        if isinstance(found, Ceiled):
            self.rewrites.append(Rewrite(donor, CEIL, found.trace_json, found.useful_share))
        elif found is not None:
            self._misses[CEIL, found] += 1
        for tiling in padded_tilings(match):
            text = padded_trace(donor.entry, tiling.factors, match.extents, renamed)
            if text is None:
                self._misses[PAD, UNREADABLE] += 1
            else:
                self.rewrites.append(Rewrite(donor, PAD, text, tiling.useful_share))


def _chosen(ranking: Ranking, space: DesignSpace) -> tuple[tuple[Seeds, ...], tuple[RewrittenTrace, ...]]:
    """A ranking in the form of a proposal."""
    by_sketch: dict[int, list[tuple[float, Refitted]]] = defaultdict(list)
    rewritten = []
    for place, one in enumerate(ranking.order):
        preference = float(len(ranking.order) - place)
        if isinstance(one, Rewrite):
            rewritten.append(RewrittenTrace(one.trace_json, one.donor.entry.entry_id, one.policy, preference))
        else:
            by_sketch[one.refit.sketch_index].append((preference, one))
    seeds = [
        Seeds(
            CandidateBatch(space, space.sketches[index], np.stack([one.row for _, one in places])),
            tuple(one.refit.donor.entry.entry_id for _, one in places),
            tuple(one.refit.policy for _, one in places),
            np.array([preference for preference, _ in places]),
        )
        for index, places in sorted(by_sketch.items())
    ]
    return tuple(seeds), tuple(rewritten)
