"""The strategy: library entries of a kernel's class, re-fitted to its extents and ranked."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import ClassVar

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.space import DesignSpace
from prune_engine.strategies import ScheduleTransfer, Seeds, TransferContext, TransferProposal
from prune_engine.task import TuningTask
from prune_engine_transfer.donors import ANY_POLICY, Donor, Donors, donors_of
from prune_engine_transfer.matching import OTHER_TILES, Match, matches
from prune_engine_transfer.policies import NEAREST, REPAIR, refitted
from prune_engine_transfer.ranking import Ranked, Refit, ranked

#: The schedule of this very kernel, as it is.
COPY = "copy"
#: Entries that are re-fitted for one task.
_N_DONORS = 32


class RefitTransfer(ScheduleTransfer):
    """Re-fits decisions to the task's choice tables: as TVM repairs them, and by the nearest rows."""

    name: ClassVar[str] = "transfer.refit"

    def propose(
        self, task: TuningTask, space: DesignSpace, context: TransferContext, limit: int
    ) -> TransferProposal:
        """Return at most ``limit`` seeds, those of this very kernel first. What does not fit is a miss."""
        donors = donors_of(task, context, _N_DONORS)
        misses = Counter(donors.misses)
        refits = [refit for donor in donors.chosen for refit in _refits(donor, task, space, misses)]
        ranking, n_dropped = ranked(refits, space, context.fitness)
        if n_dropped:
            misses[ANY_POLICY, "a rule drops it"] += n_dropped
        return _proposal(donors, misses, refits, ranking, space, limit)


def _refits(donor: Donor, task: TuningTask, space: DesignSpace, misses: Counter[tuple[str, str]]) -> list[Refit]:
    assert task.kernel_class is not None, "there are no donors without a class"
    fitting = matches(donor.entry, space.sketches, task.kernel_class)
    if not fitting:
        misses[ANY_POLICY, OTHER_TILES] += 1
    found: list[Refit] = []
    for match in fitting:
        for policy in (REPAIR, NEAREST):
            result = refitted(match, policy)
            if isinstance(result, str):
                misses[policy, result] += 1
            else:
                name = COPY if _is_copy(donor, match, policy) else policy
                found.append(Refit(donor, match.sketch.index, name, result.rows))
    return found


def _is_copy(donor: Donor, match: Match, policy: str) -> bool:
    return donor.is_same_kernel and not match.is_transplant and policy == REPAIR


def _proposal(
    donors: Donors,
    misses: Counter[tuple[str, str]],
    refits: list[Refit],
    ranking: Ranked,
    space: DesignSpace,
    limit: int,
) -> TransferProposal:
    by_sketch: dict[int, list[int]] = defaultdict(list)
    for place in range(min(limit, len(ranking))):
        by_sketch[int(ranking.sketches[place])].append(place)
    seeds = []
    for index, places in sorted(by_sketch.items()):
        batch = CandidateBatch(space, space.sketches[index], np.stack([ranking.rows[p] for p in places]))
        origins = [refits[int(ranking.origins[p])] for p in places]
        seeds.append(
            Seeds(
                batch,
                tuple(origin.donor.entry.entry_id for origin in origins),
                tuple(origin.policy for origin in origins),
                np.array([float(len(ranking) - p) for p in places]),
            )
        )
    return TransferProposal(
        seeds=tuple(seeds),
        misses=dict(misses),
        n_sources=donors.n_sources,
        goal_flop_per_sec=donors.goal_flop_per_sec,
    )
