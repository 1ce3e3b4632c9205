"""The beginning of a task: its design space, and what the rules cut out of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.config import NAMED_PRIORS, EngineConfig
from prune_engine.errors import SpaceError
from prune_engine.loop.task_state import TaskState
from prune_engine.measurement import Workbench
from prune_engine.pipeline import Pipeline
from prune_engine.symbols.table import SymbolDef
from prune_engine.verdicts import Verdict


class Opener:
    """Gives tasks their spaces. ``symbols`` are those that strategies may ask for, by name."""

    def __init__(
        self,
        config: EngineConfig,
        workbench: Workbench,
        pipeline: Pipeline,
        symbols: Mapping[str, SymbolDef],
        tell: Callable[[TaskState, Sequence[Verdict]], None],
    ) -> None:
        self._config, self._workbench, self._pipeline = config, workbench, pipeline
        self._symbols, self._tell = symbols, tell

    def open(self, state: TaskState) -> None:
        """Generate a task's space and restrict it. A task that has none, or nothing to choose, is closed."""
        try:
            space = self._workbench.design_space(state.task)
        except SpaceError as error:
            state.stop_reason = "no_space"
            state.failure_examples["space"] = str(error)
            return
        state.full_size = space.size
        if not space.has_choices:
            state.stop_reason = "nothing_to_tune"
            return
        state.full_space = replace(space, symbols=self._symbols)
        state.space, verdicts = self._pipeline.restrict(state.full_space)
        state.audits.add_cuts(verdicts, self._pipeline.heuristics)
        if verdicts:
            self._tell(state, verdicts)

    def try_prior(self, states: Sequence[TaskState]) -> None:
        """Meet a prior that the verifier cannot use before anything is measured, not after."""
        space = next((state.space for state in states if state.space is not None), None)
        if space is not None and self._config.prior not in NAMED_PRIORS:
            sketch = space.sketches[0]
            nothing = np.empty((0, len(sketch.variables)), dtype=np.int32)
            self._pipeline.scoring.verify(CandidateBatch(space, sketch, nothing))
