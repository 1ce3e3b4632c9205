"""What `spaces`, `prune`, `candidates`, `rank`, `prior` and `explain` print with --json."""

from __future__ import annotations

from typing import Literal

from pydantic import JsonValue
from typing_extensions import NotRequired, TypedDict

from prune_engine.decisions.records import Decision
from prune_engine.schemas.common import RuleKindName, Share, Target


class SpaceRule(TypedDict):
    """A task-space rule and the size of the space before and after it. ``failed`` is its error."""

    rule: str
    kind: RuleKindName | None
    size_before: int
    size_after: int
    seconds: float
    failed: str | None


class Subject(TypedDict):
    """What a variable tiles; ``levels`` are what its parts are for, outermost first."""

    statement: str
    iterator: str
    is_reduction: bool
    is_contiguous: bool
    levels: list[str]


class Variable(TypedDict):
    """A choice table: its rows before and after the task-space rules."""

    name: str
    kind: str
    rows: int
    rows_after: int
    subject: Subject | None


class Sketch(TypedDict):
    """A structure of a space; ``structure`` is its loops as text."""

    sketch: int
    sketch_id: str
    size: int
    size_after: int
    is_interpreted: bool
    opaque_reason: str | None
    variables: list[Variable]
    structure: list[str]


class SpaceTask(TypedDict):
    """A kernel and its design space; ``error`` says why there is none."""

    number: int
    name: str
    task_id: str
    calls: int
    flop_count: int
    error: str | None
    size: int
    size_after: int
    seconds: float | None
    rules: list[SpaceRule]
    sketches: list[Sketch]


class SpaceTotals(TypedDict):
    """Sums over all kernels."""

    n_tasks: int
    n_failed: int
    size: int
    size_after: int
    n_sketches: int
    n_interpreted: int
    interpreted_share: float | None


class Spaces(TypedDict):
    """The design spaces of a workload."""

    workload: str
    target: Target
    profile: str
    profile_found: str
    totals: SpaceTotals
    tasks: list[SpaceTask]


class FunnelStep(TypedDict):
    """What a rule cut of what reached it, and why: of the first candidate it dropped."""

    rule: str
    kind: RuleKindName | None
    n_in: int
    n_cut: int
    n_out: int
    seconds: float
    failed: str | None
    reason: str | None


class PrunedTask(TypedDict):
    """A kernel's funnel; of one without a space there is the ``error`` alone."""

    number: int
    name: str
    task_id: str
    error: str | None
    n_sketches: NotRequired[int]
    n_interpreted: NotRequired[int]
    opaque_reasons: NotRequired[list[str]]
    failed_rules: NotRequired[dict[str, str]]
    space_secs: NotRequired[float]
    size: NotRequired[int]
    size_after_space_rules: NotRequired[int]
    is_complete: NotRequired[bool]
    n_judged: NotRequired[int]
    n_opaque: NotRequired[int]
    n_legal: NotRequired[int | None]
    n_kept: NotRequired[int]
    legal_share: NotRequired[Share | None]
    kept_share: NotRequired[Share | None]
    kept_share_of_space: NotRequired[float | None]
    judge_secs: NotRequired[float]
    judged_per_sec: NotRequired[float | None]
    space_rules: NotRequired[list[FunnelStep]]
    rules: NotRequired[list[FunnelStep]]


class Pruned(TypedDict):
    """What the rules leave of the design spaces of a workload."""

    workload: str
    target: Target
    profile: str
    profile_found: str
    seed: int
    tasks: list[PrunedTask]


class Candidate(TypedDict):
    """A legal candidate; ``trace`` is what TVM replays it by. The same as a line of `candidates` without --json."""

    task: str
    task_id: str
    target: Target
    sketch: int
    sketch_id: str
    candidate_id: str
    decisions: dict[str, int | list[int]]
    symbols: dict[str, float]
    trace: JsonValue


class Candidates(TypedDict):
    """Candidates, or where they were written: ``candidates`` is null with --out."""

    workload: str
    target: Target
    profile: str
    profile_found: str
    seed: int
    n_candidates: int
    file: str | None
    candidates: list[Candidate] | None


class RankedWorkload(TypedDict):
    """How good an order is, by number of candidates looked at; 1 is perfect. ``error``: it cannot be ranked."""

    name: str
    device: str | None
    profile: str
    n_candidates: int
    n_failed: int
    n_unmatched: int
    error: str | None
    best_secs: NotRequired[float]
    median_secs: NotRequired[float]
    n_measured: NotRequired[int]
    found: NotRequired[dict[str, float]]
    picked: NotRequired[dict[str, float]]
    found_by_samples: NotRequired[float | None]
    correlation: NotRequired[float | None]
    ranked_by: NotRequired[str | None]
    learn_secs: NotRequired[float]
    score_secs: NotRequired[float]
    failed_plugins: NotRequired[dict[str, str]]


class Ranked(TypedDict):
    """The workloads of a recording."""

    db: str
    n_samples: int
    sampling: str | None
    seed: int
    source: str | None
    workloads: list[RankedWorkload]


class LearntWorkload(TypedDict):
    """A recorded workload: ``n_rows`` of its candidates were learnt, none where ``left_out`` says why."""

    name: str
    source: str
    n_candidates: int
    n_failed: int
    n_unmatched: int
    n_rows: int
    left_out: str | None


class LearntPrior(TypedDict):
    """A prior that was written. ``remarks`` tell, in sentences, what of the sources could not be used."""

    file: str
    n_bytes: int
    verifier: str
    profile: str
    n_threads: int | None
    seed: int
    max_rows: int
    n_workloads: int
    n_rows: int
    workloads: list[LearntWorkload]
    remarks: list[str]
    failed_plugins: dict[str, str]


class Told(TypedDict):
    """What became of a task, or of a candidate of it; ``folder`` holds the decisions, null for the store alone."""

    task_id: str
    name: str
    folder: str | None
    candidate_id: NotRequired[str]
    sentences: list[str]
    decisions: NotRequired[list[Decision]]


class FieldValue(TypedDict):
    """A field of the profile that a rule reads, null where it is unknown."""

    field: str
    value: int | float | str | None


class FieldChange(TypedDict):
    """What a field of the profile would have to be."""

    field: str
    was: float
    to: float


class Objection(TypedDict):
    """A rule that stops a candidate; ``evidence`` are the symbols it read."""

    stage: str
    strategy: str
    kind: RuleKindName
    reason: str
    variables: list[str]
    evidence: dict[str, float]
    hardware_basis: list[FieldValue]
    profile_changes: list[FieldChange]


class DraftStanding(TypedDict):
    """Where the draft ranks it; ``factor`` is how much faster it would have to be to be listed."""

    strategy: str
    rank: int
    n_ranked: int
    n_listed: int
    latency_secs: float | None
    factor: float | None


class VariableChange(TypedDict):
    """A variable that would have to be another."""

    variable: str
    was: list[int]
    to: list[int]


class WhyNot(TypedDict):
    """Why a candidate that nobody looked at would be dropped; ``stage`` null: it would be listed."""

    task_id: str
    name: str
    folder: str | None
    candidate_id: str
    sketch: int
    decisions: dict[str, int | list[int]]
    ranked_among: str
    stage: Literal["task_space", "rule", "draft"] | None
    objections: list[Objection]
    draft: DraftStanding | None
    ways: list[list[VariableChange]]
    sentences: list[str]
