"""Times each call of a kernel inside a tuned model, in a process of its own: ``gap_network.py REQUEST ANSWER``.

Each call by itself, as onnxruntime does it: of calls that are added up, other programs disturb some in every round.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from gap_timing import timed_whole, typical

from prune_engine.metaschedule.artifact import load_artifact
from prune_engine.metaschedule.model_inputs import random_inputs
from prune_engine.metaschedule.threads import thread_variables

_MIN_ROUNDS, _MAX_ROUNDS = 10, 200


def time_calls(
    folder: Path, *, n_threads: int, seed: int, budget_secs: float, timeout_secs: float = 600.0
) -> tuple[Mapping[str, float], list[float]]:
    """Seconds of all calls of each function of an artefact in one call of the model, by name, and of whole calls.

    Raises subprocess.CalledProcessError if it cannot be loaded or run.
    """
    with TemporaryDirectory() as scratch:
        request, answer = Path(scratch) / "request.json", Path(scratch) / "answer.json"
        asked = {
            "artifact": str(folder.resolve()),
            "seed": seed,
            "budget_secs": budget_secs,
            "n_threads": n_threads,
        }
        request.write_text(json.dumps(asked))
        subprocess.run(
            [sys.executable, __file__, str(request), str(answer)],
            check=True,
            capture_output=True,
            text=True,
            timeout=timeout_secs,
            env={**os.environ, **thread_variables(n_threads)},
        )
        told = json.loads(answer.read_text())
    return told["functions"], told["whole"]


class _Instrument:
    """Called by TVM's virtual machine before and after each function; keeps every call of a round."""

    def __init__(self) -> None:
        self._calls: list[tuple[str, float]] = []
        self._begun = 0.0

    def __call__(self, func: object, name: str, before_run: bool, result: object, *args: object) -> None:
        now = time.perf_counter()
        if before_run:
            self._begun = time.perf_counter()
        else:
            self._calls.append((str(name), now - self._begun))

    def clear(self) -> list[tuple[str, float]]:
        """The calls since the last time, in their order."""
        found, self._calls = self._calls, []
        return found


def main(request_file: Path, answer_file: Path) -> None:
    """Answer a request."""
    request = json.loads(request_file.read_text())
    artifact = load_artifact(Path(request["artifact"]))
    tensors = artifact.bind(random_inputs(artifact.metadata.inputs, request["seed"]))
    whole = timed_whole(lambda: artifact.call(tensors), request["n_threads"], request["budget_secs"] / 2)
    instrument = _Instrument()
    artifact.instrument(instrument)
    artifact.call(tensors)
    instrument.clear()
    rounds: list[list[tuple[str, float]]] = []
    began = time.perf_counter()
    while len(rounds) < _MAX_ROUNDS:
        if len(rounds) >= _MIN_ROUNDS and time.perf_counter() - began > request["budget_secs"]:
            break
        artifact.call(tensors)
        rounds.append(instrument.clear())
    answer_file.write_text(json.dumps({"functions": sums(rounds), "whole": whole}))


def sums(rounds: list[list[tuple[str, float]]]) -> dict[str, float]:
    """What each function takes, its calls added up after the typical seconds of each were found."""
    found: dict[str, float] = defaultdict(float)
    for same in zip(*rounds, strict=True):  # every round makes the same calls
        found[same[0][0]] += typical([secs for _, secs in same])
    return dict(found)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
