"""Profiles onnxruntime's nodes in a process of its own: ``python gap_onnxruntime.py REQUEST.json ANSWER.json``.

Nothing of the compiler is in that process, whose threads would take turns with onnxruntime's.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from gap_timing import answer_of, timed_whole, typical

#: What is appended to a node's name where its time is told.
_TIME = "_kernel_time"


@dataclass(frozen=True)
class ProfiledNode:
    """A node by its name, with the shapes of what it reads and writes; those of prepacked weights are not told."""

    name: str
    operator: str
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]
    secs: float


def profile_nodes(
    onnx_bytes: bytes,
    inputs: dict[str, Any],
    n_threads: int,
    n_calls: int,
    budget_secs: float,
    timeout_secs: float = 600.0,
) -> tuple[list[ProfiledNode], list[float]]:
    """Typical seconds over ``n_calls`` of each node of onnxruntime's graph, in order, and those of whole calls.

    ``budget_secs`` is for whole calls.

    Raises subprocess.CalledProcessError if onnxruntime cannot run it.
    """
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "model.onnx").write_bytes(onnx_bytes)
        np.savez(folder / "inputs.npz", **inputs)
        request = {
            "folder": str(folder),
            "n_threads": n_threads,
            "n_calls": n_calls,
            "budget_secs": budget_secs,
        }
        told = answer_of(__file__, folder, request, timeout_secs)
    return nodes_of(told["events"]), told["whole"]


def nodes_of(events: list[dict[str, Any]]) -> list[ProfiledNode]:
    """Nodes of the events of onnxruntime's profile, each with its typical seconds, the first of them left out."""
    micros: dict[str, list[float]] = {}
    arguments: dict[str, dict[str, Any]] = {}
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith(_TIME):
            # Names need not be unique; the number in the graph is.
            key = f"{event['args'].get('node_index', '')} {event['name'].removesuffix(_TIME)}"
            micros.setdefault(key, []).append(float(event["dur"]))
            arguments[key] = event["args"]
    return [
        ProfiledNode(
            key.partition(" ")[2],
            arguments[key]["op_name"],
            _shapes(arguments[key]["input_type_shape"]),
            _shapes(arguments[key]["output_type_shape"]),
            typical(told[1:] or told) * 1e-6,
        )
        for key, told in micros.items()
    ]


def _shapes(typed: list[dict[str, list[int]]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(shape) for one in typed for shape in one.values())


def main(request_file: Path, answer_file: Path) -> None:
    """Run and hand over the events."""
    request = json.loads(request_file.read_text())
    folder = Path(request["folder"])
    with np.load(folder / "inputs.npz") as stored:
        inputs = {name: stored[name] for name in stored.files}
    plain = _session(folder, request["n_threads"], has_profile=False)
    whole = timed_whole(lambda: plain.run(None, inputs), request["n_threads"], request["budget_secs"])
    profiled = _session(folder, request["n_threads"], has_profile=True)
    for _ in range(request["n_calls"] + 1):
        profiled.run(None, inputs)
    events = json.loads(Path(profiled.end_profiling()).read_text())
    answer_file.write_text(json.dumps({"events": events, "whole": whole}))


def _session(folder: Path, n_threads: int, *, has_profile: bool) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = n_threads, 1
    options.log_severity_level = 3
    options.enable_profiling = has_profile
    options.profile_file_prefix = str(folder / "profile")
    return onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
