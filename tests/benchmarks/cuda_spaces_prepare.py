"""Kernels of random legal candidates of CUDA design spaces, to be measured where there is a GPU.

    python tests/benchmarks/cuda_spaces_prepare.py --out kernels.jsonl.gz [--per-workload 250] [--device h100]
        [--by-draft PROFILE]

For each workload candidates are drawn evenly over choice tables, sketch by sketch in turn; those that TVM would
refuse, and those unrolled to more than MAX_BODY copies (nvcc takes minutes for them), are left out: the head of a
workload says how many. With ``--by-draft`` those are taken that the draft ranks first. Each candidate that is left
becomes CUDA source, its launches with their grids, and the buffers between them. `cuda_spaces_record.py`, which
needs neither TVM nor this package, measures them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

import numpy as np
from kits.oracle import Oracle, random_batch
from prune_engine_draft.gpu import gpu_terms

from prune_engine.candidates import CandidateBatch, Decision
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.materialise import SCHEDULE_ERRORS, Materialiser, last_line
from prune_engine.metaschedule.targets import make_target, resolve_target
from prune_engine.metaschedule.tir_walk import statements
from prune_engine.metaschedule.workloads.loading import load_tasks
from prune_engine.space import DesignSpace, Sketch
from prune_engine.symbols.builtin import BUILTIN_SYMBOLS
from prune_engine.symbols.gpu import vthreads
from prune_engine.symbols.kernel import unrolled_body_instances
from prune_engine.symbols.structure import nest_columns
from prune_engine.symbols.table import symbol_table

#: Name -> the workload as users write it.
WORKLOADS = {
    "gemm_512": "gemm:512x512x512",
    "gemm_1024": "gemm:1024x1024x1024",
    "gemm_skinny": "gemm:128x3072x768",
    "bmm": "bmm:12x128x128x64",
    "conv3x3": "conv2d:1x64x56x56,64x3x3,p1",
    "conv1x1": "conv2d:1x256x56x56,64x1x1",
    "conv3x3_deep": "conv2d:1x512x7x7,512x3x3,p1",
    "depthwise": "conv2d:1x96x56x56,96x3x3,p1,g96",
    "softmax": "softmax:12x128x128",
    "gemm_f16": "gemm:1024x1024x1024:f16",
}

#: Copies of the main statement, virtual threads included.
MAX_BODY = 1024
_POOL = 40_000

Record = dict[str, Any]


def main() -> int:
    """Write one JSON line per workload and one per candidate."""
    options = _parse()
    with gzip.open(options.out, "wt", encoding="utf-8", compresslevel=9) as file:
        for name in options.workloads:
            kernels = 0
            for record in _records(name, options):
                file.write(json.dumps(record, separators=(",", ":")) + "\n")
                kernels += record["kind"] == "candidate"
            print(f"{name}: {kernels} candidates", file=sys.stderr, flush=True)
    return 0


def design_space(name: str, device: str) -> tuple[DesignSpace, Oracle]:
    """The space of a workload for ``device`` (a profile's name or alias), and TVM's own post-processing."""
    (task,) = load_tasks(WORKLOADS[name], resolve_target(f"nvidia/nvidia-{device}", 1))
    space = Materialiser(task, seed=0).design_space()
    return replace(space, symbols=symbol_table(BUILTIN_SYMBOLS)), Oracle(task)


def _records(name: str, options: argparse.Namespace) -> Iterator[Record]:
    n = options.per_workload
    space, oracle = design_space(name, options.device)
    batches = [_legal(space, sketch, options.pool, options.seed) for sketch in space.sketches]
    task = space.task
    yield {
        "kind": "workload",
        "workload": name,
        "text": WORKLOADS[name],
        "target": task.target,
        "shapes": [list(shape) for shape in task.arg_shapes],
        "dtypes": list(task.arg_dtypes),
        "drawn": [options.pool] * len(batches),
        "legal": [legal for _, legal in batches],
        "compilable": [len(batch) for batch, _ in batches],
    }
    taken = 0
    for sketch, decisions in _in_order([batch for batch, _ in batches], options.by_draft):
        if taken >= n:
            break
        built = oracle.realise(sketch, decisions)
        if not built.is_legal or built.is_repaired:
            continue
        try:
            kernels = _kernels(built.mod, task.target, len(task.arg_shapes))
        except SCHEDULE_ERRORS as error:  # TVM cannot lower some vectorised predicates
            print(f"{name}: {last_line(str(error))}", file=sys.stderr)
            continue
        taken += 1
        flat = [list(decision) for decision in decisions]
        yield {"kind": "candidate", "workload": name, "sketch": sketch.index, "decisions": flat, **kernels}


def _in_order(batches: list[CandidateBatch], profile: str | None) -> Iterator[tuple[Sketch, tuple[Decision, ...]]]:
    """Candidates of all sketches: in turn as they were drawn, or the fastest first by the draft."""
    places = [(batch, row) for row in range(max(map(len, batches))) for batch in batches if row < len(batch)]
    if profile:
        known = ProfileRegistry().resolve(profile)
        latencies = {id(batch): gpu_terms(batch, known).latency_secs for batch in batches}
        places.sort(key=lambda place: float(latencies[id(place[0])][place[1]]))
    for batch, row in places:
        yield batch.sketch, batch.candidate(row).decisions


def _legal(space: DesignSpace, sketch: Sketch, n: int, seed: int) -> tuple[CandidateBatch, int]:
    """Distinct legal candidates whose code nvcc can be asked for, and how many are legal at all."""
    drawn = random_batch(space, sketch, n, seed)
    columns = nest_columns(
        drawn,
        {
            "cuda_spaces.refused": lambda nest: nest.is_refused,
            "cuda_spaces.canonical": lambda nest: nest.is_canonical,
            "cuda_spaces.bodies": lambda nest: unrolled_body_instances(nest) * vthreads(nest),
        },
    )
    refused, canonical, bodies = columns.values()
    legal = (refused == 0) & (canonical == 1)
    rows = np.flatnonzero(legal & (bodies <= MAX_BODY))
    _, first = np.unique(drawn.indices[rows], axis=0, return_index=True)
    return drawn.take(rows[np.sort(first)]), int(legal.sum())


def _kernels(mod: Any, target: str, n_args: int) -> Record:
    """Source, launches and intermediate buffers of a post-processed module.

    A launch is the kernel's name, its pointers (number of an argument, or the name of a buffer), and its grid,
    block and dynamic shared bytes.
    """
    tvm = import_tvm()
    build = sys.modules[tvm.tirx.build.__module__]
    made = make_target(target)
    lowered = tvm.tirx.transform.BindTarget(made if made.host else made.with_host("llvm"))(mod)
    pipeline, _, finish = tvm.tirx.get_tir_pipeline("default")
    host, devices = build.split_host_device_mods(pipeline(lowered))
    ((device_target, device),) = devices.items()
    source = str(build.codegen_build(finish()(device), device_target).inspect_source())
    functions = {str(f.attrs["global_symbol"]): f for f in device.functions.values()}
    # An argument is known by the name of the buffer that the module declares for it.
    main = mod["main"]
    arguments = [str(p.name).removesuffix("_handle") for p in main.params]
    assert len(arguments) == n_args
    buffers, launches = {}, []
    (entry,) = host.functions.values()
    for statement in statements(entry.body):
        kind = type(statement).__name__
        if kind == "AllocBuffer":
            buffer = statement.buffer
            buffers[buffer.name] = [int(np.prod([int(d) for d in buffer.shape])), str(buffer.dtype)]
        elif kind == "Evaluate" and "call_ffi_kernel" in str(getattr(statement.value, "op", "")):
            launches.append(_launch(statement.value, functions, arguments, buffers))
    return {"source": source, "launches": launches, "buffers": buffers}


def _launch(call: Any, functions: dict[str, Any], arguments: list[str], buffers: dict[str, Any]) -> list[Any]:
    name = str(call.args[0].value)
    function = functions[name]
    pointers: list[Any] = []
    for parameter in function.params:
        buffer = str(parameter.name).removesuffix("_ptr")
        if buffer in arguments:
            pointers.append(arguments.index(buffer))
        else:
            assert buffer in buffers, (buffer, arguments, buffers)
            pointers.append(buffer)
    extents = [int(extent) for extent in call.args[1 + len(pointers) :]]
    names = [str(tag) for tag in function.attrs["tirx.kernel_launch_params"]]
    by_name = dict(zip(names, extents, strict=True))
    grid = [by_name.get(f"blockIdx.{axis}", 1) for axis in "xyz"]
    block = [by_name.get(f"threadIdx.{axis}", 1) for axis in "xyz"]
    return [name, pointers, grid, block, by_name.get("tirx.use_dyn_shared_memory", 0)]


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--per-workload", type=int, default=250)
    parser.add_argument("--device", default="h100")
    parser.add_argument("--by-draft", metavar="PROFILE")
    parser.add_argument("--pool", type=int, default=_POOL, help="candidates drawn per sketch")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--workloads", nargs="+", choices=sorted(WORKLOADS), default=list(WORKLOADS))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
