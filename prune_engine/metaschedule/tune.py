"""From an ONNX file or a workload to a tuned artefact: import, tune, apply, compile, check, compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from prune_engine.config import EngineConfig
from prune_engine.decisions.files import DECISIONS_FOLDER, DEFAULT_MAX_BYTES, DecisionWriter, decision_files
from prune_engine.engine import Engine
from prune_engine.errors import ModelImportError, OutputError, TargetError
from prune_engine.hardware.fit import check_fits
from prune_engine.hardware.registry import Choice, ProfileRegistry
from prune_engine.hookspecs import hookimpl
from prune_engine.lifecycle import Observer, RunResult, SilentObserver
from prune_engine.metaschedule.phases import PhaseClock
from prune_engine.metaschedule.shipping import Shipped, ship_model
from prune_engine.metaschedule.transfer_source import transfer_library
from prune_engine.plugins import PluginHost, PluginRecord
from prune_engine.provenance.policy_files import check_pinned
from prune_engine.result_folder import DATABASE_FOLDER
from prune_engine.store.base import Store
from prune_engine.store.open import open_store

if TYPE_CHECKING:
    from prune_engine.hardware.schema import HardwareProfile
    from prune_engine.metaschedule.importers import ImportedModel
    from prune_engine.metaschedule.measure import WarmServer
    from prune_engine.metaschedule.model_timing import ModelComparison
    from prune_engine.metaschedule.workbench import TvmWorkbench

_VERIFIER_NAME = "verifier.model"


@dataclass(frozen=True, slots=True)
class TuneRequest:
    """Everything `tune` needs. ``n_threads`` is both what is tuned for and what the artefact runs on.

    ``model_path`` may also be a workload name or a file of kernels: see workloads.loading.
    """

    model_path: Path
    out_dir: Path
    n_threads: int
    config: EngineConfig
    target: str = "native"
    profile: str = "auto"
    store_url: str | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    build_timeout_secs: float | None = None
    run_timeout_secs: float | None = None
    memory_limit_bytes: int | None = None
    flush_cache: bool = False
    #: Bytes that the record of decisions in ``out_dir`` may take; 0 makes none.
    decision_bytes: int = DEFAULT_MAX_BYTES
    #: A library file or a MetaSchedule database to transfer from instead of the store's library.
    library_path: Path | None = None
    #: A lock file: a run by any other policy is refused before anything is measured.
    policy_path: Path | None = None
    #: Whether schedules of kernels that take much of the run time are decided inside the whole model.
    is_decided_in_network: bool = False


@dataclass(frozen=True, slots=True)
class TuneOutcome:
    """What was achieved. ``is_tuned`` is False when the untuned model ships because it was not beaten.

    ``not_applied`` names tasks whose winner could not be put into the model; ``left_out`` are sentences on
    measurements that could not be written to the database; ``failed_plugins`` are those that the run did
    without, wholly or in part.
    """

    model: ImportedModel
    run: RunResult
    comparison: ModelComparison
    artifact_dir: Path
    database_dir: Path
    store_url: str
    is_tuned: bool
    not_applied: tuple[str, ...]
    left_out: tuple[str, ...]
    failed_plugins: tuple[PluginRecord, ...] = ()
    #: Sentences on kernels of which not the best by itself ships, because another is faster in the model.
    network_changes: tuple[str, ...] = ()
    #: A file of what the verifier learnt, for ``prior``; None where there is nothing.
    verifier_path: Path | None = None
    #: Seconds by phase, in their order, from the call of ``tune_model`` on.
    phase_secs: Mapping[str, float] = field(default_factory=dict)


def tune_model(
    request: TuneRequest,
    *,
    observer: Observer | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> TuneOutcome:
    """Tune a model and write the artefact, its MetaSchedule database and its metadata to ``out_dir``.

    Raises the errors of each step: ModelImportError, TargetError, ConfigError, StoreError, OutputError,
    MeasureServerError, NothingMeasuredError (after the store was written) and NumericsError.
    """
    from prune_engine.metaschedule.measure import WarmServer
    from prune_engine.metaschedule.workloads.loading import check_source

    clock = PhaseClock(observer or SilentObserver())
    check_source(str(request.model_path), request.shapes, request.dims)  # before anything that takes seconds
    _check_writable(request.out_dir)
    # Loads the compiler in a process of its own while it is loaded here.
    with WarmServer(request.n_threads) as warm:
        outcome = _tune(request, clock, should_stop, warm)
    return replace(outcome, phase_secs=clock.secs())


def _tune(
    request: TuneRequest, observer: PhaseClock, should_stop: Callable[[], bool], warm: WarmServer
) -> TuneOutcome:
    host = PluginHost(request.config)
    host.register(_FailureTeller(observer), "prune-engine tune")
    host.register(observer, "prune-engine phases")
    host.load()
    observer.on_status("starting the compiler")
    target = _target(request)
    choice = _profile(request, host, target)
    profile = choice.profile
    check_fits(profile, target, remedy="Leave out --profile to tune for this machine.", may_be_npu=False)
    observer.on_status(f"profile {profile.name}: {choice.reason}")
    for remark in _thread_remarks(request, target, profile):
        observer.on_status(f"warning: {remark}")
    store = _open_store(request, host)
    try:
        with _workbench(request, target, profile, warm) as workbench:
            observer.on_status(f"importing {request.model_path.name}")
            model = _import(request, target)
            from prune_engine.metaschedule.overflow_guard import overflow_warnings

            for remark in overflow_warnings(model.tasks):
                observer.on_status(f"warning: {remark}")
            library, remarks = transfer_library(store, request.config, host, request.library_path)
            for remark in remarks:
                observer.on_status(f"warning: {remark}")
            engine = Engine(
                request.config,
                workbench,
                store,
                profile,
                host=host,
                observer=observer,
                should_stop=should_stop,
                library=library,
                model_name=model.name,
                manifest=_manifest(request, target, model),
                decisions=decision_writer(request, observer.on_status),
            )
            if request.policy_path is not None:
                check_pinned(request.policy_path, engine.policy)
            run = engine.run(model.tasks)
            left_out = _write_database(request, model, store, workbench)
            verifier_path = _write_verifier(request, engine)
        shipped = ship_model(
            model,
            run,
            target,
            request.out_dir,
            n_threads=request.n_threads,
            seed=request.config.seed,
            is_decided_in_network=request.is_decided_in_network,
            say=observer.on_status,
            manifest=engine.manifest,
        )
        outcome = _outcome(request, model, run, shipped, left_out, store.url)
        return replace(outcome, failed_plugins=host.failed, verifier_path=verifier_path)
    finally:
        store.close()


class _FailureTeller:
    """A plugin that tells the observer of those that fail."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    @hookimpl
    def plugin_failed(self, record: PluginRecord) -> None:
        self._observer.on_status(f"warning: plugin {record.name} {record.news}")


