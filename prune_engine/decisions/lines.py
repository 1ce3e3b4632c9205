"""One decision as a JSON line, put together from parts that are made once: `decisions` says what they mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from prune_engine.candidates import Candidate
from prune_engine.decisions.draft_rows import Row, choices_json, evidence_json, number_json
from prune_engine.decisions.records import VERSION, DecisionKind
from prune_engine.hardware.basis import basis_of
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.measurement import Measurement
from prune_engine.pipeline import Pipeline
from prune_engine.space import Sketch
from prune_engine.task import TuningTask
from prune_engine.verdicts import Outcome, RuleKind, SelectionReason, Stage
from prune_engine.whitelist.entries import WHITELIST

#: A failure's message is cut here: the store has all of it.
_MAX_ERROR = 300


@dataclass(frozen=True, slots=True)
class Fate:
    """What decided, and how."""

    stage: Stage
    strategy: str
    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True)
class Prediction:
    """The latency that a strategy expected; its name is JSON already."""

    secs: float
    by_json: str


class LineMaker:
    """Writes lines of one run; what a strategy reads of the profile it looks up once."""

    def __init__(self, pipeline: Pipeline, profile: HardwareProfile, run_id: str) -> None:
        self._pipeline, self._profile, self._run_id = pipeline, profile, run_id
        #: By identity, as hashing takes longer than all the rest; the fate is kept, so that it has its own.
        self._fates: dict[int, tuple[Fate, str]] = {}

    def head(self, task: TuningTask, number: int) -> str:
        """What all lines of a round begin with."""
        record = {
            "version": VERSION,
            "run": self._run_id,
            "task": task.task_id,
            "task_name": task.name,
            "round": number,
        }
        return _dumped(record)[:-1]

    def of_candidate(
        self,
        head: str,
        fate: Fate,
        row: Row,
        *,
        selected_as: SelectionReason | None = None,
        prediction: Prediction | None = None,
        best_secs: float | None = None,
        measured: Measurement | None = None,
    ) -> str:
        """The fate of one candidate."""
        gain = best_secs / prediction.secs if best_secs and prediction else None
        predicted = (number_json(prediction.secs), prediction.by_json) if prediction else ("null", "null")
        chosen = f'"{selected_as.value}"' if selected_as else "null"
        return (
            f'{head},"candidate":"{row.candidate}","count":1,"sketch":{row.sketch},"decisions":{row.decisions},'
            f'{self._fate(fate)},"selected_as":{chosen},"evidence":{row.evidence},'
            f'"predicted_secs":{predicted[0]},"predicted_by":{predicted[1]},"expected_gain":{number_json(gain)},'
            f'"measured":{_measured(measured)}}}'
        )

    def of_count(
        self,
        head: str,
        fate: Fate,
        count: int,
        evidence: Mapping[str, float],
        example: tuple[Candidate, Sketch] | None,
    ) -> str:
        """How many fell for a reason."""
        shown = "null"
        if example is not None:
            candidate, sketch = example
            shown = (
                f'{{"candidate":"{candidate.candidate_id}","sketch":{sketch.index},'
                f'"decisions":{choices_json(sketch, candidate)}}}'
            )
        return (
            f'{head},"candidate":null,"count":{count},{self._fate(fate)},"example":{shown},'
            f'"evidence":{evidence_json(evidence)},"measured":null}}'
        )

    def _fate(self, fate: Fate) -> str:
        known = self._fates.get(id(fate))
        if known is None:
            basis = [{"field": path, "value": value} for path, value in basis_of(self._profile, self._paths(fate))]
            if fate.stage not in (
                Stage.TASK_SPACE,
                Stage.RULE,
            ):  # a draft is for many devices, each with its fields
                basis = [item for item in basis if item["value"] is not None]
            record = {
                "stage": fate.stage.value,
                "strategy": fate.strategy,
                "kind": self._kind(fate).value,
                "outcome": fate.outcome.value,
                "reason": fate.reason,
                "hardware_basis": basis,
            }
            known = self._fates[id(fate)] = fate, _dumped(record)[1:-1]
        return known[1]

    def _paths(self, fate: Fate) -> tuple[str, ...]:
        """What the rule reads that decided, else what the draft does, whose numbers are the evidence."""
        if fate.stage in (Stage.TASK_SPACE, Stage.RULE):
            rule = self._pipeline.rule(fate.strategy)
            return rule.hardware_basis if rule is not None else ()
        scorer = self._pipeline.scoring.draft_scorer
        return scorer.hardware_basis if scorer is not None else ()

    def _kind(self, fate: Fate) -> DecisionKind:
        if fate.stage is Stage.MEASURE:
            is_compiler = fate.outcome is Outcome.DROPPED
            return DecisionKind.LEGALITY if is_compiler else DecisionKind.MEASUREMENT
        if fate.stage in (Stage.TASK_SPACE, Stage.RULE):
            rule = self._pipeline.rule(fate.strategy)
            if rule is None:  # guesses do not count for listed schedules: what drops one is sure
                is_illegal = fate.strategy == WHITELIST and fate.outcome is Outcome.DROPPED
                return DecisionKind.LEGALITY if is_illegal else DecisionKind.CHOICE
            return DecisionKind.LEGALITY if rule.kind is RuleKind.LEGALITY else DecisionKind.HEURISTIC
        return DecisionKind.GUESS if fate.stage in (Stage.DRAFT, Stage.VERIFY) else DecisionKind.CHOICE


def _measured(measurement: Measurement | None) -> str:
    if measurement is None:
        return "null"
    error = measurement.error
    return _dumped(
        {
            "latency_secs": measurement.latency_secs,
            "error": f"{error.kind.value}: {error.message}"[:_MAX_ERROR] if error else None,
            "is_censored": measurement.is_censored,
        }
    )


def _dumped(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
