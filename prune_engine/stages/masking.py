"""Stages 1 and 2: what the rules cut out of the choice tables, and which candidates they drop."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from prune_engine import contracts
from prune_engine.candidates import Candidate, CandidateBatch
from prune_engine.config import EngineConfig
from prune_engine.contracts import STRATEGY_FAILURES
from prune_engine.errors import PluginTimeoutError
from prune_engine.funnel import Funnel, FunnelStep
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.row_memory import RowMemory
from prune_engine.space import DesignSpace
from prune_engine.stages.pool import NOT_AUDITED, Auditee, Pool, joined
from prune_engine.stages.reasons import CandidateSymbols, reason_of
from prune_engine.stages.standing import Standing
from prune_engine.stages.survivors import Survivors
from prune_engine.stages.table_audits import TableAudits
from prune_engine.strategies import Rule
from prune_engine.verdicts import BoolArray, Outcome, RuleKind, Stage, Verdict

#: Candidates of which it is remembered what all rules say, 17 bytes each.
_MAX_REMEMBERED = 1 << 18


class Masking:
    """The rules in the engine's order: LEGALITY before HEURISTIC, then by declared order, then by name.

    It remembers the reason each rule gave for its first drop of each task: verdicts of one reason add up in a
    store, so a count has one reason for the whole run.
    """

    def __init__(
        self, rules: Sequence[Rule], profile: HardwareProfile, config: EngineConfig, standing: Standing
    ) -> None:
        """Order the rules, without those that the options disable."""
        active = [rule for rule in rules if rule.name not in config.disabled_rules]
        self._rules = sorted(active, key=lambda r: (r.kind is RuleKind.HEURISTIC, r.order, r.name))
        self._profile, self._config, self._standing = profile, config, standing
        self._table_audits = TableAudits()
        #: (rule, task) -> reason and evidence of the first candidate it dropped, and that candidate.
        self._first_reasons: dict[tuple[str, str], tuple[str, dict[str, float]]] = {}
        self._examples: dict[tuple[str, str], Candidate] = {}
        #: What the rules of that task keep, as long as those of the same names judge it.
        self._kept: tuple[tuple[str, tuple[str, ...]], RowMemory[np.bool_]] | None = None

    @property
    def heuristics(self) -> frozenset[str]:
        """The names of the rules that are guesses."""
        return frozenset(rule.name for rule in self._rules if rule.kind is RuleKind.HEURISTIC)

    def restrict(
        self,
        space: DesignSpace,
        funnel: Funnel | None = None,
        only: RuleKind | None = None,
        left: dict[str, DesignSpace] | None = None,
    ) -> tuple[DesignSpace, tuple[Verdict, ...]]:
        """Stage 1: cut rows out of the choice tables; one verdict per rule that cut something.

        ``funnel`` is given a step for each rule that overrides ``restrict``; with ``only`` no rule of another kind
        is asked. ``left`` is given what each rule that cut something leaves of the space, in order.
        """
        verdicts: list[Verdict] = []
        task_id = space.task.task_id
        for rule in self._rules:
            if type(rule).restrict is Rule.restrict or not self._standing.is_used(rule, task_id):
                continue
            if only is not None and rule.kind is not only:
                continue
            started = time.perf_counter()
            try:
                cut = self._standing.ask(rule, rule.restrict, space, self._profile)
                smaller = space
                if cut is not None:
                    smaller = space.restrict(contracts.check_restriction(rule.name, cut, space))
            except STRATEGY_FAILURES as error:  # the plugin boundary: recorded, not swallowed
                self._standing.set_aside(rule, error)
                continue
            seconds = time.perf_counter() - started
            if funnel is not None:
                step = FunnelStep(Stage.TASK_SPACE, rule.name, space.size, smaller.size, seconds, rule.kind)
                funnel.add(step)
            if smaller.size < space.size:
                if rule.kind is RuleKind.HEURISTIC:
                    self._table_audits.note(task_id, rule.name, space, smaller)
                evidence = {"size_before": float(space.size), "size_after": float(smaller.size)}
                dropped = min(space.size - smaller.size, 2**62)
                reason, _ = self._reason(rule, {})
                verdicts.append(
                    Verdict(Stage.TASK_SPACE, rule.name, Outcome.DROPPED, reason, dropped, None, evidence)
                )
                if left is not None:
                    left[rule.name] = smaller
            space = smaller
        return space, tuple(verdicts)

    def cutting(self, task_id: str) -> frozenset[str]:
        """The names of the guesses that cut rows out of a task's choice tables and still judge it."""
        used = {rule.name for rule in self._rules if self._standing.is_used(rule, task_id)}
        return self._table_audits.rules(task_id) & used

    def judge(
        self, batch: CandidateBatch, funnel: Funnel | None = None, drops: dict[str, BoolArray] | None = None
    ) -> tuple[BoolArray, BoolArray]:
        """Stage 2 without audits: what the LEGALITY rules keep, and what all rules keep, bool (n,) each.

        ``funnel`` is given a step for each rule that masks and had anything left to judge, ``drops`` what each rule
        that dropped something dropped, bool (n,). With a funnel `first_reason` knows why, afterwards.
        """
        alive, survivors = np.ones(len(batch), dtype=np.bool_), Survivors(batch)
        legal = alive
        for rule in self._used(batch):
            n_in = int(alive.sum())
            if not n_in:
                break
            started = time.perf_counter()
            dropped = self._dropped_by(rule, survivors, alive)
            alive = alive & ~dropped
            took = time.perf_counter() - started
            if drops is not None and dropped.any():
                drops[rule.name] = dropped
            if funnel is not None:
                if dropped.any():
                    self._remember_reason(rule, batch, int(dropped.argmax()))
                funnel.add(FunnelStep(Stage.RULE, rule.name, n_in, int(alive.sum()), took, rule.kind))
            legal = alive if rule.kind is RuleKind.LEGALITY else legal
        return legal, alive

    def kept(self, batch: CandidateBatch) -> BoolArray:
        """What all rules keep, bool (n,), as ``judge`` says: most candidates are asked about in every round."""
        key = batch.space.task.task_id, tuple(rule.name for rule in self._used(batch))
        if self._kept is None or self._kept[0] != key:
            self._kept = key, RowMemory(_MAX_REMEMBERED)
        return self._kept[1].of(batch, lambda part: self.judge(part)[1][:, None])[:, 0]

    def table_audits(
        self, proposals: Sequence[CandidateBatch], n: int, rng: np.random.Generator
    ) -> list[tuple[str, CandidateBatch]]:
        """At most ``n`` candidates with a row that a HEURISTIC rule cut out of a table, by the rule's name."""
        if not proposals:
            return []
        task_id = proposals[0].space.task.task_id
        used = {rule.name for rule in self._rules if self._standing.is_used(rule, task_id)}
        return self._table_audits.draw(proposals, n, rng, used)

    def mask(
        self,
        batches: Sequence[CandidateBatch],
        cut_by: Sequence[str],
        n_probes: int,
        rng: np.random.Generator,
        verdicts: list[Verdict],
        funnel: Funnel,
        *,
        may_overrule: bool = False,
    ) -> tuple[Pool, str | None]:
        """Stage 2: the first ``n_probes`` batches are probes, which pass heuristics, never a LEGALITY rule.

        So do the last ones, which audit the rules named by ``cut_by``, in that order. Where ``may_overrule`` and
        heuristics leave nothing of the other batches, what the last of them dropped is kept, and it is named.
        """
        masked: list[tuple[BoolArray, NDArray[np.int64]]] = []
        #: What heuristics dropped, by rule and number of the batch.
        guessed: dict[str, dict[int, BoolArray]] = {}
        n_dropped: Counter[str] = Counter()
        auditees: list[Auditee] = [(Stage.RULE, rule.name) for rule in self._rules]
        n_ordinary = len(batches) - len(cut_by)
        for number, batch in enumerate(batches):
            alive, survivors = np.ones(len(batch), dtype=np.bool_), Survivors(batch)
            audit = np.full(len(batch), NOT_AUDITED)
            if number >= n_ordinary:
                audit[:] = len(auditees)
                auditees.append((Stage.TASK_SPACE, cut_by[number - n_ordinary]))
            for rule in self._used(batch):
                is_guess = rule.kind is RuleKind.HEURISTIC
                n_in = int(alive.sum())
                if not n_in or (is_guess and not n_probes <= number < n_ordinary):
                    continue
                started = time.perf_counter()
                dropped = self._dropped_by(rule, survivors, alive)
                seconds = time.perf_counter() - started
                alive &= ~dropped
                n_out, n_audits = int(alive.sum()), 0
                if n_out < n_in:
                    self._remember_reason(rule, batch, int(dropped.argmax()))
                if is_guess and n_out < n_in:  # a share of what a guess drops is measured all the same
                    spared = dropped & (rng.random(len(batch)) < self._config.audit_fraction)
                    audit[spared] = auditees.index((Stage.RULE, rule.name))
                    dropped &= ~spared
                    n_audits = int(spared.sum())
                    guessed.setdefault(rule.name, {})[number] = dropped
                n_dropped[rule.name] += int(dropped.sum())
                funnel.add(FunnelStep(Stage.RULE, rule.name, n_in, n_out, seconds, rule.kind, n_audits))
            masked.append((alive, audit))
        overruled = None
        if may_overrule and guessed and not any(alive.any() for alive, _ in masked[n_probes:n_ordinary]):
            overruled = self._overruled(guessed, masked, n_dropped, funnel)
        for alive, audit in masked[:n_ordinary]:
            alive |= audit != NOT_AUDITED
        kept = [
            batch if alive.all() else batch.take(alive) for batch, (alive, _) in zip(batches, masked, strict=True)
        ]
        audits = [audit[alive] for alive, audit in masked]
        for name, n in n_dropped.items():
            if n:
                reason, evidence = self._first_reasons[name, batches[0].space.task.task_id]
                verdicts.append(Verdict(Stage.RULE, name, Outcome.DROPPED, reason, n, None, evidence))
        return joined(kept, audits, n_probes, auditees), overruled

    def _overruled(
        self,
        guessed: Mapping[str, Mapping[int, BoolArray]],
        masked: Sequence[tuple[BoolArray, NDArray[np.int64]]],
        n_dropped: Counter[str],
        funnel: Funnel,
    ) -> str | None:
        """Take back what one heuristic dropped: the last that did, as all before it kept that. Returns its name."""
        for rule in reversed(self._rules):
            dropped = guessed.get(rule.name, {})
            n = sum(int(part.sum()) for part in dropped.values())
            if n:
                for number, part in dropped.items():
                    masked[number][0][part] = True
                n_dropped[rule.name] -= n
                funnel.add(FunnelStep(Stage.RULE, rule.name, 0, n, 0.0, rule.kind))
                return rule.name
        return None

    def why_dropped(
        self, stage: Stage, rule_name: str, batch: CandidateBatch, row: int
    ) -> tuple[str, dict[str, float]] | None:
        """The reason and the evidence of a rule for a candidate, or a row of it; None if there is no such rule."""
        for rule in self._rules:
            if rule.name == rule_name:
                symbols = {} if stage is Stage.TASK_SPACE else CandidateSymbols(batch, row)
                return self._reason(rule, symbols)
        return None

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, in the order in which they are asked."""
        return tuple(self._rules)

    def rule(self, name: str) -> Rule | None:
        """The rule of that name, None if there is none."""
        return next((rule for rule in self._rules if rule.name == name), None)

    def example(self, rule_name: str, task_id: str) -> Candidate | None:
        """The first candidate of a task that a rule dropped: the reason of its verdicts is that of this one."""
        return self._examples.get((rule_name, task_id))

    def first_reason(self, rule_name: str, task_id: str) -> str | None:
        """Why a rule dropped the first candidate of a task that it dropped; None if it dropped none."""
        found = self._first_reasons.get((rule_name, task_id))
        return found[0] if found else None

    def table_reason(self, rule_name: str) -> str | None:
        """Why a rule cuts rows out of choice tables; None if there is no such rule."""
        rule = self.rule(rule_name)
        return self._reason(rule, {})[0] if rule else None

    def _used(self, batch: CandidateBatch) -> list[Rule]:
        """The rules that mask candidates of this batch's task."""
        task_id = batch.space.task.task_id
        masking = [rule for rule in self._rules if type(rule).mask is not Rule.mask]
        return [rule for rule in masking if self._standing.is_used(rule, task_id)]

    def _remember_reason(self, rule: Rule, batch: CandidateBatch, row: int) -> None:
        """Note why a rule dropped a candidate, if it is the first of the task that it drops."""
        key = rule.name, batch.space.task.task_id
        if key not in self._first_reasons:
            self._first_reasons[key] = self._reason(rule, CandidateSymbols(batch, row))
            self._examples[key] = batch.candidate(row)

    def _reason(self, rule: Rule, symbols: Mapping[str, float]) -> tuple[str, dict[str, float]]:
        """A rule's reason and what it read, or just its name if it cannot say: its mask holds all the same."""
        try:
            return self._standing.ask(rule, reason_of, rule, symbols, self._profile)
        except STRATEGY_FAILURES as error:  # the plugin boundary: recorded, not swallowed
            # One that hangs would hang for every task; its mask, which came back, is not worth that.
            report = (
                self._standing.set_aside if isinstance(error, PluginTimeoutError) else self._standing.on_failure
            )
            report(rule, error)
            return rule.name, {}

    def _dropped_by(self, rule: Rule, survivors: Survivors, alive: BoolArray) -> BoolArray:
        part = survivors.narrow(alive)
        try:
            mask = self._standing.ask(rule, rule.mask, part, self._profile)
            mask = contracts.check_mask(rule.name, mask, len(part))
        except STRATEGY_FAILURES as error:  # the plugin boundary: recorded, not swallowed
            self._standing.set_aside(rule, error)
            return np.zeros(len(alive), dtype=np.bool_)
        return alive & ~survivors.spread(mask)
