"""What a run achieved, as an object: the compiled model, its kernels, and where everything lies."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from prune_engine.api.requests import PathLike
from prune_engine.errors import ArtifactError, ConfigError
from prune_engine.option_names import python_names
from prune_engine.result_folder import REPORT_HEAD, REPORT_NAME, RESULT_NAME, read_result

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prune_engine.metaschedule.artifact import Artifact

T = TypeVar("T")

_BEST, _WORST = "best", "worst"


@dataclass(frozen=True, slots=True)
class TunedTask:
    """One kernel of a tuned model; times in seconds of one call, None where nobody knows.

    ``weight`` counts the calls per inference. Of ``n_trials`` candidates that were ever measured on the store,
    ``n_valid`` ran and gave the right numbers; ``n_new`` were measured by this run. ``failures`` counts the others
    by kind. ``candidate_id`` is the schedule that ships, "default" where that is the untuned one.
    """

    name: str
    task_id: str
    weight: int
    space_size: int
    untuned_secs: float | None
    tuned_secs: float | None
    candidate_id: str
    n_trials: int
    n_valid: int
    n_new: int
    stop_reason: str
    failures: Mapping[str, int] = field(default_factory=dict, repr=False)

    @property
    def speedup(self) -> float | None:
        """Untuned over tuned latency; None where either is unknown."""
        if self.untuned_secs is None or self.tuned_secs is None:
            return None
        return self.untuned_secs / self.tuned_secs


@dataclass(frozen=True, eq=False, repr=False)
class TuneResult:
    """A tuned model. ``out`` is its folder; moved elsewhere, it is opened again by `load`.

    ``untuned_secs`` and ``tuned_secs`` are medians of the whole model, timed in turns, of what was and of what
    ships. ``is_tuned`` is False where the untuned model was not beaten, which ships then: both are the same.
    ``stop_reason`` says why tuning ended: seconds, trials, interrupted, plateau, ... ``record`` is all of
    result.json.
    """

    out: Path
    model: str
    tasks: tuple[TunedTask, ...]
    untuned_secs: float
    tuned_secs: float
    is_tuned: bool
    stop_reason: str
    n_new_measurements: int
    elapsed_secs: float
    n_threads: int
    run_id: str
    store: str
    record: Mapping[str, Any] = field(compare=False)

    @property
    def speedup(self) -> float:
        """Latency of the untuned model over that of what ships."""
        return self.untuned_secs / self.tuned_secs

    @property
    def module(self) -> Any:
        """The compiled library, a ``tvm.runtime.Module``, for ``tvm.relax.VirtualMachine(module, tvm.cpu())``.

        Loading it fixes the threads of TVM in this process to ``n_threads``. Raises ArtifactError.
        """
        return self._artifact.library

    @property
    def inputs(self) -> Mapping[str, tuple[tuple[int, ...], str]]:
        """Shape and dtype (numpy's name) of each input that `run` takes. Raises ArtifactError."""
        return {spec.name: (spec.shape, spec.dtype) for spec in self._artifact.metadata.inputs}

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run the compiled model once: arrays by the name of the input in, by the name of the output out.

        Raises ArtifactError for inputs that are missing, unknown, or of another shape or dtype.
        """
        artifact = self._artifact
        outputs = artifact.run(inputs)
        return {spec.name: array for spec, array in zip(artifact.metadata.outputs, outputs, strict=True)}

    def report(self, path: PathLike | None = None, *, open: bool = False) -> Path:
        """Write the run as one HTML file, report.html in the result's folder by default; return where it is.

        ``open`` shows it in the browser, if there is one. Raises StoreError where the store of the run is gone,
        OutputError where the file cannot be written.
        """
        from prune_engine.output_file import check_place, write_whole
        from prune_engine.report.writing import make_report

        file = Path(path) if path is not None else self.out / REPORT_NAME
        with python_names():
            check_place(file, head=REPORT_HEAD)
            write_whole(file, make_report(str(self.out), self.run_id).html)
        if open:
            import webbrowser

            webbrowser.open(file.resolve().as_uri())
        return file

    def explain(self, task: str | int, candidate: str | None = None) -> str:
        """Tell what became of a task's candidates, or of one of them, in sentences, a line each.

        ``task`` is a name, a number from 1 on, or the first letters of an id; ``candidate`` is an id, its first
        letters, "best" or "worst". Raises ConfigError for what there is not, ArtifactError where no decisions
        were recorded.
        """
        from prune_engine.decisions.records import read_decisions
        from prune_engine.explain.chains import Chain, explain_candidate, explain_task
        from prune_engine.explain.known_tasks import candidate_named, known_tasks, task_named

        with python_names():
            known = task_named(str(task), known_tasks(self.out, None))
            assert known.folder is not None, "no store was named"
            chain = Chain.of(known.task_id, read_decisions(known.folder, known.task_id))
            if candidate is None:
                return "\n".join(explain_task(chain))
            if candidate in (_BEST, _WORST):
                if not chain.ranked:
                    raise ConfigError("nothing of this task ran", who="candidate", got=candidate, expected="an id")
                identity = chain.ranked[0 if candidate == _BEST else -1].candidate
                assert identity is not None, "counts are not measured"
            else:
                identity = candidate_named(candidate, list(chain.looked_at))
            fates = list(read_decisions(known.folder, known.task_id, identity))
            return "\n".join(explain_candidate(chain, fates))

    def __repr__(self) -> str:
        return f"<TuneResult {self._headline()}; in {self.out}>"

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><td>{html.escape(task.name)}</td><td>{task.weight}</td><td>{_ms(task.untuned_secs)}</td>"
            f"<td>{_ms(task.tuned_secs)}</td><td>{_times(task.speedup)}</td><td>{task.n_trials}</td></tr>"
            for task in sorted(self.tasks, key=lambda one: -one.weight * (one.untuned_secs or 0))
            if task.space_size > 1
        )
        head = "".join(f"<th>{name}</th>" for name in ("kernel", "calls", "untuned", "tuned", "gain", "trials"))
        return (
            f"<p><b>{html.escape(self._headline())}</b></p><table><tr>{head}</tr>{cells}</table>"
            f"<p><code>{html.escape(str(self.out))}</code></p>"
        )

    def _headline(self) -> str:
        told = f"{_ms(self.untuned_secs)} untuned, {_ms(self.tuned_secs)} tuned ({_times(self.speedup)})"
        if not self.is_tuned:
            told = f"{_ms(self.untuned_secs)}, not beaten"
        return f"{self.model}: {told}, {self.n_new_measurements} new measurements, stopped by {self.stop_reason}"

    @cached_property
    def _artifact(self) -> Artifact:
        from prune_engine.metaschedule.artifact import load_artifact

        with python_names():
            return load_artifact(self.out)


def load(folder: PathLike) -> TuneResult:
    """Open the result of an earlier run, of `tune`, `transfer` or the commands of those names.

    Raises ArtifactError where there is none, or it is damaged.
    """
    out = Path(folder)
    return result_of(out, read_result(out))


def result_of(out: Path, record: object) -> TuneResult:
    """The result in a folder, from what result.json says. Raises ArtifactError."""
    file = str(out / RESULT_NAME)
    whole = _Fields(file, "", record)
    latencies = whole.at("comparison").at("latencies")
    untuned = latencies.at("untuned").take("median_secs", float)
    tuned = latencies.at("tuned").take("median_secs", float)
    is_tuned = whole.take("is_tuned", bool)
    if not all(math.isfinite(secs) and secs > 0 for secs in (untuned, tuned)):
        raise ArtifactError("is no result of a run", who=file, got=f"{untuned} and {tuned} s", expected="latencies")
    return TuneResult(
        out=out,
        model=whole.take("model", str),
        tasks=tuple(
            TunedTask(
                name=one.take("name", str),
                task_id=one.take("task_id", str),
                weight=one.take("weight", int),
                space_size=one.take("space_size", int),
                untuned_secs=one.maybe("default_secs", float),
                tuned_secs=one.maybe("best_secs", float),
                candidate_id=one.take("best_candidate_id", str),
                n_trials=one.take("n_trials", int),
                n_valid=one.take("n_valid", int),
                n_new=one.take("n_new", int),
                stop_reason=one.take("stop_reason", str),
                failures=one.take("failures", dict),
            )
            for one in whole.all_of("tasks")
        ),
        untuned_secs=untuned,
        tuned_secs=tuned if is_tuned else untuned,
        is_tuned=is_tuned,
        stop_reason=whole.take("stop_reason", str),
        n_new_measurements=whole.take("n_new_measurements", int),
        elapsed_secs=whole.take("elapsed_secs", float),
        n_threads=whole.take("n_threads", int),
        run_id=whole.take("run_id", str),
        store=whole.take("store", str),
        record=whole.content,
    )


class _Fields:
    """A JSON object of a file; what it lacks is an ArtifactError that names the field."""

    def __init__(self, file: str, place: str, content: object) -> None:
        self._file, self._place = file, place
        if not isinstance(content, dict):
            raise self._error(place.rstrip("."), content, "an object")
        self.content: dict[str, Any] = content

    def take(self, name: str, kind: type[T]) -> T:
        found = self.content.get(name)
        if kind is float and isinstance(found, int) and not isinstance(found, bool):
            found = float(found)
        if not isinstance(found, kind) or (isinstance(found, bool) and kind is not bool):
            raise self._error(f"{self._place}{name}", found, kind.__name__)
        return found

    def maybe(self, name: str, kind: type[T]) -> T | None:
        return None if self.content.get(name) is None else self.take(name, kind)

    def at(self, name: str) -> _Fields:
        return _Fields(self._file, f"{self._place}{name}.", self.content.get(name))

    def all_of(self, name: str) -> list[_Fields]:
        return [
            _Fields(self._file, f"{self._place}{name}[{i}].", one) for i, one in enumerate(self.take(name, list))
        ]

    def _error(self, name: str, got: object, expected: str) -> ArtifactError:
        return ArtifactError(
            f"is no result of a run: {name or 'the whole'} is not what it should be",
            who=self._file,
            got=repr(got)[:80],
            expected=expected,
            remedy="It is damaged, or of another version; tune again.",
        )


def _ms(secs: float | None) -> str:
    return "-" if secs is None else f"{secs * 1e3:.3f} ms"


def _times(gain: float | None) -> str:
    return "-" if gain is None else f"{gain:.2f}x"
