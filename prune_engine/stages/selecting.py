"""What a selector chooses of is bounded here, whatever the selector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from prune_engine.strategies import Positions, SelectionPool
from prune_engine.verdicts import Selection

#: A selector's choice of a pool.
Choose = Callable[[SelectionPool], Selection]


def with_few_audits(pool: SelectionPool, max_audits: int, choose: Choose) -> Selection:
    """Choose of a pool, but at most ``max_audits`` audits: if there are more, choose again without the surplus."""
    audits = np.flatnonzero(pool.is_audit)
    if len(audits) <= max_audits:
        return choose(pool)
    if max_audits > 0:
        selection = choose(pool)
        audits = selection.indices[pool.is_audit[selection.indices]]
        if len(audits) <= max_audits:
            return selection
    may_stay = ~pool.is_audit
    may_stay[audits[: max(max_audits, 0)]] = True
    left = np.flatnonzero(may_stay)
    selection = choose(taken(pool, left))
    return replace(selection, indices=left[selection.indices])


def taken(pool: SelectionPool, positions: Positions) -> SelectionPool:
    """The candidates of a pool at ``positions``, in that order, read-only."""
    columns = {
        name: getattr(pool, name)[positions] for name in ("scores", "degradation_prob", "is_audit", "is_probe")
    }
    if pool.kinship is not None:
        columns["kinship"] = pool.kinship[positions]
    for column in columns.values():
        column.flags.writeable = False
    return replace(pool, **columns)
