"""`tune` and `transfer` as functions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prune_engine.api.model_sources import Model, result_folder, saved
from prune_engine.api.progress import Watching, watched
from prune_engine.api.requests import DEFAULT_SECS, PathLike, model_request, search_config
from prune_engine.api.results import TuneResult, result_of
from prune_engine.option_names import python_names
from prune_engine.result_folder import write_result

if TYPE_CHECKING:
    from prune_engine.metaschedule.tune import TuneRequest


def tune(
    model: Model,
    *,
    out: PathLike | None = None,
    shape: Mapping[str, Sequence[int]] | None = None,
    dim: Mapping[str, int] | None = None,
    seconds: float | None = None,
    trials: int | None = None,
    target: str = "native",
    threads: int | None = None,
    profile: PathLike = "auto",
    store: PathLike | None = None,
    plateau: int = 96,
    seed: int = 0,
    batch: int = 16,
    build_timeout: float | None = None,
    run_timeout: float | None = None,
    memory: int | str | None = None,
    flush_cache: bool = False,
    fp_tolerance: float | None = None,
    strict_fp: bool = False,
    stress_check: bool = True,
    explorer: str = "explore.evolution",
    draft: str | None = "draft.symbols",
    verifier: str | None = "lightgbm.residual",
    selector: str = "select.diverse",
    prior: PathLike = "builtin",
    disabled_rules: Sequence[str] = (),
    blocked_plugins: Sequence[str] = (),
    plugin_files: Sequence[PathLike] = (),
    transfer: bool = True,
    builtin_library: bool = True,
    strict: bool = False,
    policy: PathLike | None = None,
    decisions: bool = True,
    decisions_size: int | str = "64M",
    progress: Watching = False,
) -> TuneResult:
    """Tune a model for this machine's processor and write a faster one: `prune-engine tune` as a function.

    The same call again goes on where this one ends, and measures no candidate twice.

    Args:
        model: an ONNX file or ``onnx.ModelProto``; a workload such as "gemm:512x512x512"; an IRModule of TIR or
            Relax functions, a PrimFunc, or a file of such. What is not a file is written into ``out``.
        out: folder for the result; tuned/MODEL by default.
        shape: shapes of inputs by name, {"x": (1, 3, 224, 224)}; ``dim``: sizes of symbolic dimensions.
        seconds: time for tuning, 300 if there are no ``trials`` either; these are all measured candidates, those of
            earlier runs on the store included.
        target: TVM's target, native or of kind llvm. ``threads``: of a kernel, the usable cores by default.
        profile: hardware profile: auto, a name, or a YAML file.
        store: where measurements are kept, a file or URL; in the user data folder by default.
        plateau: a task is closed after so many trials without gain.
        seed: of every random draw. ``batch``: candidates per batch.
        build_timeout: seconds that one build may take; ``run_timeout``: one candidate. ``memory``: bytes, or "8G".
        flush_cache: flush the caches before each timed call.
        fp_tolerance: relative error accepted of floating-point results, None for what suits their type.
        strict_fp: add up in the untuned kernel's order only. ``stress_check``: try what ships on hard inputs.
        explorer: the strategies by name, with ``draft``, ``verifier`` and ``selector``; draft and verifier may be
            "none". ``prior``: what the verifier starts from, builtin, none, or a file.
        disabled_rules: rules to leave out. ``blocked_plugins``: not to load; ``plugin_files``: to load too.
        transfer: begin with schedules of kernels like these, with ``builtin_library`` also with those shipped.
        strict: stop at the first plugin that fails.
        policy: a lock file: do not run by any other policy.
        decisions: record what became of each candidate, in at most ``decisions_size`` bytes.
        progress: True shows it on stderr, a function is called with each `Progress`. Nothing is printed otherwise;
            the logger "prune_engine" gets every message.

    Ctrl-C ends the run in order: the best so far ships, and ``stop_reason`` is "interrupted".

    Raises:
        PruneEngineError: one of its kinds, as the command does. What was measured is in the store.
    """
    with python_names():
        config = search_config(
            seconds=DEFAULT_SECS if seconds is None and trials is None else seconds,
            trials=trials,
            batch_size=batch,
            plateau_trials=plateau,
            seed=seed,
            explorer=explorer,
            draft=draft,
            verifier=verifier,
            selector=selector,
            prior=str(prior),
            disabled_rules=disabled_rules,
            blocked_plugins=blocked_plugins,
            plugin_files=plugin_files,
            transfer=transfer,
            builtin_library=builtin_library,
            strict=strict,
            fp_tolerance=fp_tolerance,
            strict_fp=strict_fp,
            stress_check=stress_check,
        )
        folder = result_folder(model, out)
        request = model_request(
            saved(model, folder),
            config,
            out=folder,
            shape=shape,
            dim=dim,
            target=target,
            threads=threads,
            profile=profile,
            store=store,
            build_timeout=build_timeout,
            run_timeout=run_timeout,
            memory=memory,
            flush_cache=flush_cache,
            policy=policy,
            decisions=decisions,
            decisions_size=decisions_size,
        )
        return _tuned(request, progress)


def transfer(
    model: Model,
    *,
    source: PathLike = "library",
    choose_by: str = "covered",
    builtin_library: bool = True,
    measurements: int = 16,
    search: bool = True,
    seconds: float = DEFAULT_SECS,
    in_network: bool = True,
    seed: int = 0,
    out: PathLike | None = None,
    shape: Mapping[str, Sequence[int]] | None = None,
    dim: Mapping[str, int] | None = None,
    target: str = "native",
    threads: int | None = None,
    profile: PathLike = "auto",
    store: PathLike | None = None,
    blocked_plugins: Sequence[str] = (),
    plugin_files: Sequence[PathLike] = (),
    strict: bool = False,
    policy: PathLike | None = None,
    progress: Watching = False,
) -> TuneResult:
    """Make a model faster with schedules of kernels like its own: `prune-engine transfer` as a function.

    Args:
        source: where schedules come from (``--from``): "library", "best" of its models, one of them by name, a
            library file or a MetaSchedule database. ``choose_by``: how "best" ranks them.
        measurements: per kernel, those of earlier runs included; with 0 what ranks first ships unmeasured.
        search: spend half of them, and what the library leaves over, on what the draft thinks best.
        in_network: decide kernels that take much of the time inside the whole model.

    The others, and what is raised, are as in `tune`.
    """
    from prune_engine.config import SEARCH_SHARE
    from prune_engine.metaschedule.transfer_source import is_place

    with python_names():
        place = Path(source) if is_place(str(source)) else None
        config = search_config(
            seconds=seconds,
            transfer_only=True,
            transfer_trials=measurements,
            transfer_search_share=SEARCH_SHARE if search else 0.0,
            transfer_source="library" if place else str(source),
            source_form=choose_by,
            builtin_library=builtin_library,
            seed=seed,
            blocked_plugins=blocked_plugins,
            plugin_files=plugin_files,
            strict=strict,
        )
        folder = result_folder(model, out)
        request = model_request(
            saved(model, folder),
            config,
            out=folder,
            shape=shape,
            dim=dim,
            target=target,
            threads=threads,
            profile=profile,
            store=store,
            policy=policy,
            library_path=place,
            is_decided_in_network=in_network and measurements > 0,
        )
        return _tuned(request, progress)


def _tuned(request: TuneRequest, progress: Watching) -> TuneResult:
    from prune_engine.api.records import as_record
    from prune_engine.metaschedule.tune import tune_model

    with watched(progress) as (observer, should_stop):
        outcome = tune_model(request, observer=observer, should_stop=should_stop)
        text = json.dumps(as_record(request, outcome), indent=2)
        write_result(request.out_dir, text + "\n")
    return result_of(request.out_dir, json.loads(text))
