"""What `tune`, `transfer`, `run`, `report` and `verify` print with --json."""

from __future__ import annotations

from typing_extensions import NotRequired, TypedDict

from prune_engine.provenance.policy import PolicyChange
from prune_engine.schemas.common import Audit, TransferPolicy
from prune_engine.transfers.source_choice import SourceScore


class Latency(TypedDict):
    """Time of a call of the whole model; ``run_secs`` are the samples."""

    median_secs: float
    low_secs: float
    high_secs: float
    run_secs: list[float]


class OutputDifference(TypedDict):
    """An output against a reference; ``tolerance`` bounds ``max_rel`` of floats and ``max_abs`` of integers."""

    output: str
    reference: str
    max_abs: float | None
    max_rel: float | None
    tolerance: float
    is_within: bool
    problem: str | None


class Comparison(TypedDict):
    """The whole model before and after; ``latencies`` by ``untuned`` and ``tuned``."""

    n_threads: int
    latencies: dict[str, Latency]
    speedup: float
    is_faster: bool
    is_correct: bool
    differences: list[OutputDifference]
    reference_problem: str | None


class Transfers(TypedDict):
    """What the library did for the run: ``hits`` by class of kernels, ``sources`` the models, the best first."""

    hits: dict[str, dict[str, int]]
    policies: list[TransferPolicy]
    n_measurements_saved: int
    share_of_maximum: float | None
    sources: list[SourceScore]
    network_changes: list[str]


TaskTransfer = TypedDict(
    "TaskTransfer",
    {
        "class": str,
        "n_sources": dict[str, int],
        "policies": list[TransferPolicy],
        "best_secs": float | None,
        "source": str | None,
        "policy": str | None,
        "goal_secs": float | None,
        "n_measurements_saved": int,
        "is_winner": bool,
    },
)


class TunedTask(TypedDict):
    """A kernel: ``weight`` is how often the model calls it, ``failures`` counts candidates by kind of failure."""

    task_id: str
    name: str
    weight: int
    space_size: int
    n_trials: int
    n_valid: int
    n_new: int
    default_secs: float | None
    best_secs: float | None
    best_candidate_id: str | None
    stop_reason: str
    failures: dict[str, int]
    failure_examples: dict[str, str]
    audits: list[Audit]
    transfer: TaskTransfer | None


class TuneResult(TypedDict):
    """The outcome of `tune` of a model, and of `transfer`: the same as ``result.json`` in the result folder."""

    model: str
    model_digest: str
    run_id: str
    n_threads: int
    seed: int
    stop_reason: str
    n_new_measurements: int
    elapsed_secs: float
    phase_secs: dict[str, float]
    is_tuned: bool
    artifact: str
    database: str
    verifier_model: str | None
    store: str
    comparison: Comparison
    census: dict[str, int]
    audits: list[Audit]
    transfer: Transfers
    not_applied: list[str]
    left_out_of_database: list[str]
    failed_plugins: dict[str, str]
    notes: list[str]
    tasks: list[TunedTask]
    report: str | None


class ReplayedTask(TypedDict):
    """A recorded kernel: ``curve`` is the recording's best over the best found, by trial; null seconds: failed."""

    name: str
    task_id: str
    n_candidates: int
    n_trials: int
    n_trials_before: int
    stop_reason: str
    best_secs: float
    found: float
    curve: list[float]
    run_secs: list[float | None]
    batch_sizes: list[int]


class ReplayResult(TypedDict):
    """The outcome of `tune --replay`, byte for byte the same for a seed: which run it was is in ``result.json``."""

    db: str
    folder: str | None
    report: str | None
    profile: str
    seed: int
    stop_reason: str
    failed_plugins: dict[str, str]
    tasks: list[ReplayedTask]


class Output(TypedDict):
    """An output of a model; the figures are null for NaN and infinity, and missing of an empty array."""

    shape: list[int]
    dtype: str
    min: NotRequired[float | None]
    max: NotRequired[float | None]
    mean: NotRequired[float | None]


class RunResult(TypedDict):
    """Times and outputs of a tuned model; outputs by name."""

    model: str
    n_threads: int
    n_calls: int
    median_secs: float
    min_secs: float
    max_secs: float
    outputs: dict[str, Output]


class Report(TypedDict):
    """What was written."""

    file: str
    run_id: str
    headline: str
    n_bytes: int


class Check(TypedDict):
    """One check of an artefact or a kernel of it."""

    name: str
    status: str
    message: str


class Times(TypedDict):
    """Seconds per call of a kernel and of its untuned form."""

    best_secs: float | None
    default_secs: float | None
    speedup: float | None


class VerifiedKernel(TypedDict):
    """A kernel as recorded (``old``) and as measured now (``new``, null without --measure)."""

    name: str
    task_id: str
    weight: int
    candidate_id: str | None
    status: str
    old: Times
    new: Times | None
    slowdown: float | None
    checks: list[Check]


class OldNew(TypedDict):
    """A value as recorded, null where it was not, and as it is now."""

    old: str | None
    new: str | None


class PolicyOldNew(OldNew):
    """Hashes of the policies, and what differs."""

    changes: list[PolicyChange]


class Verification(TypedDict):
    """An artefact held against this machine and the current policy."""

    artifact: str
    status: str
    checks: list[Check]
    policy: PolicyOldNew
    device: OldNew
    profile: OldNew
    versions: dict[str, OldNew]
    kernels: list[VerifiedKernel]
    remarks: list[str]
    is_regression: bool
