"""Best latency so far, over trials and over seconds."""

from __future__ import annotations

from prune_engine.report.records import TaskReport, Trial


def best_so_far(task: TaskReport) -> tuple[list[float], list[float]]:
    """Trials and best latency in seconds, one step for each improvement; starts with the untuned kernel at 0."""
    return _steps(task.default_secs, [(float(t.number), t) for t in task.trials], float(len(task.trials)))


def by_seconds(task: TaskReport) -> tuple[list[float], list[float]]:
    """The same over the seconds since the run began; it starts with the best of earlier runs."""
    before = [t for t in task.trials if t.run_offset_secs is None]
    known = [t.latency_secs for t in before if _is_comparable(t) and t.latency_secs is not None]
    start = min([*known, *([task.default_secs] if task.default_secs else [])], default=None)
    of_run = [(t.run_offset_secs, t) for t in task.trials if t.run_offset_secs is not None]
    return _steps(start, of_run, max((at for at, _ in of_run), default=0.0))


def improvements(task: TaskReport) -> list[tuple[int, float | None, float]]:
    """Trial, seconds since the run began (None for another run's) and latency of each new best."""
    found = []
    best = task.default_secs
    for trial in task.trials:
        latency = trial.latency_secs
        if latency is not None and _is_comparable(trial) and (best is None or latency < best):
            best = latency
            found.append((trial.number, trial.run_offset_secs, latency))
    return found


def _steps(start: float | None, placed: list[tuple[float, Trial]], end: float) -> tuple[list[float], list[float]]:
    x, secs = ([0.0], [start]) if start else ([], [])
    best = start
    for at, trial in placed:
        latency = trial.latency_secs
        if latency is not None and _is_comparable(trial) and (best is None or latency < best):
            best = latency
            x.append(at)
            secs.append(latency)
    if best is not None and (not x or x[-1] < end):
        x.append(end)
        secs.append(best)
    return x, secs


def _is_comparable(trial: Trial) -> bool:
    return not trial.is_censored
