"""The process in which a model is checked and timed: ``python -m ... FOLDER``; see model_timing."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from prune_engine.errors import ArtifactError
from prune_engine.metaschedule.artifact import Artifact, load_artifact
from prune_engine.metaschedule.model_inputs import random_inputs
from prune_engine.metaschedule.model_outputs import compare_outputs
from prune_engine.metaschedule.model_timing import TimingRequest

_REFERENCE = "onnxruntime"

#: One sample lasts at least this long, so that the clock and the thread wake-up do not count.
_MIN_SAMPLE_SECS = 0.005
_MAX_CALLS = 100
_MIN_ROUNDS = 3

#: Both runtimes let their threads spin for a moment after a call; the next contestant must not share with them.
_SETTLE_SECS = 0.003

Arrays = dict[str, NDArray[Any]]


def main(folder: Path) -> None:
    """Answer ``request.json`` in ``answer.json``."""
    request = TimingRequest(**json.loads((folder / "request.json").read_text()))

    def announce(contestant: str) -> None:
        # Read by the parent if this process dies.
        (folder / "contestant").write_text(contestant)

    (folder / "answer.json").write_text(json.dumps(_answer(request, announce)))


def _answer(request: TimingRequest, announce: Callable[[str], None]) -> dict[str, Any]:
    calls: dict[str, Callable[[], object]] = {}
    outputs: dict[str, list[NDArray[Any]]] = {}
    # onnxruntime first: its threads must not inherit the processor binding that TVM's pool sets.
    announce(_REFERENCE)
    session, problem = _open_session(Path(request.onnx), request.n_threads)
    artifacts: dict[str, Artifact] = {}
    for name, folder in request.artifacts.items():
        announce(name)
        try:
            artifacts[name] = load_artifact(Path(folder))
        except ArtifactError as error:
            return {"contestant": name, "error": str(error)}
    metadata = next(iter(artifacts.values())).metadata
    inputs = random_inputs(metadata.inputs, request.seed)
    names = [spec.name for spec in metadata.outputs]
    for name, artifact in artifacts.items():
        announce(name)
        try:
            outputs[name] = artifact.run(inputs)
        except ArtifactError as error:
            return {"contestant": name, "error": str(error)}
        calls[name] = _caller(artifact, inputs)
    if session is not None:
        announce(_REFERENCE)
        try:
            outputs[_REFERENCE] = session.run(names, inputs)
            calls[_REFERENCE] = lambda: session.run(names, inputs)
        except Exception as error:  # noqa: BLE001  # recorded: the comparison then lacks this reference
            problem = f"onnxruntime cannot run it: {str(error).splitlines()[0][:200]}"
    differences = []
    for reference in (_REFERENCE, "untuned"):
        if reference in outputs and reference != "tuned":
            differences += compare_outputs(names, outputs["tuned"], outputs[reference], reference)
    run_secs = _time(calls, request.n_rounds, request.budget_secs, announce)
    return {
        "run_secs": run_secs,
        "differences": [difference.as_json() for difference in differences],
        "reference_problem": problem,
    }


def _open_session(path: Path, n_threads: int) -> tuple[Any, str | None]:
    try:
        import onnxruntime
    except ImportError:
        return None, "onnxruntime is not installed"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = n_threads, 1
    options.log_severity_level = 4
    # Its threads may spin within a run, for speed, but not after it: TVM runs then.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001  # recorded: the comparison then lacks this reference
        return None, f"onnxruntime cannot load it: {str(error).splitlines()[0][:200]}"
    return session, None


def _caller(artifact: Artifact, inputs: Arrays) -> Callable[[], object]:
    tensors = artifact.bind(inputs)
    return lambda: artifact.call(tensors)


def _time(
    calls: Mapping[str, Callable[[], object]],
    n_rounds: int,
    budget_secs: float,
    announce: Callable[[str], None],
) -> dict[str, list[float]]:
    """Seconds per call of every contestant, one value per round, the rounds interleaved."""
    n_calls, round_secs = {}, 0.0
    for name, call in calls.items():
        announce(name)
        latency = _sample(call, 1)
        n_calls[name] = min(_MAX_CALLS, math.ceil(_MIN_SAMPLE_SECS / max(latency, 1e-9)))
        round_secs += latency * (n_calls[name] + 1)
    rounds = min(n_rounds, max(_MIN_ROUNDS, int(budget_secs / max(round_secs, 1e-9))))
    run_secs: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    for _ in range(rounds):
        for name in order:
            announce(name)
            run_secs[name].append(_sample(calls[name], n_calls[name]))
        # Whoever follows the slowest finds the coldest caches: take turns.
        order = order[1:] + order[:1]
    return run_secs


def _sample(call: Callable[[], object], n_calls: int) -> float:
    time.sleep(_SETTLE_SECS)
    call()
    started = time.perf_counter()
    for _ in range(n_calls):
        call()
    return (time.perf_counter() - started) / n_calls


if __name__ == "__main__":
    main(Path(sys.argv[1]))
