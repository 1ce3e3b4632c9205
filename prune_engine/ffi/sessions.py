"""Strategies on one space: masks and scores of batches that come from outside, and whole searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prune_engine import contracts
from prune_engine.candidates import CandidateBatch, SeenRows, rows_of
from prune_engine.config import EngineConfig
from prune_engine.contracts import STRATEGY_FAILURES
from prune_engine.enumeration import all_batches
from prune_engine.errors import PluginContractError, PruneEngineError, SpaceError
from prune_engine.ffi.table_spaces import with_columns, work_out
from prune_engine.funnel import Funnel, FunnelStep
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.pipeline import Pipeline
from prune_engine.space import DesignSpace, Int32Array
from prune_engine.stages.reasons import CandidateSymbols, reason_of
from prune_engine.stages.standing import as_contract_error, problem_of
from prune_engine.strategies import Explorer, Rule, Strategy
from prune_engine.strategy_set import Strategies
from prune_engine.verdicts import BoolArray, Float64Array, Outcome, RuleKind, Stage, Verdict

#: Bits of a candidate's flags.
LEGAL, KEPT = 1, 2
#: Rows judged at a time, so that memory stays flat.
_CHUNK = 1 << 16
_IN_TABLES = "has a row that a rule cut out of its choice table"


@dataclass(frozen=True, slots=True)
class Kept:
    """A candidate worth measuring, row ``row`` of a batch. ``latency_secs`` is None where no draft tells it."""

    batch: CandidateBatch
    row: int
    score: float
    latency_secs: float | None


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a search left, best first, and why the rest is not in it; ``left_out`` are strategies that failed."""

    kept: tuple[Kept, ...]
    verdicts: tuple[Verdict, ...]
    funnel: tuple[FunnelStep, ...]
    n_proposed: int
    left_out: dict[str, str] = field(default_factory=dict)


