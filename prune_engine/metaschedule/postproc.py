"""A MetaSchedule post-processor that refuses what prune_engine's rules drop. Importing it imports TVM."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError
from prune_engine.funnel import Funnel
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.metaschedule.embedded_device import EmbeddedOptions, Remarks, postprocs_of, prepare_compiler
from prune_engine.metaschedule.embedded_judge import Judge, JudgedTask, is_reading
from prune_engine.metaschedule.ffi_errors import register_errors
from prune_engine.space import Int32Array
from prune_engine.stages.reasons import CandidateSymbols, reason_of
from prune_engine.strategies import Rule
from prune_engine.verdicts import RuleKind

prepare_compiler()
register_errors()

from tvm.ir.utils import derived_object  # noqa: E402 - TVM is prepared before it is looked into
from tvm.s_tir import meta_schedule as ms  # noqa: E402

_WHO = "PruneEnginePostproc"
#: Verdicts on candidates of a task that are kept: TVM's evolution meets many again.
_MAX_KNOWN = 1 << 16


@dataclass(slots=True)
class RefusalCounts:
    """What became of the candidates that were judged. ``n_unread`` of those that were kept could not be read.

    ``refused`` counts them by the rule that dropped them; ``reasons`` says why, of the first of each rule.
    """

    n_kept: int = 0
    n_unread: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def n_refused(self) -> int:
        """How many were refused."""
        return sum(self.refused.values())


@dataclass(frozen=True, slots=True)
class _Shared:
    """What clones of a post-processor have in common: TVM clones it for every task."""

    counts: RefusalCounts
    remarks: Remarks
    judges: dict[str, Judge]
    lock: Any


@derived_object
class PruneEnginePostproc(ms.postproc.PyPostproc):  # type: ignore[misc]  # untyped base
    """Refuses candidates that cannot run on a device by its profile, before anything is built of them.

    Put it in front of TVM's own, ``postprocs=[PruneEnginePostproc(), *ms.Postproc.create("cuda")]``: it judges a
    replayed schedule, which has no post-processing yet, in about a millisecond, and one that it met before in a
    tenth of that. What cannot be read is kept.

    Args:
        profile: a `HardwareProfile`, the name or file of one, or None for that of the target's device.
        config: options of the engine, an `EngineConfig` or a mapping of its options.
        heuristics: which rules that are guesses refuse as well: none, all (True), or those named.

    ``counts`` and ``remarks()`` tell of all clones together. Raises ConfigError, on construction or when the
    context is set up, for what cannot be used.
    """

    def __init__(
        self,
        profile: HardwareProfile | str | None = None,
        config: EngineConfig | Mapping[str, object] | None = None,
        heuristics: bool | Sequence[str] = False,
        *,
        _shared: _Shared | None = None,
    ) -> None:
        super().__init__()
        self._options = EmbeddedOptions.of(_WHO, profile, config)
        if not isinstance(heuristics, bool) and (
            isinstance(heuristics, str)
            or not isinstance(heuristics, Iterable)
            or not all(isinstance(name, str) for name in heuristics)
        ):
            raise ConfigError(
                "heuristics is of the wrong type",
                who=_WHO,
                got=repr(heuristics),
                expected="True, False or names of rules in a list",
            )
        self._heuristics = heuristics if isinstance(heuristics, bool) else tuple(heuristics)
        self._shared = _shared or _Shared(RefusalCounts(), Remarks(), {}, threading.RLock())
        self._judge: Judge | None = None
        self._task: JudgedTask | None = None
        self._known: dict[tuple[int, bytes], str | None] = {}

    @property
    def counts(self) -> RefusalCounts:
        """What was kept and what was refused so far."""
        return self._shared.counts

    def remarks(self) -> tuple[str, ...]:
        """What could not be done as asked, in sentences."""
        return self._shared.remarks.sentences

    def _initialize_with_tune_context(self, context: Any) -> None:
        """Load the rules for the context's target. Raises ConfigError."""
        with self._shared.lock:
            key = str(context.target)
            if key not in self._shared.judges:
                judge = Judge(context.target, self._options, self._shared.remarks, wants=self._wants)
                self._check_names(judge)
                self._shared.judges[key] = judge
            self._judge = self._shared.judges[key]
            self._known.clear()
            self._task = None
            if context.mod is not None:
                others = postprocs_of(context.space_generator)
                self._task = self._judge.task(context.mod, str(context.task_name or "main"), others)

    def apply(self, sch: Any) -> bool:
        """Whether a schedule may run, by the rules."""
        if is_reading():
            return True
        with self._shared.lock:
            counts = self._shared.counts
            found = None if self._task is None else self._task.find(sch.trace)
            if found is None:
                counts.n_unread += 1
                counts.n_kept += 1
                return True
            key = found[0], found[1].tobytes()
            if key not in self._known:
                if len(self._known) >= _MAX_KNOWN:
                    self._known.clear()
                self._known[key] = self._dropped_by(*found)
            rule = self._known[key]
            if rule is None:
                counts.n_kept += 1
                return True
            counts.refused[rule] += 1
            return False

    def clone(self) -> Any:
        """A post-processor with the same options for another context."""
        options = self._options
        return PruneEnginePostproc(options.profile, options.config, self._heuristics, _shared=self._shared)

    def _wants(self, rule: Rule) -> bool:
        if rule.kind is RuleKind.LEGALITY or isinstance(self._heuristics, bool):
            return rule.kind is RuleKind.LEGALITY or bool(self._heuristics)
        return rule.name in self._heuristics

    def _check_names(self, judge: Judge) -> None:
        named = () if isinstance(self._heuristics, bool) else self._heuristics
        if unknown := set(named) - {rule.name for rule in judge.pipeline.rules}:
            raise ConfigError(
                "unknown rule",
                who=f"{_WHO}, heuristics",
                got=", ".join(sorted(unknown)),
                expected="names that `prune-engine policy show` lists",
            )

    def _dropped_by(self, number: int, rows: Int32Array) -> str | None:
        """The rule that drops a candidate; None if none does."""
        assert self._judge is not None, "it has a task"
        assert self._task is not None, "checked by the caller"
        batch, funnel = self._task.batch(number, rows[None, :]), Funnel()
        _, keep = self._judge.pipeline.judge(batch, funnel)
        if keep[0]:
            return None
        name = next(step.strategy for step in funnel.steps if step.n_out < step.n_in)
        rule = self._judge.pipeline.rule(name)
        if rule is not None and name not in self._shared.counts.reasons:
            reason, _ = reason_of(rule, CandidateSymbols(batch, 0), self._judge.device.profile)
            self._shared.counts.reasons[name] = reason
        return name
