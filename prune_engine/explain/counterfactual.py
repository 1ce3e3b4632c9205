"""What stops a candidate that nobody looked at, and what would have had to be different for it to pass.

Found by search: over the neighbours of the candidate in the choice tables, as a batch, and over the numbers that a
rule reads in the profile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch
from prune_engine.contracts import STRATEGY_FAILURES
from prune_engine.hardware.basis import basis_of
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.hardware.what_if import with_value
from prune_engine.pipeline import Pipeline
from prune_engine.space import DesignSpace, Variable, VariableKind
from prune_engine.stages.reasons import CandidateSymbols, reason_of
from prune_engine.strategies import Rule
from prune_engine.verdicts import BoolArray, Float64Array, Stage

#: Ways to pass that are told of at most.
_MOST_WAYS = 3
#: Rows next to a candidate's own that are tried of each variable where two have to change.
_PAIR_ROWS = 12
_MAX_PAIRS = 1 << 15
#: By which factors a number of the profile is tried, up and down, before the exact one is looked for.
_FACTORS = tuple(2.0**n for n in range(1, 15))


@dataclass(frozen=True, slots=True)
class Change:
    """One variable that would have to be otherwise."""

    variable: str
    was: tuple[int, ...]
    to: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ProfileChange:
    """A number of the profile that would let the candidate pass: the one nearest to what it is."""

    field: str
    was: float
    to: float


@dataclass(frozen=True, slots=True)
class Objection:
    """A rule that drops the candidate. ``changes`` of the profile would each, alone, make the rule keep it."""

    rule: Rule
    stage: Stage
    reason: str
    evidence: dict[str, float]
    #: Variables of which rules cut the candidate's row out of the table.
    variables: tuple[str, ...]
    changes: tuple[ProfileChange, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a draft puts a candidate among others, of which ``n_listed`` get onto the draft list.

    ``cut_score`` is that of the last of them, ``factor`` by how much better the candidate would have to be; 1 or
    less is good enough. ``latency_secs`` is None where the draft gives none.
    """

    strategy: str
    rank: int
    n_ranked: int
    n_listed: int
    latency_secs: float | None
    score: float
    cut_score: float

    @property
    def factor(self) -> float:
        """Score of the last that is listed, over the candidate's."""
        return self.cut_score / self.score if self.score > 0 else math.inf


@dataclass(frozen=True, slots=True)
class WhyNot:
    """What stops a candidate: rules first, else its place by the draft; both empty if nothing does.

    ``ways`` are the smallest changes of decisions with which no rule drops it and, if the draft had to be better,
    which the draft would list: of one decision, else of two, else to the nearest of the candidates ranked.
    """

    objections: tuple[Objection, ...]
    standing: Standing | None
    ways: tuple[tuple[Change, ...], ...]


