"""A MetaSchedule search strategy that chooses by prune_engine's columns. Importing it imports TVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError, SearchStateError, SpaceError
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.metaschedule.embedded_device import (
    EmbeddedOptions,
    Remarks,
    postprocs_of,
    prepare_compiler,
    single_kernel,
)
from prune_engine.metaschedule.embedded_search import EmbeddedSearch, Found, Setting
from prune_engine.metaschedule.ffi_errors import register_errors
from prune_engine.metaschedule.materialise import SCHEDULE_ERRORS, last_line
from prune_engine.metaschedule.replaying import Predict
from prune_engine.store.base import Store
from prune_engine.store.open import open_store
from prune_engine.verdicts import Float64Array

prepare_compiler()
register_errors()

from tvm.ir.utils import derived_object  # noqa: E402 - TVM is prepared before it is looked into
from tvm.s_tir import meta_schedule as ms  # noqa: E402

_WHO = "PruneEngineSearch"
#: A store that lasts as long as the search: what is measured is kept in TVM's database anyway.
_IN_MEMORY = "sqlite://"


@dataclass(slots=True)
class TrialCounts:
    """Schedules that were given to TVM, and what its builder and runner made of them."""

    n_given: int = 0
    n_ran: int = 0
    n_failed: int = 0
    #: What the first failure was.
    first_error: str = ""


@dataclass(frozen=True, slots=True)
class _Shared:
    """What clones of a strategy have in common: TVM clones it for every task."""

    counts: TrialCounts
    remarks: Remarks


@derived_object
class PruneEngineSearch(ms.search_strategy.PySearchStrategy):  # type: ignore[misc]  # untyped base
    """Chooses what MetaSchedule measures, by the engine's rules, draft, verifier and selector.

    It takes the place of ``"evolutionary"`` in ``TuneContext(search_strategy=...)`` or ``tune_tir(strategy=...)``;
    builder, runner and database stay the user's. What the database has of the kernel for the same target is
    learnt first and never measured again. It gives at most ``max_trials`` schedules, none twice, and then None. A
    cost model is asked only about design spaces that cannot be read at all: schedules of these are drawn at
    random, as a remark says.

    Args:
        profile: a `HardwareProfile`, the name or file of one, or None for that of the target's device.
        config: options of the engine, an `EngineConfig` or a mapping of its options. Budgets, batch sizes and
            plateaus have no effect: TVM decides how much is measured. The seed is the context's unless given.
        store: a file or URL of a store to transfer schedules from and to keep measurements, verdicts and the best
            schedules in; None keeps them until the search ends. What ships with the engine is transferred from in
            any case, unless ``config`` says ``transfer=False``.
        device_name: what measurements are filed under in the store; None is this processor, or a GPU's profile.

    Raises ConfigError, on construction or when the context is set up, for what cannot be used.
    """

    def __init__(
        self,
        profile: HardwareProfile | str | None = None,
        config: EngineConfig | Mapping[str, object] | None = None,
        store: str | Path | None = None,
        device_name: str | None = None,
        *,
        _shared: _Shared | None = None,
    ) -> None:
        super().__init__()
        self._options = EmbeddedOptions.of(_WHO, profile, config, device_name)
        if store is not None and not isinstance(store, str | Path):
            raise ConfigError(
                "store is of the wrong type",
                who=_WHO,
                got=type(store).__name__,
                expected="a store's file or URL, or None",
            )
        self._store_url = None if store is None else str(store)
        self._shared = _shared or _Shared(TrialCounts(), Remarks())
        self._remarks = self._shared.remarks
        self._setting: Setting | None = None
        self._n_threads = 1
        self._search: EmbeddedSearch | None = None
        self._waiting: dict[int, Found] = {}
        self._n_left = self._n_per_iter = 0

    @property
    def counts(self) -> TrialCounts:
        """What was given to TVM so far, by this strategy and its clones."""
        return self._shared.counts

    def remarks(self) -> tuple[str, ...]:
        """What could not be done as asked, in sentences; clones of a strategy share them with it."""
        return self._remarks.sentences

    def _initialize_with_tune_context(self, context: Any) -> None:
        """Take what is needed of a context, and no reference to it: it owns this strategy."""
        if context.mod is None:
            raise ConfigError("the context has no module", who=_WHO, expected="a TuneContext with mod=...")
        self._setting = Setting(
            mod=context.mod,
            target=context.target,
            name=str(context.task_name or "main"),
            seed=int(context.rand_state),
            postprocs=tuple(postprocs_of(context.space_generator)),
        )

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Any],
        database: Any = None,
        cost_model: Any = None,
    ) -> None:
        """Read the design spaces, and what the database has. Raises SearchStateError if it was called before."""
        if self._search is not None:
            raise SearchStateError("pre_tuning was called twice", who=_WHO, remedy="Call post_tuning in between.")
        if self._setting is None:
            raise SearchStateError(
                "it belongs to no context", who=_WHO, expected="TuneContext(search_strategy=PruneEngineSearch(...))"
            )
        counts = (("max_trials", max_trials, 0), ("num_trials_per_iter", num_trials_per_iter, 1))
        for name, count, least in counts:
            if not _is_count(count, least):
                raise ConfigError("no number of trials", who=name, got=repr(count), expected=f"at least {least}")
        traces = [schedule.trace for schedule in design_spaces]
        if not traces or None in traces:
            raise SpaceError(
                "there is no design space",
                who=self._setting.name,
                got="a schedule without a trace" if traces else "an empty list",
                expected="schedules as TuneContext.generate_design_space makes them",
            )
        self._search = EmbeddedSearch(
            self._setting,
            traces,
            self._options,
            self._open_store,
            database,
            self._remarks,
            self._predict(cost_model),
        )
        self._n_left, self._n_per_iter = int(max_trials), int(num_trials_per_iter)
        if problem := _not_measurable(single_kernel(self._setting.mod)):
            self._remarks.say(f"{self._setting.name}: MetaSchedule cannot measure such a kernel: {problem}")
            self._n_left = 0

    def post_tuning(self) -> None:
        """Let go of what the search has in memory; the store has its best schedules, if there is one."""
        search = self._open("post_tuning")
        self._search, self._waiting = None, {}
        search.close()

    def generate_measure_candidates(self) -> list[Any] | None:
        """At most ``num_trials_per_iter`` schedules to measure; None where no more may be measured or are left."""
        search = self._open("generate_measure_candidates")
        found = search.next(min(self._n_per_iter, self._n_left)) if self._n_left else []
        if not found:
            return None
        self._n_left -= len(found)
        self.counts.n_given += len(found)
        self._waiting.update({_key(one.schedule): one for one in found})
        return [_measure_candidate(one.schedule) for one in found]

    def notify_runner_results(self, measure_candidates: Sequence[Any], results: Sequence[Any]) -> None:
        """Learn what came of candidates; those of others are passed over."""
        search = self._open("notify_runner_results")
        if len(measure_candidates) != len(results):
            raise SearchStateError(
                "not as many results as candidates",
                who=_WHO,
                got=f"{len(results)} results",
                expected=f"{len(measure_candidates)}",
            )
        for candidate, result in zip(measure_candidates, results, strict=True):
            found = self._waiting.pop(_key(candidate.sch), None)
            if found is not None:
                error = None if result.error_msg is None else str(result.error_msg)
                self._count(search.tell(found, [float(secs) for secs in result.run_secs or []], error))

    def clone(self) -> Any:
        """A strategy with the same options for another context."""
        options = self._options
        return PruneEngineSearch(
            options.profile, options.config, self._store_url, options.device_name, _shared=self._shared
        )

    def _count(self, error: str | None) -> None:
        counts = self.counts
        if error is None:
            counts.n_ran += 1
            return
        counts.n_failed += 1
        counts.first_error = counts.first_error or last_line(error)

    def _open(self, called: str) -> EmbeddedSearch:
        if self._search is None:
            raise SearchStateError(
                f"{called} was called outside a search", who=_WHO, remedy="Call pre_tuning before it."
            )
        return self._search

    def _open_store(self) -> Store:
        return open_store(self._store_url or _IN_MEMORY)

    def _predict(self, cost_model: Any) -> Predict | None:
        """What the user's model thinks of schedules, from TVM's own features."""
        if cost_model is None:
            return None
        assert self._setting is not None, "checked by the caller"
        setting = self._setting
        context = ms.TuneContext(
            mod=single_kernel(setting.mod), target=setting.target, task_name=setting.name, num_threads=1
        )

        def predict(schedules: Sequence[Any]) -> Float64Array:
            made = cost_model.predict(context, [_measure_candidate(one) for one in schedules])
            return np.asarray(made, dtype=np.float64)

        return predict


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _not_measurable(mod: Any) -> str:
    """Why TVM cannot make arguments for a kernel, such as shapes that are no numbers; empty if it can."""
    try:
        ms.arg_info.ArgInfo.from_entry_func(mod, remove_preproc=True)
    except SCHEDULE_ERRORS as error:
        return last_line(str(error))
    return ""


def _measure_candidate(schedule: Any) -> Any:
    info = ms.arg_info.ArgInfo.from_entry_func(schedule.mod, remove_preproc=True)
    return ms.MeasureCandidate(schedule, info)


def _key(schedule: Any) -> int:
    """The address of a schedule: what comes back of TVM is another wrapper of the same."""
    return int(schedule.__chandle__())
