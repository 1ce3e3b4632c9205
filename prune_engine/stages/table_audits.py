"""Audits of rows that guesses cut out of choice tables: nothing proposes them, so they are made of proposals."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.space import DesignSpace, Int32Array

#: Rows cut, int32 (r,), by (sketch index, variable index).
Cut = Mapping[tuple[int, int], Int32Array]


def cut_between(before: DesignSpace, after: DesignSpace) -> Cut:
    """The rows that ``before`` has and ``after`` has not."""
    cut = {}
    for sketch, smaller in zip(before.sketches, after.sketches, strict=True):
        for number, (wide, narrow) in enumerate(zip(sketch.variables, smaller.variables, strict=True)):
            if narrow.size < wide.size:
                cut[sketch.index, number] = np.setdiff1d(wide.rows, narrow.rows).astype(np.int32)
    return cut


class TableAudits:
    """What each rule cut, by task and rule."""

    def __init__(self) -> None:
        self._spaces: dict[str, dict[str, tuple[DesignSpace, DesignSpace]]] = {}
        self._cuts: dict[str, dict[str, Cut]] = {}

    def note(self, task_id: str, rule: str, before: DesignSpace, after: DesignSpace) -> None:
        """Take in what a rule made of a task's space, in place of what it did before.

        The rows are looked up when the first audit is drawn: restricting a space takes less than that.
        """
        self._spaces.setdefault(task_id, {})[rule] = before, after
        self._cuts.get(task_id, {}).pop(rule, None)

    def rules(self, task_id: str) -> frozenset[str]:
        """The rules that cut something of a task's tables."""
        return frozenset(self._spaces.get(task_id, {}))

    def _cuts_of(self, task_id: str) -> Mapping[str, Cut]:
        """What each rule cut of a task's tables."""
        cuts = self._cuts.setdefault(task_id, {})
        for rule, (before, after) in self._spaces.get(task_id, {}).items():
            if rule not in cuts:
                cuts[rule] = cut_between(before, after)
        return cuts

    def draw(
        self,
        proposals: Sequence[CandidateBatch],
        n: int,
        rng: np.random.Generator,
        rules: Collection[str],
    ) -> list[tuple[str, CandidateBatch]]:
        """At most ``n`` candidates, by the rule that cut them: proposals with one row replaced by one that was cut.

        Beside a proposal that may be good, such a candidate shows what the rule alone is worth.
        """
        if not proposals or not n:
            return []
        cuts = self._cuts_of(proposals[0].space.task.task_id)
        places = [
            (rule, batch, variable, rows)
            for rule, cut in cuts.items()
            if rule in rules
            for batch in proposals
            for (sketch, variable), rows in cut.items()
            if sketch == batch.sketch.index and len(batch)
        ]
        if not places:
            return []
        drawn: dict[tuple[str, int], tuple[CandidateBatch, list[Int32Array]]] = {}
        for number in rng.integers(len(places), size=n):
            rule, batch, variable, rows = places[number]
            changed = batch.indices[rng.integers(len(batch))].copy()
            changed[variable] = rng.choice(rows)
            drawn.setdefault((rule, batch.sketch.index), (batch, []))[1].append(changed)
        return [
            (rule, CandidateBatch(batch.space, batch.sketch, np.unique(np.stack(found), axis=0)))
            for (rule, _), (batch, found) in drawn.items()
        ]
