"""Before and after: a whole model untuned, tuned and in onnxruntime, checked and timed side by side."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prune_engine.errors import ArtifactError, NumericsError
from prune_engine.metaschedule.importers import ImportedModel
from prune_engine.metaschedule.measure.tempdirs import scratch_folder
from prune_engine.metaschedule.model_outputs import OutputDifference
from prune_engine.metaschedule.threads import thread_variables

_WORKER = "prune_engine.metaschedule.model_timing_worker"

#: The tuned model must beat the untuned one in at least this share of the rounds, and in the median.
_MIN_WINS = 0.5


@dataclass(frozen=True, slots=True)
class ModelLatency:
    """Latency of one contestant: seconds per call, one value per round."""

    run_secs: tuple[float, ...]

    @property
    def median_secs(self) -> float:
        """Median over the rounds."""
        return statistics.median(self.run_secs)

    @property
    def low_secs(self) -> float:
        """First quartile over the rounds."""
        return float(np.quantile(self.run_secs, 0.25))

    @property
    def high_secs(self) -> float:
        """Third quartile over the rounds."""
        return float(np.quantile(self.run_secs, 0.75))


@dataclass(frozen=True, slots=True)
class ModelComparison:
    """Latencies by contestant (untuned, tuned, and onnxruntime if it could run), and how outputs differ.

    Round i of every contestant ran right beside round i of the others, so rounds can be compared in pairs.
    ``reference_problem`` says why onnxruntime took no part, None if it did.
    """

    latencies: Mapping[str, ModelLatency]
    differences: tuple[OutputDifference, ...]
    n_threads: int
    reference_problem: str | None = None

    @property
    def is_correct(self) -> bool:
        """Whether every output is within tolerance of every reference."""
        return all(difference.is_within for difference in self.differences)

    @property
    def is_faster(self) -> bool:
        """Whether the tuned model is faster than the untuned one in the median and in most rounds."""
        untuned, tuned = self.latencies["untuned"], self.latencies["tuned"]
        wins = [t < u for t, u in zip(tuned.run_secs, untuned.run_secs, strict=True)]
        return tuned.median_secs < untuned.median_secs and statistics.mean(wins) > _MIN_WINS

    @property
    def speedup(self) -> float:
        """Untuned over tuned latency, medians."""
        return self.latencies["untuned"].median_secs / self.latencies["tuned"].median_secs

    @property
    def remark(self) -> str:
        """One sentence on the outputs."""
        if self.reference_problem is not None:
            against = f"the untuned model only ({self.reference_problem})"
        else:
            against = "onnxruntime and the untuned model"
        wrong = [d for d in self.differences if not d.is_within]
        if wrong:
            return f"outputs differ from {wrong[0].reference}: {_describe(wrong[0])}"
        largest = max((d.max_rel or 0.0 for d in self.differences), default=0.0)
        return f"outputs agree with {against}: largest difference {largest:.1e} of the largest value"

    def raise_if_wrong(self) -> None:
        """Raise NumericsError if an output of the tuned model is out of tolerance."""
        wrong = [d for d in self.differences if not d.is_within]
        if wrong:
            raise NumericsError(
                f"the tuned model's outputs differ from {wrong[0].reference}'s",
                who=f"output {wrong[0].output!r}",
                got=_describe(wrong[0]),
                expected=f"at most {wrong[0].tolerance:g}",
                remedy="The result was not shipped. Report this with the model: a schedule that computes "
                "something else should have been refused when it was measured.",
            )

    def as_json(self) -> dict[str, object]:
        """As JSON values; times in seconds."""
        return {
            "n_threads": self.n_threads,
            "latencies": {
                name: {
                    "median_secs": latency.median_secs,
                    "low_secs": latency.low_secs,
                    "high_secs": latency.high_secs,
                    "run_secs": list(latency.run_secs),
                }
                for name, latency in self.latencies.items()
            },
            "speedup": self.speedup,
            "is_faster": self.is_faster,
            "is_correct": self.is_correct,
            "differences": [difference.as_json() for difference in self.differences],
            "reference_problem": self.reference_problem,
        }


@dataclass(frozen=True, slots=True)
class TimingRequest:
    """What the worker process is asked; paths as text. ``onnx`` is None for kernels that come from elsewhere."""

    artifacts: Mapping[str, str]
    onnx: str | None
    n_threads: int
    seed: int
    n_rounds: int
    budget_secs: float


class TimingProcess:
    """The process in which artefacts are timed, started ahead so that it loads the compiler meanwhile.

    A context manager; good for one ``time_models``.
    """

    def __init__(self, n_threads: int, worker: str = _WORKER) -> None:
        """Start it and return at once. ``worker`` is the module that it runs."""
        self.n_threads = n_threads
        self._stack = ExitStack()
        self.folder = self._stack.enter_context(scratch_folder())
        # Its temporary files go where they are removed even if it crashes.
        env = {**os.environ, **thread_variables(n_threads), "TMPDIR": str(self.folder)}
        self._errors = (self.folder / "stderr").open("wb")
        self._stack.callback(self._errors.close)
        # In a session of its own: Ctrl-C is for the engine, which ends in order.
        self._process = subprocess.Popen(
            [sys.executable, "-m", worker, str(self.folder)],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            start_new_session=True,
        )
        self._stack.callback(self._end)

    def __enter__(self) -> TimingProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def ask(self, request: TimingRequest, timeout_secs: float) -> dict[str, Any]:
        """Have a request answered. Raises ArtifactError if the process crashes or does not end in time."""
        (self.folder / "request.json").write_text(json.dumps(asdict(request)))
        try:
            self._process.communicate(b"go\n", timeout=timeout_secs)
        except subprocess.TimeoutExpired as error:
            raise ArtifactError(
                "the model did not finish", who=self._contestant(), got=f"no answer in {timeout_secs:.0f} s"
            ) from error
        answer = self.folder / "answer.json"
        code = self._process.returncode
        if code == 0 and answer.is_file():
            content: dict[str, Any] = json.loads(answer.read_text())
            return content
        cause = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        said = (self.folder / "stderr").read_text(errors="replace").strip()[-400:]
        raise ArtifactError(
            "the model crashed while it was timed",
            who=self._contestant(),
            got=f"{cause}: {said}",
            remedy="Nothing was shipped.",
        )

    def _contestant(self) -> str:
        """Who was running when the process ended."""
        progress = self.folder / "contestant"
        return progress.read_text() if progress.is_file() else "timing worker"

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with suppress(OSError):  # what it did not read any more
            self._process.stdin.close()


def time_models(
    dirs: Mapping[str, Path],
    model: ImportedModel,
    *,
    n_threads: int,
    seed: int,
    n_rounds: int = 15,
    budget_secs: float = 20.0,
    timeout_secs: float = 600.0,
    process: TimingProcess | None = None,
) -> ModelComparison:
    """Run the artefacts ``dirs["untuned"]``, ``dirs["tuned"]`` and onnxruntime on the same random inputs.

    The artefacts run in one fresh process and onnxruntime in another, in turn within every round, all on
    ``n_threads`` threads. There are
    ``n_rounds`` rounds, or as many as fit into ``budget_secs``, at least three. ``process`` is one that was
    started ahead for as many threads.

    Raises:
        ArtifactError: an artefact cannot be loaded, crashed, or did not end within ``timeout_secs``.
    """
    with process or TimingProcess(n_threads) as worker:
        onnx = worker.folder / "reference.onnx"
        onnx.write_bytes(model.onnx_bytes)
        request = TimingRequest(
            {name: str(Path(path).resolve()) for name, path in dirs.items()},
            str(onnx) if model.onnx_bytes else None,
            n_threads,
            seed,
            n_rounds,
            budget_secs,
        )
        answer = worker.ask(request, timeout_secs)
    if "error" in answer:
        raise ArtifactError(
            "the model cannot be timed",
            who=answer["contestant"],
            got=answer["error"],
            remedy="Nothing was shipped.",
        )
    return ModelComparison(
        latencies={name: ModelLatency(tuple(secs)) for name, secs in answer["run_secs"].items()},
        differences=tuple(OutputDifference(**d) for d in answer["differences"]),
        n_threads=n_threads,
        reference_problem=answer["reference_problem"],
    )


def _describe(difference: OutputDifference) -> str:
    if difference.problem is not None:
        return difference.problem
    return f"{difference.max_abs:.3g} absolute, {difference.max_rel:.3g} of the largest value"
