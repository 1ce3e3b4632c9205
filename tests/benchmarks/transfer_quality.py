"""What the records of the evaluation say: percentages of the maximum, seconds to match, shares of invalid seeds."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from transfer_records import FULL, UNTUNED, Moved, Timed, Tuned, at

from prune_engine.transfers import source_choice

#: Below such a speedup full tuning gains no more than timing varies: nothing that a percentage could be of.
_MIN_FULL_SPEEDUP = 1.1


@dataclass(frozen=True)
class Match:
    """When full tuning was as good: seconds since it began, or, if ``is_floor``, how long it went without it."""

    secs: float
    is_floor: bool


@dataclass(frozen=True)
class Row:
    """A subject: what full tuning and so many measurements per kernel gain over untuned kernels.

    ``speedups`` are untuned over tuned seconds of all kernels together, by contender, and ``percent`` is
    100 (S - 1) / (S_full - 1). ``secs`` and ``match`` are by number of measurements: what transfer took, and full
    tuning to be as good; ``n_measured`` is the mean over the kernels that can be tuned of what was really measured,
    ``n_full_trials`` what full tuning measured of all of them.
    """

    subject: str
    n_kernels: int
    n_tunable: int
    n_with_sources: int
    speedups: Mapping[str, float]
    percent: Mapping[str, float | None]
    secs: Mapping[int, float]
    match: Mapping[int, Match]
    n_measured: Mapping[int, float]
    n_full_trials: int


def row(tuned: Tuned, moved: Moved, timed: Timed) -> Row:
    """Sum up one subject with one library."""
    limits = moved.limits
    seen = {who for secs in timed.latency_secs.values() for who in secs}
    whos = sorted({FULL, *map(at, limits), *seen} - {UNTUNED})
    untuned = kernel_secs(tuned, timed, UNTUNED)
    secs = {who: kernel_secs(tuned, timed, who) for who in whos}
    speedups = {who: untuned / secs[who] for who in whos}
    tunable = {task.task_id for task in tuned.tasks if task.is_tunable}
    return Row(
        subject=tuned.subject,
        n_kernels=len(tuned.tasks),
        n_tunable=len(tunable),
        n_with_sources=sum(
            task.task_id in tunable and any(sum(result.n_sources.values()) for result in task.results.values())
            for task in moved.tasks
        ),
        speedups=speedups,
        percent={who: percent_of_maximum(speedups[who], speedups[FULL]) for who in whos},
        secs=dict(moved.secs),
        match={limit: time_to_match(tuned, timed, secs[at(limit)]) for limit in limits},
        n_measured={limit: _measured(moved, limit, tunable) for limit in limits},
        n_full_trials=sum(len(task.trials) for task in tuned.tasks),
    )


def _measured(moved: Moved, limit: int, tunable: Set[str]) -> float:
    counts = [task.results[limit].n_measured for task in moved.tasks if task.task_id in tunable]
    return statistics.mean(counts) if counts else 0.0


def percent_of_maximum(speedup: float, full_speedup: float) -> float | None:
    """Share of what full tuning gains (Gibson and Cano, PACT 2022), None where it gains nothing."""
    return 100 * (speedup - 1) / (full_speedup - 1) if full_speedup >= _MIN_FULL_SPEEDUP else None


def kernel_secs(tuned: Tuned, timed: Timed, who: str) -> float:
    """Seconds of all kernels of one inference; where a contender has no schedule that runs the untuned one does."""
    total = 0.0
    for task in tuned.tasks:
        secs = timed.latency_secs.get(task.task_id, {})
        chosen = secs.get(who, secs.get(UNTUNED, task.default_secs))
        total += task.weight * (chosen or 0.0)  # a kernel that never ran counts nowhere
    return total


def time_to_match(tuned: Tuned, timed: Timed, goal_secs: float) -> Match:
    """The first moment at which full tuning's best kernels took at most ``goal_secs`` together.

    Its own measurements, of other hours, are scaled task by task to what its best takes in the timing in turns.
    """
    best: dict[str, float] = {}
    scales: dict[str, float] = {}
    events: list[tuple[float, str, float]] = []
    weights = {task.task_id: task.weight for task in tuned.tasks}
    for task in tuned.tasks:
        known = [t for t in task.trials if t.latency_secs is not None and not t.is_censored]
        secs = timed.latency_secs.get(task.task_id, {})
        best[task.task_id] = secs.get(UNTUNED, task.default_secs or 0.0)
        fastest = min((t.latency_secs for t in known if t.latency_secs is not None), default=None)
        if fastest is None or task.trace is None or FULL not in secs:
            continue
        scales[task.task_id] = secs[FULL] / fastest
        events += [(t.secs, task.task_id, t.latency_secs) for t in known if t.latency_secs is not None]
    total = sum(weights[i] * secs for i, secs in best.items())
    if total <= goal_secs:
        return Match(0.0, is_floor=False)
    for when, task_id, latency in sorted(events):
        now = latency * scales[task_id]
        if now < best[task_id]:
            total -= weights[task_id] * (best[task_id] - now)
            best[task_id] = now
            if total <= goal_secs * (1 + 1e-9):
                return Match(when, is_floor=False)
    last = max((t.secs for task in tuned.tasks for t in task.trials), default=0.0)
    return Match(last, is_floor=True)


@dataclass
class PolicyRow:
    """How one policy fared: re-fits that were none by reason, seeds by what became of them, and kernels won."""

    policy: str
    misses: Counter[str] = field(default_factory=Counter)
    n_seeds: int = 0
    n_refused: int = 0
    n_failed: int = 0
    n_ran: int = 0
    n_wins: int = 0

    @property
    def invalid_percent(self) -> float | None:
        """Seeds that the compiler or a rule refused or that failed, of those that had their turn."""
        n_invalid = self.n_refused + self.n_failed
        n_tried = n_invalid + self.n_ran
        return 100 * n_invalid / n_tried if n_tried else None


def policy_rows(moves: Iterable[Moved], limit: int) -> list[PolicyRow]:
    """The policies over some subjects, by the seeds of ``limit`` measurements."""
    rows: dict[str, PolicyRow] = {}
    for result in (task.results[limit] for moved in moves for task in moved.tasks if limit in task.results):
        for one in result.policies:
            found = rows.setdefault(one.policy, PolicyRow(one.policy))
            found.misses.update(one.misses)
            found.n_seeds += one.n_seeds
            found.n_refused += one.n_refused
            found.n_failed += one.n_failed
            found.n_ran += one.n_ran
            found.n_wins += one.policy == result.policy
    return sorted(rows.values(), key=lambda one: (-one.n_seeds, one.policy))


def own_speedup(tuned: Tuned, moved: Moved, limit: int) -> float:
    """Speedup by the measurements of the transfer itself: enough to compare sources."""
    weights = {task.task_id: task.weight for task in tuned.tasks}
    untuned = fast = 0.0
    for task in moved.tasks:
        result = task.results[limit]
        if result.default_secs is not None:
            untuned += weights[task.task_id] * result.default_secs
            fast += weights[task.task_id] * (result.best_secs or result.default_secs)
    return untuned / fast


def shares(tuned: Tuned, key: str) -> dict[str, float]:
    """Share of the untuned time that each class has, by ``strict`` or ``anchor``; only what can be tuned."""
    secs: dict[str, float] = defaultdict(float)
    total = 0.0
    for task in tuned.tasks:
        spent = task.weight * (task.default_secs or 0.0)
        total += spent
        name = getattr(task, key)
        if name is not None and task.is_tunable:
            secs[name] += spent
    return {name: spent / total for name, spent in secs.items()} if total else {}


def counts(tuned: Tuned, key: str) -> Counter[str]:
    """Tuned kernels that a source has of each class."""
    return Counter(name for task in tuned.tasks if task.trace and (name := getattr(task, key)) is not None)


#: What a source is scored by, from P (the class's share of the target's untuned time) and W (the source's kernels
#: of that class), summed over classes: those that the engine offers, and others.
FORMS: Mapping[str, Callable[[float, int], float]] = {
    **source_choice.FORMS,
    "P^2 W": lambda p, w: p * p * w,
    "P^2 log(1+W)": lambda p, w: p * p * math.log1p(w),
    "P^2 where W > 0": lambda p, w: p * p * (w > 0),
}


#: What sources are compared by: their classes, and what a class counts of which a source has the main statement
#: alone; None where classes are those of main statements.
CLASSES: Mapping[str, float | None] = {
    "strict": 0.0,
    "strict, anchors a quarter": 0.25,
    "strict, anchors half": 0.5,
    "strict, anchors as much": 1.0,
    "anchor": None,
}


def ranked_sources(target: Tuned, sources: Sequence[Tuned], form: str, classes: str) -> list[str]:
    """The sources by a form's score, best first; those that score the same in their own order."""
    anchor_weight = CLASSES[classes]
    key = "anchor" if anchor_weight is None else "strict"
    share = shares(target, key)
    anchors = {task.strict: task.anchor for task in target.tasks if task.strict is not None}
    scores: dict[str, float] = {}
    for source in sources:
        of_class, of_anchor = counts(source, key), counts(source, "anchor")
        score = 0.0
        for name, p in share.items():
            score += FORMS[form](p, of_class[name])
            if anchor_weight and not of_class[name] and (anchor := anchors[name]) is not None:
                score += anchor_weight * FORMS[form](p, of_anchor[anchor])
        scores[source.subject] = score
    return sorted(scores, key=lambda name: -scores[name])


def mean(values: Iterable[float | None]) -> float | None:
    """Of those that are known."""
    known = [value for value in values if value is not None]
    return statistics.mean(known) if known else None


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """Of those that are known."""
    known = [value for value in values if value is not None and value > 0]
    return math.exp(statistics.mean(map(math.log, known))) if known else None
