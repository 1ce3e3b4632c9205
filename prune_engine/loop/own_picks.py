"""What the engine itself thinks best of a task, in runs that transfer schedules and measure few or none."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from prune_engine.candidates import Candidate, CandidateBatch, rows_of
from prune_engine.config import EngineConfig
from prune_engine.loop.sources import Sources
from prune_engine.loop.task_state import TaskState
from prune_engine.measurement import Workbench
from prune_engine.pipeline import Pipeline, PruneResult

#: Measured at a time: what few measurements teach is worth more than a round costs.
_BATCH_SIZE = 4
#: Picks of which one may ship unmeasured: the compiler may refuse the first.
_N_UNMEASURED = 4
#: By which factor the draft must think a pick faster than a seed.
_MARGIN = 1.25


class OwnPicks:
    """Stages 1 to 5 without anything that only teaches: so few measurements leave none for probes and audits.

    A share of ``transfer_search_share`` of a task's measurements is for them, and what seeds leave over.
    """

    def __init__(
        self,
        sources: Sources,
        pipeline: Pipeline,
        config: EngineConfig,
        workbench: Workbench,
        rng: np.random.Generator,
    ) -> None:
        self._sources, self._pipeline, self._config = sources, pipeline, config
        self._workbench, self._rng = workbench, rng

    @property
    def n_seeds(self) -> int:
        """How many of a task's measurements are left to seeds: all but the share, and one at least of any."""
        n_trials, share = self._config.transfer_trials, self._config.transfer_search_share
        if not self._config.transfer_only:
            return n_trials
        return min(n_trials, max(1, n_trials - int(n_trials * share)))

    @property
    def why_closed(self) -> str:
        """Why a task is closed after the last of its measurements."""
        return "measurements" if self._config.transfer_search_share else "no_seeds_left"

    def batch(self, state: TaskState, k: int) -> PruneResult | None:
        """At most ``k`` candidates to measure now; None when the task's measurements are used up."""
        left = self._config.transfer_trials - state.n_trials
        if not self._config.transfer_search_share or left <= 0:
            return None
        return self.best(state, min(k, left, _BATCH_SIZE))

    def ranked_with(self, state: TaskState, seed: Candidate | None) -> list[Candidate]:
        """What could ship unmeasured, the most promising first: a seed, and a few own picks if there is a share.

        An own pick comes before the seed if the draft thinks it faster by a margin: a seed was fast once, where the
        draft only thinks so.
        """
        picks = self.best(state, _N_UNMEASURED).candidates if self._config.transfer_search_share else ()
        known = {pick.candidate_id: self._promised_secs(state, pick) for pick in picks}
        order = sorted(picks, key=lambda pick: known[pick.candidate_id])
        if seed is not None:
            secs = self._promised_secs(state, seed)
            n_before = sum(known[pick.candidate_id] * _MARGIN < secs < math.inf for pick in order)
            order.insert(n_before, seed)
        return order

    def best(self, state: TaskState, k: int) -> PruneResult:
        """The ``k`` best of what was not measured, best first as far as the selector keeps to that."""
        assert state.space is not None, "only open tasks get here"
        return self._pipeline.run(
            self._sources.proposals(state),
            [],
            k,
            state.seen,
            self._rng,
            partial(self._workbench.refusal, state.space),
            may_add_audits=False,
            max_audits=0,
        )

    def _promised_secs(self, state: TaskState, candidate: Candidate) -> float:
        """The draft's latency of one candidate, infinite where it has none."""
        space = state.bench_space
        sketch = space.sketches[candidate.sketch_index]
        rows = rows_of(sketch, candidate.decisions)
        if rows is None:
            return math.inf
        drafted = self._pipeline.scoring.draft(CandidateBatch(space, sketch, rows[None, :]))
        self._pipeline.scoring.forget()
        return math.inf if drafted is None or drafted.latency_secs is None else float(drafted.latency_secs[0])
