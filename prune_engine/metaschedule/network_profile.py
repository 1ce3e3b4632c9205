"""Kernels timed inside the network: what each takes between its neighbours, with their caches and their layouts."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.artifact import Artifact, load_artifact
from prune_engine.metaschedule.measure.linux import die_with_parent
from prune_engine.metaschedule.model_inputs import random_inputs
from prune_engine.metaschedule.model_timing import TimingProcess, TimingRequest

_MIN_ROUNDS, _MAX_ROUNDS = 5, 50

#: Seconds of one call of the model by kernel, a median over rounds.
KernelSecs = Mapping[str, float]


def profile_networks(
    dirs: Mapping[str, Path],
    *,
    n_threads: int,
    seed: int,
    budget_secs: float = 10.0,
    timeout_secs: float = 300.0,
) -> dict[str, KernelSecs]:
    """Time every kernel of several artefacts of one model in a process of their own, in turns.

    The result says of each artefact how long the calls of each kernel take in one call of the model.

    Raises ArtifactError: an artefact cannot be loaded or run, crashed, or did not end within ``timeout_secs``.
    """
    with TimingProcess(n_threads, worker=__name__) as worker:
        request = TimingRequest(
            {name: str(Path(path).resolve()) for name, path in dirs.items()},
            None,
            n_threads,
            seed,
            _MAX_ROUNDS,
            budget_secs,
        )
        answer = worker.ask(request, timeout_secs)
    return {name: dict(secs) for name, secs in answer.items()}


def main(folder: Path) -> None:
    """Answer ``request.json`` in ``answer.json``, as soon as a line on stdin says that it is there."""
    die_with_parent()
    import_tvm()
    if not sys.stdin.readline():
        return
    request = TimingRequest(**json.loads((folder / "request.json").read_text()))

    def announce(contestant: str) -> None:
        (folder / "contestant").write_text(contestant)  # read by the parent if this process dies

    (folder / "answer.json").write_text(json.dumps(_answer(request, announce)))


def _answer(request: TimingRequest, announce: Callable[[str], None]) -> dict[str, Any]:
    started = time.perf_counter()
    runs: dict[str, tuple[_Instrument, Callable[[], object]]] = {}
    for name, path in request.artifacts.items():
        announce(name)
        artifact = load_artifact(Path(path))
        instrument = _Instrument()
        artifact.instrument(instrument)
        tensors = artifact.bind(random_inputs(artifact.metadata.inputs, request.seed))
        runs[name] = instrument, _caller(artifact, tensors)
        runs[name][1]()  # to warm up
        instrument.clear()
    rounds: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in runs}
    for number in range(request.n_rounds):
        if number >= _MIN_ROUNDS and time.perf_counter() - started > request.budget_secs:
            break
        for name, (instrument, call) in runs.items():
            announce(name)
            call()
            instrument.clear()  # that was to bring its own data back into the caches
            call()
            for kernel, secs in instrument.clear().items():
                rounds[name][kernel].append(secs)
    return {
        name: {kernel: statistics.median(secs) for kernel, secs in kernels.items()}
        for name, kernels in rounds.items()
    }


def _caller(artifact: Artifact, tensors: list[object]) -> Callable[[], object]:
    return lambda: artifact.call(tensors)


class _Instrument:
    """Called by TVM's virtual machine before and after each function; adds up seconds by name."""

    def __init__(self) -> None:
        self._secs: dict[str, float] = defaultdict(float)
        self._begun = 0.0

    def __call__(self, func: object, name: str, before_run: bool, result: object, *args: object) -> None:  # noqa: ARG002
        now = time.perf_counter()
        if before_run:
            self._begun = time.perf_counter()
        else:
            self._secs[str(name)] += now - self._begun

    def clear(self) -> dict[str, float]:
        """What was added up since the last time."""
        found = dict(self._secs)
        self._secs.clear()
        return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
