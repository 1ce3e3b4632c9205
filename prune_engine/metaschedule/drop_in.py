"""``tune_tir`` and ``tune_relax`` as MetaSchedule has them, with our search. Importing it imports TVM."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError, NothingMeasuredError
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.metaschedule._compat import prepare_builder
from prune_engine.metaschedule.cost_model import PruneEngineCostModel
from prune_engine.metaschedule.device_targets import DEVICE_PREFIX, profile_of_device
from prune_engine.metaschedule.record_rows import run_secs_of
from prune_engine.metaschedule.search import PruneEngineSearch
from prune_engine.metaschedule.targets import make_target, resolve_target

import tvm  # isort: skip - our modules have prepared TVM
from tvm.s_tir import meta_schedule as ms  # isort: skip - our modules have prepared TVM

#: The value of ``strategy`` that means `PruneEngineSearch`.
_OURS = "prune-engine"
#: Targets that TVM does not know and the engine does.
_OWN_NAMES = ("native", "auto", "host")
_TVM_LOGGER = "tvm.s_tir.meta_schedule"


def tune_tir(
    mod: Any,
    target: Any,
    work_dir: str | Path,
    max_trials_global: int,
    *,
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int = 64,
    builder: Any = "local",
    runner: Any = "local",
    database: Any = "json",
    cost_model: Any = None,
    measure_callbacks: Any = "default",
    task_scheduler: Any = "gradient",
    space: Any = "post-order-apply",
    strategy: Any = _OURS,
    num_tuning_cores: str | int = "physical",
    seed: int | None = None,
    module_equality: str = "structural",
    special_space: Mapping[str, Any] | None = None,
    post_optimization: bool | None = False,
    profile: HardwareProfile | str | None = None,
    config: EngineConfig | Mapping[str, object] | None = None,
    store: str | Path | None = None,
) -> Any:
    """Tune a PrimFunc or an IRModule of PrimFuncs, as ``tvm.s_tir.meta_schedule.tune_tir`` does.

    All parameters are TVM's and go to it, but for these:

    Args:
        target: besides TVM's ways to write one, ``native`` (this processor) and GPUs by name, ``cuda/a100``.
        strategy: ``prune-engine`` by default. Any other is TVM's to interpret.
        cost_model: by default none, as the engine has its own; with another strategy a `PruneEngineCostModel`.
        profile: see `PruneEngineSearch`, as for ``config`` and ``store``.

    Returns the database with all records, which ``compile_tir`` takes. Raises ConfigError for what cannot be used,
    and NothingMeasuredError if not one schedule could be built and run; TVM's own function returns an empty
    database then.
    """
    _check(mod, (tvm.IRModule, tvm.tirx.PrimFunc), "an IRModule or a PrimFunc", target, work_dir)
    made, ours, model = _prepared(target, strategy, cost_model, profile, config, store)
    with _logging_as_tvm_can():
        tuned = ms.tune_tir(
            mod,
            made,
            str(work_dir),
            max_trials_global,
            max_trials_per_task=max_trials_per_task,
            num_trials_per_iter=num_trials_per_iter,
            builder=_builder(builder, num_tuning_cores),
            runner=runner,
            database=database,
            cost_model=model,
            measure_callbacks=measure_callbacks,
            task_scheduler=task_scheduler,
            space=space,
            strategy=ours,
            num_tuning_cores=num_tuning_cores,
            seed=seed,
            module_equality=module_equality,
            special_space=special_space,
            post_optimization=post_optimization,
        )
    _check_measured(ours, tuned, str(work_dir))
    return tuned


def tune_relax(
    mod: Any,
    params: Mapping[str, Any] | None,
    target: Any,
    work_dir: str | Path,
    max_trials_global: int,
    max_trials_per_task: int | None = None,
    op_names: Sequence[str] | None = None,
    *,
    num_trials_per_iter: int = 64,
    builder: Any = "local",
    runner: Any = "local",
    database: Any = "json",
    cost_model: Any = None,
    measure_callbacks: Any = "default",
    task_scheduler: Any = "gradient",
    space: Any = "post-order-apply",
    strategy: Any = _OURS,
    seed: int | None = None,
    module_equality: str = "structural",
    profile: HardwareProfile | str | None = None,
    config: EngineConfig | Mapping[str, object] | None = None,
    store: str | Path | None = None,
) -> Any:
    """Tune the kernels of a Relax program, as ``tvm.s_tir.meta_schedule.relax_integration.tune_relax`` does.

    Parameters, result and errors are those of `tune_tir`; the database is for ``compile_relax``.
    """
    _check(mod, (tvm.IRModule, tvm.relax.Function), "an IRModule or a Relax function", target, work_dir)
    made, ours, model = _prepared(target, strategy, cost_model, profile, config, store)
    with _logging_as_tvm_can():
        tuned = ms.relax_integration.tune_relax(
            mod,
            params,
            made,
            str(work_dir),
            max_trials_global,
            max_trials_per_task,
            op_names,
            num_trials_per_iter=num_trials_per_iter,
            builder=_builder(builder, "physical"),
            runner=runner,
            database=database,
            cost_model=model,
            measure_callbacks=measure_callbacks,
            task_scheduler=task_scheduler,
            space=space,
            strategy=ours,
            seed=seed,
            module_equality=module_equality,
        )
    _check_measured(ours, tuned, str(work_dir))
    return tuned


def _check(mod: Any, kinds: tuple[type, ...], expected: str, target: Any, work_dir: str | Path) -> None:
    """Raise ConfigError for what TVM would trip over half-way."""
    if not isinstance(mod, kinds):
        raise ConfigError("is no program", who="mod", got=f"{type(mod).__name__} {mod!r}"[:80], expected=expected)
    if target is None:
        raise ConfigError("there is none", who="target", got="None", expected="a Target, or text such as native")
    if not isinstance(work_dir, str | Path) or (Path(work_dir).exists() and not Path(work_dir).is_dir()):
        raise ConfigError("is no folder", who="work_dir", got=repr(work_dir), expected="a folder, or a new name")


def _prepared(
    target: Any,
    strategy: Any,
    cost_model: Any,
    profile: HardwareProfile | str | None,
    config: EngineConfig | Mapping[str, object] | None,
    store: str | Path | None,
) -> tuple[Any, Any, Any]:
    """TVM's target, strategy and cost model."""
    if profile is None and isinstance(target, str):
        profile = profile_of_device(target, ProfileRegistry().profiles())  # TVM forgets the name
    made = _target(target)
    if strategy != _OURS:
        if store is not None:
            raise ConfigError(
                "a store is of no use to another strategy", who="store", got=f"strategy {strategy}", expected=_OURS
            )
        return made, strategy, cost_model or PruneEngineCostModel(profile, config)
    return made, PruneEngineSearch(profile, config, store), cost_model or "none"