class Counterfactuals:
    """Asks the rules and the draft of a pipeline about single candidates of a space, unrestricted."""

    def __init__(self, pipeline: Pipeline, space: DesignSpace, profile: HardwareProfile) -> None:
        self._pipeline, self._profile = pipeline, profile
        self._restricted, _ = pipeline.restrict(space)

    def keeps(self, batch: CandidateBatch) -> BoolArray:
        """Which candidates of the unrestricted space no rule drops, bool (n,)."""
        keep = self._restricted.sketches[batch.sketch.index].allows(batch.indices)
        if keep.any():
            _, judged = self._pipeline.judge(self._inside(batch.take(keep)))
            keep[keep] = judged
        return keep

    def scores(self, batch: CandidateBatch) -> tuple[Float64Array, Float64Array | None]:
        """The draft's scores, float64 (n,), and latencies, if it gives them; equal scores without a draft."""
        drafted = self._pipeline.scoring.draft(self._inside(batch))
        self._pipeline.scoring.forget()
        return (np.ones(len(batch)), None) if drafted is None else (drafted.scores, drafted.latency_secs)

    def why_not(self, batch: CandidateBatch, others: Sequence[CandidateBatch], n_listed: int) -> WhyNot:
        """What stops the one candidate of ``batch``.

        ``others`` are what the draft ranks it among, of which the best ``n_listed`` would get onto its list.
        """
        objections = tuple(found for rule in self._pipeline.rules if (found := self._asked(rule, batch)))
        if objections:
            ways = self._ways(batch, None) or _nearest_way(batch, others)
            return WhyNot(objections, None, ways)
        standing = self._standing(batch, others, n_listed)
        is_listed = standing is None or standing.factor <= 1
        if is_listed or standing is None:
            return WhyNot((), standing, ())
        better = [other.take(self.scores(other)[0] >= standing.cut_score) for other in others if len(other)]
        return WhyNot((), standing, self._ways(batch, standing.cut_score) or _nearest_way(batch, better))

    def _asked(self, rule: Rule, batch: CandidateBatch) -> Objection | None:
        try:
            return self._objection(rule, batch)
        except STRATEGY_FAILURES as error:  # the plugin boundary: recorded, not swallowed
            self._pipeline.set_aside(rule, error)
            return None

    def _inside(self, batch: CandidateBatch) -> CandidateBatch:
        """The same candidates as a batch of the restricted space."""
        return CandidateBatch(self._restricted, self._restricted.sketches[batch.sketch.index], batch.indices)

    def _objection(self, rule: Rule, batch: CandidateBatch) -> Objection | None:
        cut = _cut_variables(rule, batch, self._profile)
        stage = Stage.TASK_SPACE if cut else Stage.RULE
        if not cut and _masks(rule, batch, self._profile):
            return None
        symbols = CandidateSymbols(batch, 0)
        reason, evidence = reason_of(rule, {} if cut else symbols, self._profile)
        return Objection(rule, stage, reason, evidence, cut, tuple(self._profile_changes(rule, batch)))

    def _profile_changes(self, rule: Rule, batch: CandidateBatch) -> list[ProfileChange]:
        """For each number that the rule reads: the nearest with which it keeps the candidate, if there is one."""
        found = []
        for path, value in basis_of(self._profile, rule.hardware_basis):
            if not isinstance(value, int | float) or value <= 0:
                continue

            def keeps(number: float, path: str = path) -> bool:
                other = with_value(self._profile, path, number)
                return other is not None and _keeps(rule, batch, other)

            is_whole = isinstance(value, int)
            if (number := _nearest(float(value), keeps, is_whole)) is not None:
                found.append(ProfileChange(path, float(value), number))
        return found

    def _standing(self, batch: CandidateBatch, others: Sequence[CandidateBatch], n_listed: int) -> Standing | None:
        scorer = self._pipeline.scoring.draft_scorer
        if scorer is None:
            return None
        (score,), latency = self.scores(batch)
        rest = np.concatenate([np.empty(0), *(self.scores(other)[0] for other in others if len(other))])
        ranked = -np.sort(-rest)
        return Standing(
            strategy=scorer.name,
            rank=int((rest > score).sum()) + 1,
            n_ranked=len(rest) + 1,
            n_listed=n_listed,
            latency_secs=None if latency is None else float(latency[0]),
            score=float(score),
            cut_score=float(ranked[n_listed - 1]) if len(ranked) >= n_listed else 0.0,
        )

    def _ways(self, batch: CandidateBatch, least_score: float | None) -> tuple[tuple[Change, ...], ...]:
        """The smallest changes that pass: of one variable, else of two."""
        variables = batch.sketch.variables
        here = batch.indices[0]
        near = [_by_distance(variable, int(row)) for variable, row in zip(variables, here, strict=True)]
        ones = [(np.array([v]), rows[:, None], far) for v, (rows, far) in enumerate(near) if len(rows)]
        if found := self._passing(batch, ones, least_score):
            return found
        pairs = []
        for a in range(len(variables)):
            for b in range(a + 1, len(variables)):
                (rows_a, far_a), (rows_b, far_b) = near[a], near[b]
                i, j = np.divmod(
                    np.arange(min(len(rows_a), _PAIR_ROWS) * (nb := min(len(rows_b), _PAIR_ROWS))), max(nb, 1)
                )
                pairs.append((np.array([a, b]), np.column_stack([rows_a[i], rows_b[j]]), far_a[i] + far_b[j]))
        return self._passing(batch, pairs, least_score)

    def _passing(
        self,
        batch: CandidateBatch,
        tries: Sequence[tuple[NDArray[np.int64], NDArray[np.int32], Float64Array]],
        least_score: float | None,
    ) -> tuple[tuple[Change, ...], ...]:
        """Of changed candidates those that pass, the nearest of each set of variables, nearest first."""
        if not tries:
            return ()
        indices = np.concatenate([_changed_rows(batch.indices[0], variables, rows) for variables, rows, _ in tries])
        groups = np.concatenate([np.full(len(rows), g) for g, (_, rows, _) in enumerate(tries)])
        far = np.concatenate([distance for *_, distance in tries])
        order = np.argsort(far, kind="stable")[:_MAX_PAIRS]
        changed = CandidateBatch(batch.space, batch.sketch, np.ascontiguousarray(indices[order]))
        passes = self.keeps(changed)
        if least_score is not None and passes.any():
            passes[passes] = self.scores(changed.take(passes))[0] >= least_score
        ways, seen = [], set()
        for place in np.flatnonzero(passes).tolist():
            group = int(groups[order[place]])
            if group not in seen:
                seen.add(group)
                ways.append(_changes(batch, changed.indices[place]))
            if len(ways) == _MOST_WAYS:
                break
        return tuple(ways)


