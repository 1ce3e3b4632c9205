"""Times a tuned model's kernels inside the model, and onnxruntime's nodes, in turns."""

from __future__ import annotations

import os
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import machine
from gap_groups import anchor_of_kernel, anchor_of_node
from gap_onnxruntime import ProfiledNode, profile_nodes
from gap_records import Kernel, Node, Profile
from transfer_subjects import Subject, target_of
from transfer_tuning import winner

from prune_engine.hardware.host import cpu_model, host_profile
from prune_engine.measurement import DEFAULT_CANDIDATE
from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.apply import Winner, compile_model, kernel_names
from prune_engine.metaschedule.artifact_writer import save_artifact
from prune_engine.metaschedule.importers import ImportedModel
from prune_engine.metaschedule.model_inputs import random_inputs
from prune_engine.metaschedule.model_timing import time_models
from prune_engine.metaschedule.network_profile import profile_networks
from prune_engine.metaschedule.probe_kernels import ProbeKernels
from prune_engine.store.base import Store, StoredCandidate
from prune_engine.task import TuningTask

#: The two sides are profiled so many times in turns, and of each figure the median taken.
_N_TURNS = 3
_NODE_CALLS = 40
_SEED = 0
#: Samples of the peak are as short, and as many.
_PEAK_SECS, _N_PEAKS = 0.001, 8


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
    """Compile a model with a store's best schedules and profile it beside onnxruntime.

    ``budget_secs`` is for timing whole calls, and again for the profiles. Raises ArtifactError if the model cannot
    be run, and subprocess.CalledProcessError if onnxruntime cannot run it.
    """
    before = os.getloadavg()[0]
    model, target = subject.load(n_threads), target_of(n_threads)
    traces = {task.task_id: best_trace(task, store, n_threads) for task in model.tasks}
    winners = [Winner(task_id, trace) for task_id, trace in traces.items() if trace is not None]
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / "tuned"
        compiled = compile_model(model, winners, target)
        manifest = {"run_id": "onnxruntime-gap", "created_at": 0.0, "n_tuned_tasks": len(winners)}
        save_artifact(compiled, model, folder, n_threads=n_threads, target=target, manifest=manifest)
        whole = time_models({"tuned": folder}, model, n_threads=n_threads, seed=_SEED, budget_secs=budget_secs)
        kernel_secs, nodes = _in_turns(folder, model, n_threads, budget_secs)
    names = kernel_names(model)
    return Profile(
        model=subject.name,
        n_threads=n_threads,
        kernels=tuple(
            _kernel(task, sum(kernel_secs.get(name, 0.0) for name in names[task.task_id]), store, n_threads)
            for task in model.tasks
        ),
        nodes=tuple(map(_node, nodes)),
        whole_secs={who: latency.run_secs for who, latency in whole.latencies.items()},
        peak_flop_per_sec=_peak(n_threads),
        load=(before, os.getloadavg()[0]),
        machine=machine.describe(),
    )


def _in_turns(
    folder: Path, model: ImportedModel, n_threads: int, budget_secs: float
) -> tuple[Mapping[str, float], list[ProfiledNode]]:
    ours: dict[str, list[float]] = defaultdict(list)
    theirs: list[list[ProfiledNode]] = []
    for _ in range(_N_TURNS):
        told = profile_networks({"tuned": folder}, n_threads=n_threads, seed=_SEED, budget_secs=budget_secs / 3)
        for name, secs in told["tuned"].items():
            ours[name].append(secs)
        inputs = random_inputs(model.inputs, _SEED)
        theirs.append(profile_nodes(model.onnx_bytes, inputs, n_threads, _NODE_CALLS))
    nodes = [
        ProfiledNode(same[0].name, same[0].operator, same[0].inputs, same[0].outputs, _median(n.secs for n in same))
        for same in zip(*theirs, strict=True)
    ]
    return {name: _median(secs) for name, secs in ours.items()}, nodes


def _median(secs: Iterable[float]) -> float:
    return statistics.median(secs)


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


def _peak(n_threads: int) -> float | None:
    """The best of several samples: others on the machine only make it look slower."""
    host = host_profile(n_threads)
    import_tvm()
    kernels = ProbeKernels(
        n_threads,
        vector_bytes=host.value("limits.vector_bytes"),
        vector_registers=host.value("limits.vector_registers"),
        sample_secs=_PEAK_SECS,
    )
    return max((rate for _ in range(_N_PEAKS) for rate in kernels.flop_rates("float32")), default=None)