def _check_writable(out_dir: Path) -> None:
    """Raise OutputError now rather than after the tuning."""
    from prune_engine.artifact_files import output_error, staging_folder

    try:
        str(out_dir).encode()
    except UnicodeEncodeError as error:
        raise OutputError(
            "the compiler can only write to names that are valid UTF-8",
            who=ascii(str(out_dir)),
            remedy="Choose another folder with --out.",
        ) from error
    with staging_folder(out_dir):
        if out_dir.exists():
            return
        try:
            out_dir.mkdir(exist_ok=True)
        except OSError as error:
            raise output_error(error, out_dir) from error
        # It is made again when there is something to put into it. If another run did so already, it stays.
        with suppress(OSError):
            out_dir.rmdir()


def _target(request: TuneRequest) -> str:
    from prune_engine.metaschedule.targets import make_target, resolve_target

    target = resolve_target(request.target, request.n_threads)
    kind = make_target(target).kind.name
    if kind != "llvm":
        raise TargetError(
            "kernels are measured on this machine's processor",
            who=f"target {kind}",
            expected="native, or kind llvm",
            remedy="Leave out --target to tune for this machine.",
        )
    return target


def _thread_remarks(request: TuneRequest, target: str, profile: HardwareProfile) -> Iterator[str]:
    """What does not fit the thread count: spaces and rules are made for the target's and profile's cores."""
    from prune_engine.metaschedule.targets import threads_of

    for owner, n_cores in (
        ("the target", threads_of(target)),
        (f"profile {profile.name}", profile.core_count.value if profile.core_count else None),
    ):
        if n_cores is not None and n_cores != request.n_threads:
            yield f"kernels run on {request.n_threads} threads, but {owner} says {n_cores:g} cores"


