"""The end of a tuning run: the model is compiled with its winners, checked, timed, and written if it is faster."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prune_engine.lifecycle import RunResult
from prune_engine.metaschedule.kernel_records import kernel_records
from prune_engine.provenance.machine_state import load_state

if TYPE_CHECKING:
    from prune_engine.metaschedule.apply import CompiledModel, Winner
    from prune_engine.metaschedule.importers import ImportedModel
    from prune_engine.metaschedule.model_timing import ModelComparison

#: Share of the tuning's seconds that timing the whole model before and after may take, and its bounds.
_CHECKING_SHARE, _MIN_CHECKING_SECS, _MAX_CHECKING_SECS = 0.1, 2.0, 20.0

#: What an artefact keeps of its run's manifest: enough to verify it where the store is not at hand.
KEPT = (
    *("seed", "argv", "llvm", "versions", "device", "machine", "load_before"),
    *("policy", "profile", "profile_digest", "profile_content"),
)


@dataclass(frozen=True, slots=True)
class Shipped:
    """What was written. ``is_tuned`` is False when the untuned model was not beaten, so that it is what ships.

    ``rejected`` says of each winner that is not in the tuned model why, ``network_changes`` of which kernels it has
    another schedule than the best by itself.
    """

    comparison: ModelComparison
    is_tuned: bool
    rejected: Mapping[str, str]
    network_changes: tuple[str, ...] = ()


def ship_model(
    model: ImportedModel,
    run: RunResult,
    target: str,
    out_dir: Path,
    *,
    n_threads: int,
    seed: int,
    is_decided_in_network: bool,
    say: Callable[[str], None],
    manifest: Mapping[str, object],
) -> Shipped:
    """Write the tuned model to ``out_dir``, or the untuned one where that is faster.

    Its metadata keep what made it, out of the run's ``manifest``, and the winners with their times.

    Raises NumericsError if the tuned model computes something else; ModelImportError, ArtifactError, OutputError.
    """
    from prune_engine.metaschedule.apply import Winner, compile_model
    from prune_engine.metaschedule.artifact_writer import save_artifact
    from prune_engine.metaschedule.measure.tempdirs import scratch_folder
    from prune_engine.metaschedule.model_timing import TimingProcess, time_models

    winners: Sequence[Winner] = [
        Winner(t.summary.task_id, t.trace_json) for t in run.tasks if t.trace_json is not None
    ]
    changes: tuple[str, ...] = ()
    say("compiling the tuned and the untuned model")
    with TimingProcess(n_threads) as timing, scratch_folder() as scratch:
        common: dict[str, object] = {"run_id": run.run_id, "created_at": time.time()}

        def write(name: str, compiled: CompiledModel) -> Path:
            save_artifact(compiled, model, scratch / name, n_threads=n_threads, target=target, manifest=common)
            return scratch / name

        untuned = compile_model(model, [], target)
        dirs = {"untuned": write("untuned", untuned)}
        if is_decided_in_network:
            winners, changes = _decided(model, run, target, dirs["untuned"], write, n_threads, seed, say)
        tuned = compile_model(model, winners, target) if winners else untuned
        common["n_tuned_tasks"] = len(winners)
        dirs["tuned"] = write("tuned", tuned)
        say("checking the outputs and timing the whole model")
        comparison = time_models(
            dirs,
            model,
            n_threads=n_threads,
            seed=seed,
            budget_secs=_checking_secs(run.elapsed_secs),
            process=timing,
        )
        comparison.raise_if_wrong()
        is_tuned = bool(winners) and comparison.is_faster
        save_artifact(
            tuned if is_tuned else untuned,
            model,
            out_dir,
            n_threads=n_threads,
            target=target,
            manifest={
                **common,
                **{name: manifest[name] for name in KEPT if name in manifest},
                "load_after": load_state(),
                "is_tuned": is_tuned,
                "comparison": comparison.as_json(),
                "kernels": [record.as_json() for record in kernel_records(run, winners)],
            },
        )
    return Shipped(comparison, is_tuned, tuned.rejected, changes)


def _decided(
    model: ImportedModel,
    run: RunResult,
    target: str,
    untuned: Path,
    write: Callable[[str, CompiledModel], Path],
    n_threads: int,
    seed: int,
    say: Callable[[str], None],
) -> tuple[Sequence[Winner], tuple[str, ...]]:
    """The winners as the whole model decides them, and what it changed."""
    from prune_engine.metaschedule.apply import compile_model, kernel_names
    from prune_engine.metaschedule.network_choice import choose_in_network

    say("timing kernels inside the model")
    n_written = 0

    def compile_with(winners: Sequence[Winner]) -> Path:
        nonlocal n_written
        n_written += 1
        return write(f"variant{n_written}", compile_model(model, winners, target))

    choice = choose_in_network(
        run.tasks,
        kernel_names(model),
        untuned,
        compile_with,
        n_threads=n_threads,
        seed=seed,
        budget_secs=_checking_secs(run.elapsed_secs),
    )
    return choice.winners, choice.changes


def _checking_secs(tuning_secs: float) -> float:
    """What timing the whole model may take: little beside the tuning, and no more than tells models apart."""
    return min(_MAX_CHECKING_SECS, max(_MIN_CHECKING_SECS, _CHECKING_SHARE * tuning_secs))
