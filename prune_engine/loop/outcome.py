"""What a run achieved, put together from its tasks' states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from prune_engine.errors import NothingMeasuredError
from prune_engine.lifecycle import RunResult, TaskResult
from prune_engine.loop.task_state import TaskState
from prune_engine.measurement import MeasuredCandidate
from prune_engine.pipeline import PruneResult
from prune_engine.verdicts import Outcome, Stage, Verdict

#: Failure messages quoted when nothing could be measured.
_N_EXAMPLES = 3


def run_result(states: Sequence[TaskState], reason: str, run_id: str, elapsed_secs: float) -> RunResult:
    """Sum up a run that ended for ``reason``.

    Raises NothingMeasuredError if not one schedule of any task could be measured and nobody interrupted.
    """
    census = _census(states)
    measured_any = any(s.default_secs is not None or s.ranking for s in states)
    if states and not measured_any and reason != "interrupted":
        listed = ", ".join(f"{kind}: {n}" for kind, n in census.most_common()) or "no attempt was finished"
        examples = [example for s in states for example in s.failure_examples.values()][:_N_EXAMPLES]
        raise NothingMeasuredError(
            f"not one schedule of {len(states)} tasks could be measured ({listed})",
            who="tuning",
            got="; ".join(examples) or None,
            remedy="Everything tried is in the store; raise the budget, or the limits of time and memory.",
        )
    return RunResult(
        run_id=run_id,
        tasks=tuple(map(_task_result, states)),
        stop_reason=reason,
        n_new=sum(s.n_new for s in states),
        elapsed_secs=elapsed_secs,
        census=dict(census),
    )


def round_verdicts(result: PruneResult, measured: Sequence[MeasuredCandidate], why_not: str) -> list[Verdict]:
    """The pipeline's verdicts, and those of the workbench: on what failed, and why the others did not run."""
    verdicts = list(result.verdicts)
    for one in measured:
        error = one.measurement.error
        if error is not None:
            reason = f"{error.kind.value}: {error.message}"
            verdicts.append(
                Verdict(Stage.MEASURE, "workbench", Outcome.FAILED, reason, 1, one.measurement.candidate_id)
            )
    ran = {one.measurement.candidate_id for one in measured}
    if n_others := sum(c.candidate_id not in ran for c in result.candidates):
        verdicts.append(Verdict(Stage.MEASURE, "workbench", Outcome.SKIPPED, why_not, n_others))
    return verdicts


def _task_result(state: TaskState) -> TaskResult:
    ships = state.winner or state.unmeasured
    kernel_class = state.task.kernel_class
    label = kernel_class.label if kernel_class else state.task.name
    return TaskResult(
        state.summary(),
        ships.trace_json if ships else None,
        dict(state.failure_examples),
        state.audits.reports(state.best_secs),
        state.transfer.report(
            label, state.task.flop_count, state.n_trials, ships.candidate.candidate_id if ships else None
        ),
        tuple(one.trace_json for one in state.contenders if one.trace_json is not None),
        state.unsafe,
    )


def _census(states: Sequence[TaskState]) -> Counter[str]:
    """Failures of all tasks by reason, the defaults' apart."""
    census: Counter[str] = Counter()
    for state in states:
        census.update(state.failures)
        if state.default is not None and state.default.error is not None:
            census[f"default {state.default.error.kind.value}"] += 1
    return census