def _target(target: Any) -> Any:
    if not isinstance(target, str):
        return target
    is_own = target in _OWN_NAMES or target.startswith(DEVICE_PREFIX) or " " in target.strip()
    if not is_own:
        return make_target(target)
    from prune_engine.hardware.host import usable_cpus

    return make_target(json.loads(resolve_target(target, len(usable_cpus()))))


def _builder(builder: Any, n_workers: str | int) -> Any:
    """TVM's local builder, with processes that start in a second or two, in place of ten to twenty."""
    if builder != "local":
        return builder
    if not isinstance(n_workers, int):
        n_workers = int(ms.utils.cpu_count(logical=n_workers == "logical"))
    return ms.builder.LocalBuilder(max_workers=n_workers, initializer=prepare_builder)


@contextmanager
def _logging_as_tvm_can() -> Iterator[None]:
    """TVM sets up its log files by the names of its logger's handlers, and fails over one that has none."""
    logger = logging.getLogger(_TVM_LOGGER)
    nameless = [handler for handler in logger.handlers if handler.get_name() is None]
    for handler in nameless:
        logger.removeHandler(handler)
    try:
        yield
    finally:
        for handler in nameless:
            logger.addHandler(handler)


def _check_measured(strategy: Any, database: Any, work_dir: str) -> None:
    """Raise NothingMeasuredError where TVM measured without a single success."""
    counts = getattr(strategy, "counts", None)
    if counts is not None:
        n_failed, has_success, first_error = counts.n_failed, bool(counts.n_ran), counts.first_error
    else:  # somebody else's strategy: there is what it left behind
        records = database.get_all_tuning_records()
        n_failed, first_error = len(records), "no record with a latency"
        has_success = any(run_secs_of(record.run_secs) for record in records)
    if has_success or not n_failed:
        return
    raise NothingMeasuredError(
        f"not one of {n_failed} schedules could be built and run",
        who="tuning by MetaSchedule",
        got=first_error,
        remedy=f"The logs are in {work_dir}. Where builds took too long, give a LocalBuilder with a timeout_sec.",
    )
