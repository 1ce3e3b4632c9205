"""The checks of one kept winner: does it still apply, would rules drop it, does it compute the same, as fast?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from prune_engine.audits.known_good import RuleDrop, dropping_rules
from prune_engine.candidates import CandidateBatch
from prune_engine.errors import SpaceError
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.metaschedule.artifact_metadata import ArtifactMetadata
from prune_engine.metaschedule.materialise import SCHEDULE_ERRORS, Materialiser, last_line, module_to_json
from prune_engine.metaschedule.measure import BuildJob, JobResult, MeasurePool, MeasureSettings
from prune_engine.metaschedule.numeric_check import check_in_pool, scheduled_json
from prune_engine.metaschedule.record_rows import RecordRow
from prune_engine.metaschedule.recorded import SketchMatcher
from prune_engine.numeric_safety import FpPolicy, SafetyReport
from prune_engine.provenance.verification import Check, CheckStatus, Times, judge_times, paired_times, slowdown_of
from prune_engine.space import DesignSpace
from prune_engine.strategies import Rule
from prune_engine.symbols.table import SymbolDef
from prune_engine.task import TuningTask
from prune_engine.verdicts import RuleKind

#: A kernel that looks slower is timed again so often before it counts as slower.
_N_ATTEMPTS = 3
_DEFAULT, _WINNER = "default", "winner"
#: What the numeric check calls its only case where the untuned kernel itself cannot be tried.
_UNTUNED = "untuned kernel"

Found = tuple[tuple[Check, ...], Times | None, float | None]


class KernelChecker:
    """Checks winners one by one. A context manager: it holds the measuring processes, if any."""

    def __init__(
        self,
        metadata: ArtifactMetadata,
        rules: Sequence[Rule],
        symbols: Mapping[str, SymbolDef],
        profile: HardwareProfile,
        old_profile: HardwareProfile | None,
        unchanged: frozenset[str],
        *,
        max_slowdown: float,
        measure: bool,
    ) -> None:
        """Start the measuring processes in the background if there is something to measure."""
        self._rules, self._symbols = rules, symbols
        self._profile, self._old_profile, self._unchanged = profile, old_profile, unchanged
        self._max_slowdown = max_slowdown
        settings = MeasureSettings(target=metadata.target, n_threads=metadata.n_threads)
        self._pool = MeasurePool(settings) if measure else None

    def __enter__(self) -> KernelChecker:
        if self._pool is not None:
            self._pool.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._pool is not None:
            self._pool.close()

    def check(self, task: TuningTask, trace_json: str, old: Times) -> Found:
        """All checks of a winner, its times now, and what it lost. Raises MeasureServerError."""
        try:
            module_json = scheduled_json(task, trace_json)
        except SCHEDULE_ERRORS as error:
            message = f"the compiler does not take the schedule any more: {last_line(str(error))}"
            return (Check("legal", CheckStatus.FAILED, message),), None, None
        checks = list(self._rule_checks(task, trace_json))
        if self._pool is None:
            skipped = "nothing was built or run"
            checks += [Check(name, CheckStatus.SKIPPED, skipped) for name in ("correct", "time")]
            return tuple(checks), None, None
        measured, new, slowdown = self._measured(self._pool, task, trace_json, module_json, old)
        return (*checks, *measured), new, slowdown

    def _rule_checks(self, task: TuningTask, trace_json: str) -> tuple[Check, Check]:
        try:
            batch = self._batch(task, trace_json)
        except (SpaceError, *SCHEDULE_ERRORS) as error:
            why = f"no rule can judge it: {last_line(str(error))}"
            taken = Check("legal", CheckStatus.PASSED, "the compiler takes the schedule")
            return taken, Check("rules", CheckStatus.WARNING, why)
        drops = dropping_rules(self._rules, batch, self._profile)
        before: tuple[RuleDrop, ...] = ()
        if self._old_profile is not None and drops:
            same = [rule for rule in self._rules if rule.name in self._unchanged]
            before = dropping_rules(same, batch, self._old_profile)
        dropped_before = {drop.rule for drop in before if not drop.is_failure}
        return _legality(drops), _heuristics(drops, dropped_before)

    def _batch(self, task: TuningTask, trace_json: str) -> CandidateBatch:
        """The winner as a candidate of the task's space; as one that cannot be read where no sketch holds it."""
        materialiser = Materialiser(task, 0)
        made = materialiser.design_space()
        space = DesignSpace(made.task, made.sketches, self._symbols)
        instructions, decisions = json.loads(trace_json)
        found = SketchMatcher(space).match(RecordRow(0, 0, instructions, decisions, None, task.target))
        if isinstance(found, tuple):
            sketch, rows = space.sketches[found[0]], np.array([found[1]], dtype=np.int32)
            return CandidateBatch(space, sketch, rows.reshape(1, len(sketch.variables)))
        fixed = materialiser.fixed_sketch(space, trace_json)
        space = replace(space, sketches=(*space.sketches, fixed))
        only = np.array([[int(variable.rows[0]) for variable in fixed.variables]], dtype=np.int32)
        return CandidateBatch(space, fixed, only.reshape(1, len(fixed.variables)))

    def _measured(
        self, pool: MeasurePool, task: TuningTask, trace_json: str, module_json: str, old: Times
    ) -> Found:
        default = BuildJob(_DEFAULT, module_to_json(task.mod))
        opened = pool.open_task(task.task_id, default, task.arg_shapes, task.arg_dtypes)
        if opened.error is not None:
            message = f"the untuned kernel fails here: {opened.error.kind.value}: {opened.error.message}"
            return (Check("correct", CheckStatus.FAILED, message),), None, None
        new: Times | None = None
        for _ in range(_N_ATTEMPTS):
            results = pool.compare(task.task_id, [default, BuildJob(_WINNER, module_json)])
            failed = next((result for result in reversed(results) if result.error is not None), None)
            if failed is not None:
                return (_failure(failed),), None, None
            times = paired_times(results[1].run_secs, results[0].run_secs)
            # Other load only ever makes a kernel look slower, so the attempt that it lost least in is the truest.
            new = min((new, times), key=lambda t: slowdown_of(old, t) or 0.0) if new else times
            slowdown = slowdown_of(old, new)
            if slowdown is None or slowdown <= self._max_slowdown:
                break
        assert new is not None
        (report,) = check_in_pool(pool, task, [trace_json], FpPolicy())
        return (_numbers(report), judge_times(old, new, self._max_slowdown)), new, slowdown_of(old, new)


