"""The decisions on each candidate, in the stages' order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from prune_engine.explain import explain_verdicts
from prune_engine.report.records import ChainStep
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


def drop_sentences(task: TuningTask, verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """What became of the candidates of which only counts are kept, one sentence per reason."""
    counts = [verdict for verdict in verdicts if verdict.candidate_id is None]
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
