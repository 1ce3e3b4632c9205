"""Times a tuned model's kernels inside the model, and onnxruntime's nodes, in turns."""

from __future__ import annotations

import os
import statistics
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import machine
from gap_groups import anchor_of_kernel, anchor_of_node
from gap_network import time_calls
from gap_onnxruntime import ProfiledNode, profile_nodes
from gap_peak import peak_rates
from gap_records import Kernel, Node, Profile
from transfer_subjects import Subject, target_of
from transfer_tuning import winner

from prune_engine.hardware.host import cpu_model
from prune_engine.measurement import DEFAULT_CANDIDATE
from prune_engine.metaschedule.apply import Winner, compile_model, kernel_names
from prune_engine.metaschedule.artifact_writer import save_artifact
from prune_engine.metaschedule.model_inputs import random_inputs
from prune_engine.store.base import Store, StoredCandidate
from prune_engine.task import TuningTask

#: The two sides are profiled so many times in turns, and of each figure the median taken.
_N_TURNS = 3
_NODE_CALLS = 40
_SEED = 0


def measured_of(task: TuningTask, store: Store, n_threads: int) -> list[StoredCandidate]:
    """What was measured of a task here, its untuned schedule left out."""
    rows = store.candidates(task.task_id, cpu_model(), n_threads)
    return [row for row in rows if row.candidate_id != DEFAULT_CANDIDATE]


def best_trace(task: TuningTask, store: Store, n_threads: int) -> str | None:
    """The schedule that would ship for a task, None where the untuned one would."""
    device = cpu_model()
    rows = store.candidates(task.task_id, device, n_threads)
    default = next((row.measurement for row in rows if row.candidate_id == DEFAULT_CANDIDATE), None)
    default_secs = default.latency_secs if default else None
    best = winner(task, store, device, n_threads, measured_of(task, store, n_threads), default_secs)
    return best.trace_json if best else None


def profile(subject: Subject, store: Store, n_threads: int, budget_secs: float) -> Profile:
    """Profile a model with a store's best schedules beside onnxruntime. Raises as `ModelTiming`."""
    with ModelTiming(subject, store, n_threads, budget_secs) as model:
        for _ in range(_N_TURNS):
            model.take_turn()
        return model.profile()


class ModelTiming:
    """A tuned model and onnxruntime, timed in turns. A context manager, which holds the compiled model."""

    def __init__(self, subject: Subject, store: Store, n_threads: int, budget_secs: float) -> None:
        """Compile a model with a store's best schedules. ``budget_secs`` is for each side of a turn.

        Raises subprocess.CalledProcessError if either side cannot run the model, here and later.
        """
        self._subject, self._store, self._n_threads, self._budget_secs = subject, store, n_threads, budget_secs
        self._before = os.getloadavg()[0]
        self._model = subject.load(n_threads)
        self._peaks: list[float] = []
        self._ours: dict[str, list[float]] = defaultdict(list)
        self._whole: dict[str, list[float]] = defaultdict(list)
        self._theirs: list[list[ProfiledNode]] = []
        self._scratch = TemporaryDirectory()
        self._folder = Path(self._scratch.name) / "tuned"

    def __enter__(self) -> ModelTiming:
        traces = {task.task_id: best_trace(task, self._store, self._n_threads) for task in self._model.tasks}
        winners = [Winner(task_id, trace) for task_id, trace in traces.items() if trace is not None]
        target = target_of(self._n_threads)
        compiled = compile_model(self._model, winners, target)
        manifest = {"run_id": "onnxruntime-gap", "created_at": 0.0, "n_tuned_tasks": len(winners)}
        save_artifact(
            compiled, self._model, self._folder, n_threads=self._n_threads, target=target, manifest=manifest
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._scratch.cleanup()

    def take_turn(self) -> None:
        """Profile our kernels and onnxruntime's nodes once more."""
        told, whole = time_calls(self._folder, n_threads=self._n_threads, seed=_SEED, budget_secs=self._budget_secs)
        for name, secs in told.items():
            self._ours[name].append(secs)
        self._whole["tuned"] += whole
        inputs = random_inputs(self._model.inputs, _SEED)
        nodes, whole = profile_nodes(
            self._model.onnx_bytes, inputs, self._n_threads, _NODE_CALLS, self._budget_secs / 2
        )
        self._theirs.append(nodes)
        self._whole["onnxruntime"] += whole
        self._peaks += peak_rates(self._n_threads)

    def profile(self, *, is_last: bool = False) -> Profile:
        """Medians over the turns."""
        names = kernel_names(self._model)
        ours = {name: statistics.median(secs) for name, secs in self._ours.items()}
        nodes = [
            replace(alike[0], secs=statistics.median(node.secs for node in alike))
            for alike in zip(*self._theirs, strict=True)
        ]
        return Profile(
            model=self._subject.name,
            n_threads=self._n_threads,
            kernels=tuple(
                _kernel(
                    task, sum(ours.get(name, 0.0) for name in names[task.task_id]), self._store, self._n_threads
                )
                for task in self._model.tasks
            ),
            nodes=tuple(map(_node, nodes)),
            whole_secs={who: tuple(secs) for who, secs in self._whole.items()},
            peak_flop_per_sec=max(self._peaks, default=None),
            load=(self._before, os.getloadavg()[0]),
            machine=machine.describe(),
            is_last=is_last,
        )


def _kernel(task: TuningTask, secs: float, store: Store, n_threads: int) -> Kernel:
    known = task.kernel_class
    label = known.label if known else task.name
    anchor = anchor_of_kernel(known.axes if known else (), label, task.arg_shapes, task.flop_count)
    return Kernel(
        task_id=task.task_id,
        name=task.name,
        label=label,
        kind=anchor.kind,
        sizes=anchor.sizes,
        weight=task.weight,
        flop_count=anchor.flop_count if anchor.flop_count is not None else task.flop_count,
        secs=secs,
        n_trials=len(measured_of(task, store, n_threads)),
    )


def _node(node: ProfiledNode) -> Node:
    anchor = anchor_of_node(node.operator, node.inputs, node.outputs)
    return Node(node.name, node.operator, anchor.kind, anchor.sizes, anchor.flop_count, node.secs)