def _profile(request: TuneRequest, host: PluginHost, target: str) -> Choice:
    from prune_engine.hardware.schema import HardwareProfile

    collected = host.collect("register_hardware_profiles")
    registry = ProfileRegistry([(name, item) for name, item in collected if isinstance(item, HardwareProfile)])
    if request.profile == "auto":
        chosen = host.first("resolve_hardware_profile", target=target, profiles=registry.profiles())
        if isinstance(chosen, HardwareProfile):
            return Choice(chosen, "a plugin chose it for this target")
    return registry.choose(request.profile, n_threads=request.n_threads)


def _open_store(request: TuneRequest, host: PluginHost) -> Store:
    opened = host.first("open_store", url=request.store_url) if request.store_url else None
    return opened if isinstance(opened, Store) else open_store(request.store_url)


def _workbench(request: TuneRequest, target: str, profile: HardwareProfile, warm: WarmServer) -> TvmWorkbench:
    from prune_engine.metaschedule.measure import MeasureSettings
    from prune_engine.metaschedule.workbench import TvmWorkbench

    given = {
        "build_timeout_secs": request.build_timeout_secs,
        "run_timeout_secs": request.run_timeout_secs,
        "memory_limit_bytes": request.memory_limit_bytes,
    }
    settings = MeasureSettings(
        target=target,
        n_threads=request.n_threads,
        flush_cache=request.flush_cache,
        seed=request.config.seed,
        fp_tolerance=request.config.fp_tolerance,
        **{name: value for name, value in given.items() if value is not None},  # type: ignore[arg-type]
    )
    return TvmWorkbench(settings, profile.digest(), warm)


def _import(request: TuneRequest, target: str) -> ImportedModel:
    from prune_engine.metaschedule.workloads.loading import load_model

    model = load_model(str(request.model_path), target, shapes=request.shapes, dims=request.dims)
    if not model.tasks:
        raise ModelImportError(
            "nothing to tune: the model has no kernel",
            who=str(request.model_path),
            expected="at least one operator that is not folded away",
            remedy="Check that the right file was given.",
        )
    return model


def _manifest(request: TuneRequest, target: str, model: ImportedModel) -> Mapping[str, object]:
    from prune_engine.metaschedule._compat import import_tvm

    return {
        "model": str(request.model_path),
        "model_digest": model.digest,
        "target": target,
        "llvm": int(import_tvm().target.codegen.llvm_version_major()),
    }


def _write_database(
    request: TuneRequest, model: ImportedModel, store: Store, workbench: TvmWorkbench
) -> tuple[str, ...]:
    """Write all comparable measurements as a MetaSchedule database that stock TVM can apply."""
    from prune_engine.metaschedule.database import TaskRecords, write_tuning_records

    entries = [
        TaskRecords(task, store.candidates(task.task_id, workbench.device_name(), workbench.n_threads()))
        for task in model.tasks
    ]
    return write_tuning_records(_database_dir(request), entries).left_out


def _write_verifier(request: TuneRequest, engine: Engine) -> Path | None:
    """Write what the verifier learnt, in place of an earlier run's. Returns the file, None if there is none."""
    from prune_engine.artifact_files import output_error, publish, staging_folder

    with staging_folder(request.out_dir) as staging:
        try:
            if not engine.save_verifier(staging / _VERIFIER_NAME):
                return None
        except OSError as error:
            raise output_error(error, request.out_dir) from error
        publish(staging, request.out_dir, [_VERIFIER_NAME])
    return request.out_dir / _VERIFIER_NAME


def decision_writer(request: TuneRequest, say: Callable[[str], None]) -> DecisionWriter | None:
    """Who records decisions, None if nobody does: ``say`` is told if then others' would look like this run's."""
    folder = request.out_dir / DECISIONS_FOLDER
    if request.decision_bytes:
        return DecisionWriter(folder, request.decision_bytes)
    if decision_files(folder):
        say(f"warning: what is in {folder} are decisions of earlier runs, as this one records none")
    return None


def _database_dir(request: TuneRequest) -> Path:
    return request.out_dir / DATABASE_FOLDER


def _outcome(
    request: TuneRequest,
    model: ImportedModel,
    run: RunResult,
    shipped: Shipped,
    left_out: tuple[str, ...],
    store_url: str,
) -> TuneOutcome:
    names = {task.task_id: task.name for task in model.tasks}
    return TuneOutcome(
        model=model,
        run=run,
        comparison=shipped.comparison,
        artifact_dir=request.out_dir,
        database_dir=_database_dir(request),
        store_url=store_url,
        is_tuned=shipped.is_tuned,
        not_applied=tuple(names.get(task_id, task_id) for task_id in shipped.rejected),
        left_out=left_out,
        network_changes=shipped.network_changes,
    )
