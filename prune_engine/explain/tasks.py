"""What became of a candidate, or of a whole task's candidates, in plain sentences."""

from __future__ import annotations

from collections.abc import Sequence

from prune_engine.audits.rates import is_switch_off
from prune_engine.store.base import StoredCandidate
from prune_engine.task import TuningTask
from prune_engine.verdicts import Stage, Verdict


def explain_verdicts(task: TuningTask, verdicts: Sequence[Verdict]) -> list[str]:
    """One sentence per verdict, in the order of the stages; those without a candidate are counts."""
    if not verdicts:
        return [f"Nothing is recorded of task {task.name}."]
    stages = list(type(verdicts[0].stage))
    ordered = sorted(verdicts, key=lambda v: (stages.index(v.stage), v.strategy, v.reason))
    return [_sentence(verdict) for verdict in ordered]


def explain_measurement(stored: StoredCandidate) -> str:
    """How a candidate ran, or why it did not."""
    measurement = stored.measurement
    n_threads = measurement.n_threads
    where = f"on {measurement.device_name}, {n_threads} thread{'' if n_threads == 1 else 's'}"
    if measurement.error is not None:
        return f"It could not be measured {where}: {measurement.error.kind.value}, {measurement.error.message}."
    assert measurement.latency_secs is not None
    n_repeats = len(measurement.run_secs)
    text = f"It took {measurement.latency_secs * 1e3:.4g} ms {where}, the median of {n_repeats} repeats"
    if measurement.is_censored:
        text += f"; timing stopped at stage {measurement.stage} because it was clearly slower than the best"
    if measurement.is_noisy:
        text += "; other load ran meanwhile"
    return text + "."


def _sentence(verdict: Verdict) -> str:
    stage = verdict.stage.value.replace("_", " ")
    if is_switch_off(verdict):  # the rule was, not the candidate
        return f"{verdict.strategy} ({stage}) was {verdict.reason}: {verdict.candidate_id}."
    if verdict.candidate_id:
        text = f"Candidate {verdict.candidate_id} was"
    else:
        text = f"{verdict.count:,} candidate{'s were' if verdict.count != 1 else ' was'}"
    text += f" {verdict.outcome.value} by {verdict.strategy} ({stage}): "
    if verdict.count > 1 and verdict.stage is Stage.RULE and verdict.evidence:
        text += "for example, "  # the reason is that of the first of them
    text += verdict.reason
    if verdict.evidence:
        text += " (" + ", ".join(f"{name} {value:.6g}" for name, value in verdict.evidence.items()) + ")"
    return text + "."
