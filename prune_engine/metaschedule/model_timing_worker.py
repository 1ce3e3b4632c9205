"""The process in which a model is checked and timed: ``python -m ... FOLDER``; see model_timing."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from prune_engine.errors import ArtifactError
from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.artifact import Artifact, load_artifact
from prune_engine.metaschedule.measure.linux import die_with_parent
from prune_engine.metaschedule.model_inputs import random_inputs
from prune_engine.metaschedule.model_outputs import compare_outputs
from prune_engine.metaschedule.model_timing import TimingRequest
from prune_engine.metaschedule.model_timing_reference import NoReferenceError, Reference
from prune_engine.metaschedule.model_timing_sample import sample

_REFERENCE = "onnxruntime"

#: One sample lasts at least this long, so that the clock and the waking of threads do not count.
_MIN_SAMPLE_SECS = 0.1
_MAX_CALLS = 1000
_MIN_ROUNDS = 3

Arrays = dict[str, NDArray[Any]]

#: Times so many calls; seconds per call.
Sampler = Callable[[int], float]


def main(folder: Path) -> None:
    """Answer ``request.json`` in ``answer.json``, as soon as a line on stdin says that it is there."""
    die_with_parent()
    import_tvm()  # the engine starts this process while it compiles what is to be timed
    if not sys.stdin.readline():
        return  # it ended, or has nothing to be timed
    request = TimingRequest(**json.loads((folder / "request.json").read_text()))

    def announce(contestant: str) -> None:
        # Read by the parent if this process dies.
        (folder / "contestant").write_text(contestant)

    (folder / "answer.json").write_text(json.dumps(_answer(request, announce)))


def _answer(request: TimingRequest, announce: Callable[[str], None]) -> dict[str, Any]:
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
    samplers: dict[str, Sampler] = {}
    outputs: dict[str, list[NDArray[Any]]] = {}
    for name, artifact in artifacts.items():
        announce(name)
        try:
            outputs[name] = artifact.run(inputs)
        except ArtifactError as error:
            return {"contestant": name, "error": str(error)}
        samplers[name] = partial(sample, _caller(artifact, inputs))
    announce(_REFERENCE)
    reference, problem = _open_reference(request)
    try:
        if reference is not None:
            outputs[_REFERENCE] = reference.run(names, inputs)
            samplers[_REFERENCE] = reference.sample
    except NoReferenceError as error:
        problem = str(error)
    differences = []
    for other in (_REFERENCE, "untuned"):
        if other in outputs:
            differences += compare_outputs(names, outputs["tuned"], outputs[other], other)
    try:
        run_secs = _time(samplers, request.n_rounds, request.budget_secs, announce)
    except NoReferenceError as error:
        return {"contestant": _REFERENCE, "error": str(error)}
    finally:
        if reference is not None:
            reference.close()
    return {
        "run_secs": run_secs,
        "differences": [difference.as_json() for difference in differences],
        "reference_problem": problem,
    }


def _open_reference(request: TimingRequest) -> tuple[Reference | None, str | None]:
    if request.onnx is None:
        return None, "there is no ONNX model of it"
    try:
        return Reference(Path(request.onnx), request.n_threads), None
    except NoReferenceError as error:
        return None, str(error)


def _caller(artifact: Artifact, inputs: Arrays) -> Callable[[], object]:
    tensors = artifact.bind(inputs)
    return lambda: artifact.call(tensors)


def _time(
    samplers: Mapping[str, Sampler],
    n_rounds: int,
    budget_secs: float,
    announce: Callable[[str], None],
) -> dict[str, list[float]]:
    """Seconds per call of every contestant, one value per round, the rounds interleaved."""
    n_calls, round_secs = {}, 0.0
    for name, take_sample in samplers.items():
        announce(name)
        latency = take_sample(1)
        n_calls[name] = min(_MAX_CALLS, math.ceil(_MIN_SAMPLE_SECS / max(latency, 1e-9)))
        round_secs += latency * (n_calls[name] + 1)
    rounds = min(n_rounds, max(_MIN_ROUNDS, int(budget_secs / max(round_secs, 1e-9))))
    run_secs: dict[str, list[float]] = {name: [] for name in samplers}
    order = list(samplers)
    for _ in range(rounds):
        for name in order:
            announce(name)
            run_secs[name].append(samplers[name](n_calls[name]))
        # Whoever follows the slowest finds the coldest caches: take turns.
        order = order[1:] + order[:1]
    return run_secs


if __name__ == "__main__":
    main(Path(sys.argv[1]))