class Session:
    """The strategies of a profile on one space. What they know of other spaces is theirs."""

    def __init__(
        self,
        space: DesignSpace,
        strategies: Strategies,
        profile: HardwareProfile,
        config: EngineConfig,
        *,
        is_own: bool,
    ) -> None:
        """Restrict the space: what LEGALITY rules leave of it, and what all rules do."""
        self._strategies, self._profile, self._config, self._is_own = strategies, profile, config, is_own
        self.left_out: dict[str, str] = {}
        self.space = space
        self._pipeline = self._made(config)
        self._legal, _ = self._pipeline.restrict(space, only=RuleKind.LEGALITY)
        self._funnel = Funnel()
        self.restricted, self._cuts = self._pipeline.restrict(space, self._funnel)

    def flags(self, sketch: int, rows: Int32Array, columns: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
        """LEGAL where no sound rule drops a candidate, KEPT beside it where no rule at all does: uint8 (n,).

        Candidates are ``rows``, int32 (n, v), of a sketch's tables; ``columns`` are symbols (n,) that come along.
        """
        batch = self._asked(sketch, rows, columns)
        flags = np.zeros(len(batch), dtype=np.uint8)
        for part, chunk in _chunks(batch):
            legal, kept = self._judged(chunk)
            flags[part] = LEGAL * legal + KEPT * kept
        return flags

    def scores(self, sketch: int, rows: Int32Array, columns: Mapping[str, NDArray[Any]]) -> Float64Array:
        """What a search may climb on, float64 (n,), >= 0: 0 where a rule drops a candidate, else the draft's score.

        That is 1 / predicted seconds; equal ones without a draft, or where TVM's sketch could not be read.
        Arguments as of `flags`.

        Raises SpaceError where nothing tells candidates of a space of one's own apart, PluginContractError for a
        draft that fails.
        """
        return self._scores(self._asked(sketch, rows, columns))

    def _scores(self, batch: CandidateBatch) -> Float64Array:
        scores = np.zeros(len(batch))
        for rows, chunk in _chunks(batch):
            _, kept = self._judged(chunk)
            alive = chunk if kept.all() else chunk.take(kept)
            if len(alive):
                scores[rows][kept] = self._drafted(alive)[0]
        return scores

    def search(self, count: int, explore_size: int, seed: int) -> Pruned:
        """Keep the best ``count`` by the draft of what the explorer finds, or of all where that is not more.

        Raises PluginContractError for an explorer that fails.
        """
        explorer, rng = self._strategies.explorer, np.random.default_rng(seed)
        if not self.restricted.size:
            return Pruned((), self._cuts, self._funnel.steps, 0, dict(self.left_out))
        batches: Sequence[CandidateBatch]
        if self.restricted.size <= explore_size:  # all there are, so that every drop is told of
            batches = list(all_batches(self.restricted, explore_size))
        else:
            batches = self._explored(explorer, explore_size, rng)
        found = self._pruned(batches, count, rng)
        return replace(found, verdicts=(*self._cuts, *found.verdicts), funnel=(*self._funnel.steps, *found.funnel))

    def _explored(self, explorer: Explorer, n: int, rng: np.random.Generator) -> Sequence[CandidateBatch]:
        try:
            proposed = self._pipeline.ask(explorer, explorer.propose, self.restricted, n, self._fitness, rng)
        except PruneEngineError:  # a formula of the caller's, or the draft's
            raise
        except STRATEGY_FAILURES as error:  # the plugin boundary: told as the plugin's
            raise as_contract_error(explorer, error) from error
        return contracts.check_batches(explorer.name, proposed, self.restricted)

    def choose(self, batches: Sequence[CandidateBatch], count: int, seed: int) -> Pruned:
        """Keep the best ``count`` of given candidates by the draft."""
        inside, verdicts = [], []
        for batch in batches:
            allowed = self.restricted.sketches[batch.sketch.index].allows(batch.indices)
            if n_cut := int((~allowed).sum()):
                rules = ", ".join(verdict.strategy for verdict in self._cuts)
                reason = f"{_IN_TABLES} ({rules})"
                verdicts.append(Verdict(Stage.TASK_SPACE, "engine", Outcome.DROPPED, reason, n_cut))
            inside.append(self._batch(self.restricted, batch).take(allowed))
        found = self._pruned(inside, count, np.random.default_rng(seed))
        return replace(found, verdicts=(*verdicts, *found.verdicts), n_proposed=sum(map(len, batches)))

    def _pruned(self, batches: Sequence[CandidateBatch], count: int, rng: np.random.Generator) -> Pruned:
        for batch in batches if self._is_own else ():
            work_out(batch)
        config = self._config.model_copy(update={"draft_size": max(self._config.draft_size, 2 * count)})
        # A pipeline of its own: what it remembers of first reasons is this search's.
        pipeline = self._made(config)
        pipeline.restrict(self.space)
        result = pipeline.run(batches, [], count, SeenRows(), rng, may_add_audits=False)
        rows: dict[int, list[Int32Array]] = {}
        for candidate in result.candidates:
            found = rows_of(self.restricted.sketches[candidate.sketch_index], candidate.decisions)
            assert found is not None  # the candidate was made of such rows
            rows.setdefault(candidate.sketch_index, []).append(found)
        kept: list[Kept] = []
        for number, part in rows.items():
            batch = CandidateBatch(self.restricted, self.restricted.sketches[number], np.stack(part))
            scores, secs = self._drafted(batch)
            latencies = [None] * len(batch) if secs is None else secs.tolist()
            kept += [Kept(batch, i, float(scores[i]), latencies[i]) for i in range(len(batch))]
        kept.sort(key=lambda one: -one.score)
        return Pruned(tuple(kept), result.verdicts, result.funnel, result.n_proposed, dict(self.left_out))

    def objections(self, given: CandidateBatch) -> list[Verdict | None]:
        """What drops each candidate of the unrestricted space: the first rule in the engine's order; None for none.

        For few candidates: each reason is asked for by itself.
        """
        batch = self._batch(self.space, given)
        found: list[Verdict | None] = [None] * len(batch)
        open_rows = np.ones(len(batch), dtype=np.bool_)
        for rule in self._pipeline.rules:
            if not self._pipeline.is_active(rule):
                continue
            for stage, keeps in ((Stage.TASK_SPACE, self._uncut), (Stage.RULE, self._unmasked)):
                dropped = open_rows & ~keeps(rule, batch)
                for row in np.flatnonzero(dropped).tolist():
                    symbols = {} if stage is Stage.TASK_SPACE else CandidateSymbols(batch, row)
                    reason, evidence = self._pipeline.ask(rule, reason_of, rule, symbols, self._profile)
                    identity = batch.candidate(row).candidate_id
                    found[row] = Verdict(stage, rule.name, Outcome.DROPPED, reason, 1, identity, evidence)
                open_rows &= ~dropped
        return found

    def _uncut(self, rule: Rule, batch: CandidateBatch) -> BoolArray:
        """Which candidates have no row that the rule cuts out of a table."""
        cut = None
        if type(rule).restrict is not Rule.restrict:
            cut = self._pipeline.ask(rule, rule.restrict, self.space, self._profile)
        keep = np.ones(len(batch), dtype=np.bool_)
        for (sketch, variable), allowed in (cut.keep if cut else {}).items():
            if sketch == batch.sketch.index:
                keep &= allowed[batch.indices[:, variable]]
        return keep

    def _unmasked(self, rule: Rule, batch: CandidateBatch) -> BoolArray:
        if type(rule).mask is Rule.mask:
            return np.ones(len(batch), dtype=np.bool_)
        return self._pipeline.ask(rule, rule.mask, batch, self._profile)

    def _asked(self, sketch: int, rows: Int32Array, columns: Mapping[str, NDArray[Any]]) -> CandidateBatch:
        """Candidates of the unrestricted space."""
        batch = CandidateBatch(self.space, self.space.sketches[sketch], rows)
        return with_columns(batch, columns) if columns else batch

    def _fitness(self, batch: CandidateBatch) -> Float64Array:
        return self._scores(self._batch(self.space, batch))

    def _batch(self, space: DesignSpace, batch: CandidateBatch) -> CandidateBatch:
        """The same candidates in the space as all rules, or none, left it."""
        return CandidateBatch(space, space.sketches[batch.sketch.index], batch.indices)

    def _judged(self, batch: CandidateBatch) -> tuple[BoolArray, BoolArray]:
        if self._is_own:
            work_out(batch)
        legal, kept = self._pipeline.judge(batch)
        number = batch.sketch.index
        if self._legal is not self.space:
            legal = legal & self._legal.sketches[number].allows(batch.indices)
        if self.restricted is not self.space:
            kept = kept & self.restricted.sketches[number].allows(batch.indices)
        return legal, kept & legal

    def _drafted(self, batch: CandidateBatch) -> tuple[Float64Array, Float64Array | None]:
        drafted = self._pipeline.scoring.draft(batch)
        self._pipeline.scoring.forget()  # of a batch whose memory is the caller's
        name = self._config.draft_scorer
        if drafted is None:
            if name is None:
                return np.ones(len(batch)), None
            raise PluginContractError(
                "the draft failed", who=f"strategy {name}", got=self.left_out.get(name), remedy="Use another draft."
            )
        if (
            self._is_own
            and name is not None
            and drafted.latency_secs is None
            and len(np.unique(drafted.scores)) < 2
        ):
            raise SpaceError(
                f"the draft {name} cannot tell its candidates apart",
                who=f"space {self.space.task.name!r}",
                got="symbols " + (", ".join(sorted(self.space.given)) or "none"),
                expected="symbols that the draft reads, such as flops_total and traffic_dram_bytes",
                remedy="Declare them, or ask MaskCandidates alone.",
            )
        return drafted.scores, drafted.latency_secs

    def _made(self, config: EngineConfig) -> Pipeline:
        return Pipeline(
            rules=self._strategies.rules,
            draft_scorer=self._strategies.draft_scorer,
            verifier=None,
            selector=self._strategies.selector,
            profile=self._profile,
            config=config,
            on_failure=self._failed,
        )

    def _failed(self, strategy: Strategy, error: BaseException) -> None:
        self.left_out[strategy.name] = problem_of(strategy, error)


def _chunks(batch: CandidateBatch) -> list[tuple[slice, CandidateBatch]]:
    if len(batch) <= _CHUNK:
        return [(slice(None), batch)]
    starts = range(0, len(batch), _CHUNK)
    return [(slice(at, at + _CHUNK), batch.take(np.arange(at, min(at + _CHUNK, len(batch))))) for at in starts]