def _keeps(rule: Rule, batch: CandidateBatch, profile: HardwareProfile) -> bool:
    return not _cut_variables(rule, batch, profile) and _masks(rule, batch, profile)


def _masks(rule: Rule, batch: CandidateBatch, profile: HardwareProfile) -> bool:
    """Whether the mask of a rule keeps the one candidate."""
    return type(rule).mask is Rule.mask or bool(rule.mask(batch, profile)[0])


def _cut_variables(rule: Rule, batch: CandidateBatch, profile: HardwareProfile) -> tuple[str, ...]:
    """The variables of which a rule cuts the candidate's row out of the table."""
    cut = None if type(rule).restrict is Rule.restrict else rule.restrict(batch.space, profile)
    if cut is None:
        return ()
    s, row = batch.sketch.index, batch.indices[0]
    return tuple(
        variable.name
        for v, variable in enumerate(batch.sketch.variables)
        if (s, v) in cut.keep and not cut.keep[s, v][row[v]]
    )


def _nearest(value: float, keeps: Callable[[float], bool], is_whole: bool) -> float | None:
    """The number nearest to ``value``, by factor, that ``keeps``; None if none does within the factors tried."""
    for factor in _FACTORS:
        for passing in (value * factor, value / factor):
            number = max(1.0, round(passing)) if is_whole else passing
            if keeps(number):
                return _between(value, number, keeps, is_whole)
    return None


def _between(failing: float, passing: float, keeps: Callable[[float], bool], is_whole: bool) -> float:
    """Halve the way between a number that fails and one that passes, until they are neighbours or nearly equal."""
    for _ in range(60):
        middle = round((failing + passing) / 2) if is_whole else (failing + passing) / 2
        if middle in (failing, passing) or abs(passing - failing) <= (0 if is_whole else 1e-3 * abs(passing)):
            break
        failing, passing = (failing, middle) if keeps(middle) else (middle, passing)
    return passing


def _nearest_way(batch: CandidateBatch, others: Sequence[CandidateBatch]) -> tuple[tuple[Change, ...], ...]:
    """To the nearest of other candidates of the same sketch, all of which pass."""
    same = [other.indices for other in others if other.sketch.index == batch.sketch.index and len(other)]
    if not same:
        return ()
    rows, far = np.concatenate(same), np.zeros(sum(map(len, same)))
    for v, variable in enumerate(batch.sketch.variables):
        far += _distances(variable, int(batch.indices[0, v]))[rows[:, v]]
    return (_changes(batch, rows[int(np.argmin(far))]),)


def _by_distance(variable: Variable, row: int) -> tuple[NDArray[np.int32], Float64Array]:
    """All other rows of a table, the nearest first, and how far they are: int32 (m - 1,), float64 (m - 1,)."""
    far = _distances(variable, row)
    order = np.argsort(far, kind="stable").astype(np.int32)
    order = order[order != row]
    return order, far[order]


def _distances(variable: Variable, row: int) -> Float64Array:
    """How far each row of a table is from one, float64 (m,): of numbers in doublings, of places in steps."""
    table = variable.table.astype(np.float64)
    if variable.kind is not VariableKind.LOCATION:
        table = (
            np.log2(1.0 + np.maximum(table, 0.0)) if variable.kind is VariableKind.CATEGORICAL else np.log2(table)
        )
    far: Float64Array = np.abs(table - table[row]).sum(axis=1)
    return far


def _changed_rows(
    here: NDArray[np.int32], variables: NDArray[np.int64], rows: NDArray[np.int32]
) -> NDArray[np.int32]:
    """The candidate once for each of ``rows``, with these in place of the variables' own."""
    changed = np.repeat(here[None, :], len(rows), axis=0)
    changed[:, variables] = rows
    return changed.astype(np.int32)


def _changes(batch: CandidateBatch, indices: NDArray[np.int32]) -> tuple[Change, ...]:
    was = batch.candidate(0).decisions
    to = CandidateBatch(batch.space, batch.sketch, np.ascontiguousarray(indices[None, :])).candidate(0).decisions
    return tuple(
        Change(variable.name, a, b)
        for variable, a, b in zip(batch.sketch.variables, was, to, strict=True)
        if a != b
    )
