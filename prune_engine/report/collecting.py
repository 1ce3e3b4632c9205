"""Everything a report says, read from a store and, where there is one, the result folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from prune_engine.audits.rates import merged
from prune_engine.report.decided import Decided, read_decided
from prune_engine.report.environment import environment_rows, heuristics_of, policy_hash, probe_of, profile_of
from prune_engine.report.records import Ceiling, FailureRow, ModelLatency, RunReport, TaskReport
from prune_engine.report.rooflines import ceilings_of
from prune_engine.report.sources import Source
from prune_engine.report.tasks import task_report
from prune_engine.task import TuningTask

_ONLY_IN_RESULT = "It is only in the result folder of the run; name that folder instead of the store."


def collect(source: Source) -> RunReport:
    """Read a run. Raises StoreError."""
    run, result = source.run, source.result or {}
    manifest = run.manifest
    told = {task.get("task_id"): task for task in result.get("tasks", ())}
    numbers = {task_id: number for number, task_id in enumerate(told, 1)}
    decided, no_decisions = _decided(source)
    heuristics = heuristics_of(manifest)
    reports = [
        _task(
            source,
            numbers.get(task.task_id, number),
            task,
            told.get(task.task_id, {}),
            decided.get(task.task_id, Decided()),
            heuristics,
        )
        for number, task in enumerate(source.store.tasks(run.run_id), 1)
    ]
    tunable = [report for report in reports if report.trials or (report.space_size or 0) > 1]
    tunable.sort(key=lambda report: -report.task.weight * (report.default_secs or 0.0))
    ceilings, missing = _ceilings(manifest, tunable)
    latencies = tuple(_latencies(result))
    if not latencies:
        missing["model"] = f"The whole model's latency is not on the store. {_ONLY_IN_RESULT}"
    policy = policy_hash(manifest)
    if not policy:
        missing["policy"] = "This run was made before policies were recorded."
    if no_decisions:
        missing["decisions"] = no_decisions
    if not tunable:
        missing["tasks"] = "No kernel of this run has anything to choose."
    return RunReport(
        run=run,
        model=PurePath(str(manifest.get("model", "") or "a run")).name,
        store_url=source.store.url,
        tasks=tuple(tunable),
        latencies=latencies,
        is_tuned=result.get("is_tuned"),
        n_untunable=len(reports) - len(tunable),
        ceilings=ceilings,
        profile_name=str(manifest.get("profile", "")),
        audits=merged([audit for report in tunable for audit in report.audits]),
        failures=_failures(tunable),
        policy=policy,
        environment=environment_rows(manifest),
        notes=tuple(_notes(result)),
        missing=missing,
    )


def _decided(source: Source) -> tuple[dict[str, Decided], str]:
    """The decision records by task, or why there are none."""
    if source.folder is None:
        return {}, f"No schedules, forecasts and close calls: their records are not on the store. {_ONLY_IN_RESULT}"
    if source.decisions is None:
        return {}, "No schedules, forecasts and close calls: this run kept no decision records."
    try:
        return read_decided(source.decisions), ""
    except OSError as error:
        return {}, f"The decision records cannot be read ({error.strerror or error})."


def _task(
    source: Source,
    number: int,
    task: TuningTask,
    told: Mapping[str, Any],
    decided: Decided,
    heuristics: frozenset[str],
) -> TaskReport:
    store, manifest = source.store, source.run.manifest
    where = (str(manifest.get("device", "")), int(str(manifest.get("n_threads", 1))))
    return task_report(
        number,
        task,
        source.run,
        store.candidates(task.task_id, *where),
        store.verdicts(task.task_id),
        store.last_comparison(task.task_id, *where),
        told,
        decided,
        heuristics,
    )


def _ceilings(
    manifest: Mapping[str, object], tasks: Sequence[TaskReport]
) -> tuple[tuple[Ceiling, ...], dict[str, str]]:
    profile, why_not = profile_of(manifest)
    if profile is None:
        return (), {"roofline": f"The roofline has no ceilings: {why_not}."}
    kernels = [report.task for report in tasks]
    ceilings = ceilings_of(profile, kernels)
    n_threads = manifest.get("n_threads")
    if not ceilings and isinstance(n_threads, int) and (probed := probe_of(profile, n_threads)) is not None:
        assert probed.probe is not None, "that is what it was looked up by"
        return ceilings_of(probed, kernels), {
            "roofline": f"The run's own profile, {profile.name}, has no peaks and bandwidths; these were measured "
            f"on such a processor at {probed.probe.measured_at} ({probed.name})."
        }
    missing = {}
    absent = [
        what
        for what, is_there in (
            ("peak for the kernels' types", any(c.flop_per_sec for c in ceilings)),
            ("bandwidth of any memory level", any(c.bytes_per_sec for c in ceilings)),
        )
        if not is_there
    ]
    if absent:
        missing["roofline"] = (
            f"The profile {profile.name} gives no {' and no '.join(absent)}, so those ceilings are missing; "
            f"`prune-engine profiles probe --threads {n_threads}` measures them on the machine of the run; reports "
            "made after that have them."
        )
    return ceilings, missing


def _latencies(result: Mapping[str, Any]) -> Iterator[ModelLatency]:
    for name, latency in (result.get("comparison") or {}).get("latencies", {}).items():
        low, high = float(latency["low_secs"]), float(latency["high_secs"])
        yield ModelLatency(str(name), float(latency["median_secs"]), low, high, len(latency.get("run_secs", ())))


def _failures(tasks: Sequence[TaskReport]) -> tuple[FailureRow, ...]:
    """Failures by kind, the most frequent first, each with the first example that has a message."""
    counts: Counter[str] = Counter()
    examples: dict[str, tuple[TaskReport, Any]] = {}
    for task in tasks:
        for trial in task.trials:
            if trial.error_kind is not None:
                counts[trial.error_kind] += 1
                if trial.error_kind not in examples or not examples[trial.error_kind][1].error_message:
                    examples[trial.error_kind] = (task, trial)
    rows = []
    for kind, n in counts.most_common():
        task, trial = examples[kind]
        rows.append(FailureRow(kind, n, task.task.name, trial.candidate_id, trial.error_message, trial.trace_json))
    finals = [(task, *failure) for task in tasks for failure in task.final_failures]
    for kind, n in Counter(kind for _, _, kind, _ in finals).most_common():
        task, identity, _, message = next(failure for failure in finals if failure[2] == kind)
        rows.append(
            FailureRow(f"{kind} when re-timed", n, task.task.name, identity, message, _trace(task, identity))
        )
    defaults = [task for task in tasks if task.default_problem]
    if defaults:
        first = defaults[0]
        rows.append(
            FailureRow("untuned kernel", len(defaults), first.task.name, "default", first.default_problem, None)
        )
    return tuple(rows)


def _trace(task: TaskReport, candidate_id: str) -> str | None:
    return next((t.trace_json for t in task.trials if t.candidate_id == candidate_id), None)


def _notes(result: Mapping[str, Any]) -> Iterator[str]:
    """What the run itself had to say besides."""
    for name in result.get("not_applied", ()):
        yield f"The best schedule of {name} could not be put into the model; it keeps its default."
    for name, problem in (result.get("failed_plugins") or {}).items():
        yield f"Plugin {name} {problem}."
    yield from map(str, result.get("notes", ()))
    yield from map(str, (result.get("transfer") or {}).get("network_changes", ()))
