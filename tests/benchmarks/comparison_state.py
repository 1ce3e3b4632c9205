"""What the comparison with MetaSchedule remembers: runs and re-timings, one JSON object per line.

A run is written once, when it is over, so a comparison that is stopped anywhere goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import journal


@dataclass(frozen=True)
class Trial:
    """One proposal that was measured: when it was through, and how that went.

    ``secs`` counts from the start of the run's process. ``latency_secs`` is None if it failed; of a trial that
    ``is_censored`` it is a rough figure of a kernel that was clearly slower than the best.
    """

    secs: float
    latency_secs: float | None
    is_censored: bool = False


@dataclass(frozen=True)
class Improvement:
    """A trial that was the best so far, and its post-processed module, packed; ``trial`` counts from 1."""

    trial: int
    latency_secs: float
    packed_module: str

    @property
    def module_json(self) -> str:
        """The module as ``tvm.ir.load_json`` reads it."""
        return journal.unpacked(self.packed_module)


@dataclass(frozen=True)
class Run:
    """One system on one task with one seed. Seconds count from the start of the run's process.

    ``ready_secs`` is when the first proposal was made, ``wall_secs`` when the process was through. ``marks`` are
    other moments by name. ``load`` is the load average before and after.
    """

    system: str
    task: str
    seed: int
    n_trials: int
    n_threads: int
    target: str
    ready_secs: float
    wall_secs: float
    trials: tuple[Trial, ...]
    improvements: tuple[Improvement, ...]
    load: tuple[float, float]
    machine: dict[str, Any] = field(default_factory=dict)
    marks: dict[str, float] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells runs apart."""
        return self.system, self.task, self.seed


@dataclass(frozen=True)
class Retiming:
    """What improvements of several runs take when they are timed in turns, seconds by (run, trial)."""

    task: str
    latency_secs: dict[tuple[str, int, int], float]
    failures: dict[tuple[str, int, int], str]
    load: tuple[float, float]


def improvements(trials: Sequence[Trial], module_of: Callable[[int], str]) -> tuple[Improvement, ...]:
    """The trials that were the best so far; ``module_of(i)`` is the module of trial i from 0, as JSON."""
    found: list[Improvement] = []
    for index, trial in enumerate(trials):
        if trial.latency_secs is None or trial.is_censored:
            continue
        if not found or trial.latency_secs < found[-1].latency_secs:
            packed = journal.packed(module_of(index))
            found.append(Improvement(index + 1, trial.latency_secs, packed))
    return tuple(found)


class State:
    """A file of runs and re-timings."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read()

    def _read(self) -> None:
        self.runs: dict[tuple[str, str, int], Run] = {}
        self.retimings: dict[str, Retiming] = {}
        self.models: dict[tuple[str, float], dict[str, Any]] = {}
        for kind, content in journal.entries(self._path):
            if kind == "run":
                run = _run(content)
                self.runs[run.key] = run
            elif kind == "retiming":
                retiming = _retiming(content)
                self.retimings[retiming.task] = retiming
            elif kind == "model":
                self.models[content["name"], content["seconds"]] = content

    def add_run(self, run: Run) -> None:
        """Remember a run; one of the same system, task and seed is replaced."""
        self.runs[run.key] = run
        self._write("run", asdict(run))

    def add_retiming(self, retiming: Retiming) -> None:
        """Remember the re-timing of a task; an earlier one is replaced."""
        self.retimings[retiming.task] = retiming
        self._write(
            "retiming",
            {
                "task": retiming.task,
                "latency_secs": [[*key, secs] for key, secs in retiming.latency_secs.items()],
                "failures": [[*key, why] for key, why in retiming.failures.items()],
                "load": retiming.load,
            },
        )

    def add_model(self, content: dict[str, Any]) -> None:
        """Remember an end-to-end comparison of a model; one of the same model and seconds is replaced."""
        self.models[content["name"], content["seconds"]] = content
        self._write("model", content)

    def forget(self, systems: Sequence[str]) -> None:
        """Drop the runs of some systems, and the re-timings of what they found."""
        kept = []
        for kind, content in journal.entries(self._path):
            if kind == "run" and content["system"] in systems:
                continue
            if kind == "retiming":
                for name in ("latency_secs", "failures"):
                    content[name] = [entry for entry in content[name] if entry[0] not in systems]
            kept.append((kind, content))
        journal.rewrite(self._path, kept)
        self._read()

    def _write(self, kind: str, content: dict[str, Any]) -> None:
        journal.append(self._path, kind, content)


def _run(content: dict[str, Any]) -> Run:
    trials = tuple(Trial(**trial) for trial in content.pop("trials"))
    found = tuple(Improvement(**one) for one in content.pop("improvements"))
    load = tuple(content.pop("load"))
    return Run(trials=trials, improvements=found, load=load, **content)  # type: ignore[arg-type]


def _retiming(content: dict[str, Any]) -> Retiming:
    return Retiming(
        content["task"],
        {(system, seed, trial): secs for system, seed, trial, secs in content["latency_secs"]},
        {(system, seed, trial): why for system, seed, trial, why in content["failures"]},
        tuple(content["load"]),  # type: ignore[arg-type]
    )
