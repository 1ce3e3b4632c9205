"""Whether a schedule is legal, correct and fast on this machine: what it takes to be whitelisted here."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from prune_engine import __version__
from prune_engine.candidates import Decision
from prune_engine.config import EngineConfig
from prune_engine.errors import SpaceError
from prune_engine.hardware.fit import check_fits
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.loop.harvest import compiler_version
from prune_engine.measurement import MeasureError
from prune_engine.metaschedule.measure import MeasureSettings
from prune_engine.metaschedule.numeric_check import check_schedules
from prune_engine.metaschedule.targets import resolve_target
from prune_engine.metaschedule.whitelist_kernels import task_of_entry
from prune_engine.metaschedule.workbench import TvmWorkbench
from prune_engine.numeric_safety import ChecksNumbers, FpPolicy, SafetyReport
from prune_engine.pipeline import Pipeline
from prune_engine.plugins import PluginHost
from prune_engine.space import DesignSpace, Sketch
from prune_engine.strategy_set import load_strategies
from prune_engine.symbols.table import SYMBOLS_VERSION, SymbolDef
from prune_engine.task import TuningTask
from prune_engine.whitelist.entries import Check, WhitelistEntry
from prune_engine.whitelist.placing import Placed, Schedule, placed, why_illegal

#: Slow kernels, too, are tried on every kind of input: what is whitelisted is trusted for long.
_STRESS_BUDGET_SECS = 30.0
#: What an entry may lose of its speedup over the untuned kernel before that is a regression.
MAX_SLOWDOWN = 1.1


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of a schedule. ``sketch`` is the one that holds it, None if the space has no place for it.

    ``decisions`` are those of ``sketch``.
    """

    check: Check
    sketch: Sketch | None = None
    decisions: tuple[Decision, ...] = ()


