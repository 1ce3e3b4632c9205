"""The decisions on each candidate, in the stages' order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from prune_engine.decisions.records import Choices, Decision
from prune_engine.explain.tasks import explain_verdicts
from prune_engine.report.records import ChainStep, CloseCall
from prune_engine.task import TuningTask
from prune_engine.verdicts import Stage, Verdict

_ORDER = {stage: place for place, stage in enumerate(Stage)}


def chains_of(verdicts: Iterable[Verdict]) -> dict[str, tuple[ChainStep, ...]]:
    """The verdicts on single candidates, by candidate."""
    found: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.candidate_id is not None:
            found.setdefault(verdict.candidate_id, []).append(verdict)
    return {
        identity: tuple(_step(v) for v in sorted(trail, key=lambda v: _ORDER[v.stage]))
        for identity, trail in found.items()
    }


def with_decision(chain: Sequence[ChainStep], decision: Decision) -> tuple[ChainStep, ...]:
    """A chain with what its decision record adds: the schedule, the draft's basis and the expected latency."""
    steps = []
    if decision.decisions:
        steps.append(
            ChainStep("proposed", f"round {decision.round}", "built", "", {}, schedule_text(decision.decisions))
        )
    basis = ", ".join(f"{item.field} = {item.value}" for item in decision.hardware_basis)
    for step in chain:
        steps.append(replace(step, basis=basis) if step.stage == Stage.DRAFT.value else step)
    if not chain:  # the store has no verdict on it
        reason = decision.reason
        steps.append(
            ChainStep(
                decision.stage.value,
                decision.strategy,
                decision.outcome.value,
                reason,
                dict(decision.evidence),
                basis,
            )
        )
    if decision.predicted_secs is not None:
        evidence = {"expected_secs": decision.predicted_secs}
        if decision.expected_gain is not None:
            evidence["expected_gain"] = decision.expected_gain
        by = decision.predicted_by or "nobody"
        forecast = ChainStep("forecast", by, "kept", "its latency, and the best so far over it", evidence)
        before = (i for i, step in enumerate(steps) if step.stage == Stage.MEASURE.value)
        steps.insert(next(before, len(steps)), forecast)
    return tuple(steps)


def close_call(decision: Decision) -> CloseCall:
    """A candidate that was not measured; the decision has a candidate and an expected latency."""
    return CloseCall(
        decision.candidate or "",
        decision.predicted_secs or 0.0,
        decision.predicted_by or "",
        f"{decision.strategy} ({decision.stage.value})",
        decision.reason,
        schedule_text(decision.decisions or {}),
    )


def schedule_text(choices: Choices) -> str:
    """A schedule's variables and their values."""
    return ", ".join(
        f"{name} = {'×'.join(map(str, value)) if isinstance(value, tuple) else value}"
        for name, value in choices.items()
    )


def drop_sentences(task: TuningTask, verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """What became of the candidates of which only counts are kept, one sentence per reason."""
    # The sizes of a space before and after are in the funnel.
    counts = [
        replace(verdict, evidence={}) if verdict.stage is Stage.TASK_SPACE else verdict
        for verdict in verdicts
        if verdict.candidate_id is None
    ]
    return tuple(explain_verdicts(task, counts)) if counts else ()


def forecasts_of(chain: Sequence[ChainStep]) -> tuple[float | None, float | None, str]:
    """What draft (seconds) and verifier (score) foresaw, and why the candidate was chosen."""
    draft_secs = score = None
    chosen_as = ""
    for step in chain:
        if step.stage == Stage.DRAFT.value:
            draft_secs = _positive(step.evidence, "latency_secs") or draft_secs
        elif step.stage == Stage.SELECT.value and step.outcome == "kept":
            score = _positive(step.evidence, "score") or score
            chosen_as = step.reason
    return draft_secs, score, chosen_as


def _positive(evidence: Mapping[str, float], name: str) -> float | None:
    value = evidence.get(name)
    return value if value is not None and value > 0 else None


def _step(verdict: Verdict) -> ChainStep:
    return ChainStep(
        verdict.stage.value, verdict.strategy, verdict.outcome.value, verdict.reason, dict(verdict.evidence)
    )
