"""A run on a store and its result folder, made up in full: what a report reads, without tuning anything."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from prune_engine.candidates import Candidate
from prune_engine.measurement import DEFAULT_CANDIDATE, Comparison, MeasuredCandidate, MeasureError, Measurement
from prune_engine.measurement import MeasureErrorKind as Kind
from prune_engine.pipeline import AUDIT_PREFIX
from prune_engine.store.sql import SqlStore
from prune_engine.task import TuningTask
from prune_engine.verdicts import Outcome, Stage, Verdict

DEVICE = "made-up CPU"
SPACE, RESTRICTED = 10**7, 10**6
#: Per task.
N_RULED, N_DRAFTED, N_VERIFIED, N_LEFT = 3000, 500, 40, 200

Made = Callable[..., Path]


def _measured(identity: str, secs: float | None, at: float, error: MeasureError | None = None) -> MeasuredCandidate:
    candidate = None if identity == DEFAULT_CANDIDATE else Candidate(identity, 0, ((4, 4), (1,)))
    run_secs = () if secs is None else (secs, secs * 1.01, secs * 0.99)
    measurement = Measurement(identity, run_secs, error, 0.1, DEVICE, 1, "digest", at)
    return MeasuredCandidate(candidate, measurement, '[["GetSBlock"]]')


def _verdicts(identities: Sequence[str], rng: np.random.Generator) -> list[Verdict]:
    found = [
        Verdict(
            Stage.TASK_SPACE,
            "rules.cut",
            Outcome.DROPPED,
            "a hopeless tile",
            SPACE - RESTRICTED,
            None,
            {"size_before": float(SPACE), "size_after": float(RESTRICTED)},
        ),
        Verdict(Stage.RULE, "rules.legal", Outcome.DROPPED, "too large", N_RULED),
        Verdict(Stage.DRAFT, "draft.symbols", Outcome.DROPPED, "below the draft list", N_DRAFTED),
        Verdict(Stage.VERIFY, "verifier", Outcome.DROPPED, "probably slower", N_VERIFIED),
        Verdict(Stage.SELECT, "select", Outcome.SKIPPED, "not among the chosen", N_LEFT),
        Verdict(Stage.VERIFY, "verifier", Outcome.KEPT, f"{AUDIT_PREFIX}: probably slower", 1, identities[-1]),
    ]
    for identity in identities:
        scores = {"score": float(rng.uniform(0.5, 2)), "degradation_prob": 0.1}
        drafted = {"latency_secs": float(rng.uniform(1e-3, 1e-2)), "lanes": float(rng.random())}
        found.append(Verdict(Stage.SELECT, "select", Outcome.KEPT, "top", 1, identity, scores))
        found.append(Verdict(Stage.DRAFT, "draft.symbols", Outcome.KEPT, "its latency", 1, identity, drafted))
    return found


def make_run(
    folder: Path, *, n_tasks: int = 2, n_trials: int = 12, name: str = "dense", error: str = "signal 11"
) -> Path:
    """Write ``store.sqlite3`` and a result folder ``out`` in ``folder``; returns the latter.

    Of each task the last trial but two crashed with the message ``error``.
    """
    rng = np.random.default_rng(0)
    store = SqlStore(str(folder / "store.sqlite3"))
    manifest = {"device": DEVICE, "n_threads": 1, "profile": "nobody", "model": f"/models/{name}.onnx", "seed": 0}
    run_id = store.start_run(manifest)
    started = store.runs()[0].started_at
    shapes, dtypes = ((64, 64), (64, 64), (64, 64)), ("float32",) * 3
    tasks = [
        TuningTask(f"task{i:03}", f"{name}_{i}", "llvm", 1 + i, 2 * 64**3, shapes, dtypes) for i in range(n_tasks)
    ]
    store.add_tasks(run_id, tasks)
    told = []
    for task in tasks:
        identities = [f"{task.task_id}-{i}" for i in range(n_trials)]
        secs = rng.uniform(1e-3, 1e-2, n_trials)
        measured = [_measured(DEFAULT_CANDIDATE, 8e-3, started)]
        for i, identity in enumerate(identities):
            is_crash = i == n_trials - 3
            crash = MeasureError(Kind.CRASH, error) if is_crash else None
            measured.append(_measured(identity, None if is_crash else float(secs[i]), started + i, crash))
        store.add_measured(run_id, task.task_id, ["sketch"], measured)
        store.add_verdicts(run_id, task.task_id, _verdicts(identities, rng))
        secs[n_trials - 3] = np.inf
        best = int(np.argmin(secs))
        pair = (DEFAULT_CANDIDATE, identities[best])
        runs = ((8e-3,), (float(secs[best]),))
        store.add_comparison(run_id, task.task_id, DEVICE, 1, Comparison(pair, runs, (None, None)))
        told.append({"task_id": task.task_id, "space_size": SPACE, "stop_reason": "trials"})
    store.finish_run(run_id)
    store.close()
    latency = {"median_secs": 0.2, "low_secs": 0.19, "high_secs": 0.22, "run_secs": [0.2] * 5}
    result = {
        "run_id": run_id,
        "store": str(folder / "store.sqlite3"),
        "is_tuned": True,
        "comparison": {"latencies": {"untuned": latency, "tuned": {**latency, "median_secs": 0.1}}},
        "tasks": told,
    }
    (folder / "out").mkdir()
    (folder / "out" / "result.json").write_text(json.dumps(result))
    return folder / "out"


@pytest.fixture
def made_run(tmp_path: Path) -> Made:
    """Makes a run in a folder of its own."""
    return lambda **options: make_run(tmp_path, **options)


@pytest.fixture(scope="module")
def plain_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result folder of a run of two tasks."""
    return make_run(tmp_path_factory.mktemp("plain"))