class Examiner:
    """Examines schedules on this machine. Made by ``examining``."""

    def __init__(
        self,
        workbench: TvmWorkbench,
        pipeline: Pipeline,
        symbols: dict[str, SymbolDef],
        target: str,
        policy: FpPolicy,
    ) -> None:
        self._workbench, self._pipeline, self._symbols = workbench, pipeline, symbols
        self.target, self._policy = target, policy

    @property
    def device_name(self) -> str:
        """What the findings hold for."""
        return self._workbench.device_name()

    @property
    def n_threads(self) -> int:
        """Threads that kernels are timed on."""
        return self._workbench.n_threads()

    def examine(self, entry: WhitelistEntry, *, max_slowdown: float = MAX_SLOWDOWN) -> Finding:
        """Examine an entry. Its speedup is held against that of the last passed check on this device, if any.

        Nothing that is wrong with the entry is raised: it is in the check's ``problems``.
        """
        before = [c for c in entry.checks if c.is_passed and self._is_here(c) and c.speedup is not None]
        floor = (before[-1].speedup or 1.0) / max_slowdown if before else 1.0
        try:
            task = task_of_entry(entry, self.target)
        except SpaceError as error:
            return Finding(self._check(problem=error.problem))
        return self.examine_schedule(task, Schedule.of(entry), floor)

    def examine_schedule(self, task: TuningTask, schedule: Schedule, floor: float = 1.0) -> Finding:
        """Examine a schedule of a task, which has to be ``floor`` times as fast as the untuned kernel, or more."""
        try:
            space = replace(self._workbench.design_space(task), symbols=self._symbols)
            place = placed(space, schedule, self._workbench, len(space.sketches))
        except SpaceError as error:
            return Finding(self._check(problem=error.problem))
        if why := why_illegal(self._pipeline, space, place):
            return Finding(self._check(problem=f"not legal here: {why}"))
        if place.new_sketch is not None:
            space = replace(space, sketches=(*space.sketches, place.new_sketch))
        sketch = space.sketches[place.candidate.sketch_index]
        return Finding(self._judged(task, space, place, floor), sketch, place.candidate.decisions)

    def _judged(self, task: TuningTask, space: DesignSpace, place: Placed, floor: float) -> Check:
        """What compiling, comparing numbers and timing say of a legal schedule."""
        trace = self._workbench.schedule_text(space, place.candidate)
        if trace is None:
            refusal = self._workbench.refusal(space, place.candidate)
            return self._check(problem=f"the compiler refuses it: {refusal}")
        report = self._numbers(task, trace)
        if not report.is_safe:
            return self._check(report, problem=f"numbers: {report.problem}")
        comparison = self._workbench.compare(space, [None, place.candidate])
        default_secs, run_secs = comparison.run_secs
        failures = [_words(error) for error in comparison.errors if error is not None]
        check = self._check(report, run_secs=run_secs, default_secs=default_secs)
        if failures:
            return replace(check, problems=(f"cannot be timed: {'; '.join(failures)}",))
        speedup = check.speedup
        assert speedup is not None, "both were timed"
        if speedup < floor:
            problem = f"{speedup:.3g} times as fast as the untuned kernel, not {floor:.3g} times or more"
            return replace(check, problems=(problem,))
        return check

    def _numbers(self, task: TuningTask, trace: str) -> SafetyReport:
        bench: object = self._workbench
        if isinstance(bench, ChecksNumbers):
            return bench.check_numbers(task, [trace], self._policy)[0]
        return check_schedules(task, [trace], target=self.target, n_threads=self.n_threads, policy=self._policy)[0]

    def _check(
        self,
        report: SafetyReport | None = None,
        *,
        problem: str = "",
        run_secs: tuple[float, ...] = (),
        default_secs: tuple[float, ...] = (),
    ) -> Check:
        return Check(
            device_name=self.device_name,
            n_threads=self.n_threads,
            tvm_version=compiler_version(),
            prune_engine_version=__version__,
            symbols_version=SYMBOLS_VERSION,
            checked_at=time.time(),
            numeric=report.cases if report else (),
            run_secs=run_secs,
            default_secs=default_secs,
            problems=(problem,) if problem else (),
        )

    def _is_here(self, check: Check) -> bool:
        return (check.device_name, check.n_threads) == (self.device_name, self.n_threads)


@contextmanager
def examining(
    n_threads: int, *, target: str = "native", profile: str = "auto", policy: FpPolicy | None = None
) -> Iterator[Examiner]:
    """An examiner with its measurement processes, for this machine's processor and as many threads.

    Raises TargetError, ProfileError and ConfigError for what is not to be had, MeasureServerError later.
    """
    config = EngineConfig.of(draft_scorer=None, verifier=None)
    host = PluginHost(config)
    host.load()
    strategies = load_strategies(host, config)
    resolved = resolve_target(target, n_threads)
    registered = [(name, one) for name, one in host.collect("register_hardware_profiles")]
    profiles = [(name, one) for name, one in registered if isinstance(one, HardwareProfile)]
    chosen = ProfileRegistry(profiles).choose(profile, n_threads=n_threads).profile
    check_fits(chosen, resolved, remedy="Leave out --profile.", may_be_npu=False)
    pipeline = Pipeline(
        rules=strategies.rules,
        draft_scorer=None,
        verifier=None,
        selector=strategies.selector,
        profile=chosen,
        config=config,
        on_failure=lambda strategy, error: host.fail(
            strategies.owners.get(strategy.name, strategy.name), str(error)
        ),
    )
    settings = MeasureSettings(target=resolved, n_threads=n_threads, stress_budget_secs=_STRESS_BUDGET_SECS)
    with TvmWorkbench(settings, chosen.digest()) as workbench:
        yield Examiner(workbench, pipeline, dict(strategies.symbols), resolved, policy or FpPolicy())


def _words(error: MeasureError) -> str:
    return f"{error.kind.value}: {error.message}"