def _legality(drops: Sequence[RuleDrop]) -> Check:
    broken = [drop for drop in drops if drop.kind is RuleKind.LEGALITY and not drop.is_failure]
    if broken:
        return Check("legal", CheckStatus.FAILED, "; ".join(f"{drop.rule}: {drop.reason}" for drop in broken))
    return Check(
        "legal", CheckStatus.PASSED, "the compiler takes the schedule, and no rule of kind legality objects"
    )


def _heuristics(drops: Sequence[RuleDrop], before: set[str]) -> Check:
    """What guesses make of a known winner. One that did so before is no news: the winner was found despite it."""
    failures = [drop for drop in drops if drop.is_failure]
    guesses = [drop for drop in drops if drop.kind is RuleKind.HEURISTIC and not drop.is_failure]
    news = [drop for drop in guesses if drop.rule not in before]
    told = [f"{drop.rule} would drop this winner now: {drop.reason}" for drop in news]
    told += [f"{drop.rule} failed: {drop.reason}" for drop in failures]
    if told:
        return Check("rules", CheckStatus.WARNING, "; ".join(told))
    if guesses:
        names = ", ".join(drop.rule for drop in guesses)
        return Check("rules", CheckStatus.PASSED, f"no new objection; {names} would drop it, as before")
    return Check("rules", CheckStatus.PASSED, "no rule would drop it")


def _numbers(report: SafetyReport) -> Check:
    """What the stress inputs said of a winner that was right on random ones."""
    names = [case.name for case in report.cases]
    if report.is_safe:
        return Check("correct", CheckStatus.PASSED, f"as the untuned kernel on inputs: {', '.join(names)}")
    # Without anything to compare with, the winner is not to blame.
    is_undecided = names == [_UNTUNED]
    return Check("correct", CheckStatus.WARNING if is_undecided else CheckStatus.FAILED, report.problem)


def _failure(result: JobResult) -> Check:
    assert result.error is not None
    who = "the winner" if result.job_id == _WINNER else "the untuned kernel"
    return Check("correct", CheckStatus.FAILED, f"{who}: {result.error.kind.value}: {result.error.message}")
