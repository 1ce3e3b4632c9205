"""What a run decided, written down round by round: see `decisions`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from prune_engine.audits.rates import is_switch_off
from prune_engine.candidates import Candidate
from prune_engine.decisions.draft_rows import Row, choices_json
from prune_engine.decisions.files import DecisionWriter
from prune_engine.decisions.lines import Fate, LineMaker
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.loop.round_decisions import RoundDecisions, RoundStart
from prune_engine.loop.task_state import TaskState
from prune_engine.measurement import MeasuredCandidate
from prune_engine.pipeline import Pipeline, PruneResult
from prune_engine.stages.draft_list import DraftList
from prune_engine.verdicts import Stage, Verdict
from prune_engine.whitelist.entries import WHITELIST

#: Stages whose candidates are counted, not named: they fell before the draft list.
_EARLY = (Stage.TASK_SPACE, Stage.RULE, Stage.DRAFT)


class Recorder:
    """Writes the decisions of a run; ``say`` is told if that fails, and nothing more is written then.

    Without a ``writer`` it does nothing. A task's rounds are counted from 1; what is cut beforehand is round 0.
    """

    def __init__(
        self,
        writer: DecisionWriter | None,
        pipeline: Pipeline,
        profile: HardwareProfile,
        say: Callable[[str], None],
    ) -> None:
        self._writer, self._pipeline, self._profile, self._say = writer, pipeline, profile, say
        self._lines = LineMaker(pipeline, profile, "")
        self._rounds: Counter[str] = Counter()

    def start(self, run_id: str) -> None:
        """Begin a run."""
        self._lines = LineMaker(self._pipeline, self._profile, run_id)
        self._rounds.clear()

    def note_cuts(self, state: TaskState, verdicts: Sequence[Verdict]) -> None:
        """Record what rules cut out of a task's choice tables, and which judge it no more."""
        if self._writer is not None:
            self._write(list(self._counted(state, verdicts)))

    def note(
        self,
        state: TaskState,
        result: PruneResult,
        measured: Sequence[MeasuredCandidate],
        before: RoundStart,
        why_not: str,
    ) -> None:
        """Record one round. ``why_not`` is why chosen candidates have no measurement, where one has none."""
        if self._writer is None:
            return
        self._rounds[state.task.task_id] += 1
        one = RoundDecisions(
            state,
            result,
            measured,
            before,
            why_not,
            scoring=self._pipeline.scoring,
            selector=self._pipeline.selector_name,
        )
        self._write(
            [*one.lines(self._lines, self._head(state)), *self._counted(state, result.verdicts, result.draft_list)]
        )

    def note_checks(self, state: TaskState, found: Sequence[tuple[Candidate, Verdict]]) -> None:
        """Record what was said at the end of the schedules that were about to ship."""
        sketches, head = state.bench_space.sketches, self._head(state)
        lines = []
        for candidate, verdict in found:
            sketch = sketches[candidate.sketch_index]
            row = Row(-1, candidate.candidate_id, sketch.index, choices_json(sketch, candidate), "{}")
            fate = Fate(verdict.stage, verdict.strategy, verdict.outcome, verdict.reason)
            lines.append(self._lines.of_candidate(head, fate, row))
        self._write(lines)

    def _write(self, lines: Sequence[str]) -> None:
        try:
            if self._writer is not None and lines:
                self._writer.add(lines)
        except OSError as error:  # a run is worth more than its record
            self._say(f"warning: decisions are not recorded any more: {error}")
            self._writer = None

    def _head(self, state: TaskState) -> str:
        return self._lines.head(state.task, self._rounds[state.task.task_id])

    def _counted(
        self, state: TaskState, verdicts: Sequence[Verdict], listed: DraftList | None = None
    ) -> Iterator[str]:
        """A line for each reason for which candidates fell before the draft list."""
        head = self._head(state)
        for verdict in verdicts:
            # The rule is switched off, not the candidate that showed it; listed schedules get on no draft list.
            if is_switch_off(verdict) or (verdict.stage is Stage.RULE and verdict.strategy == WHITELIST):
                shown = f" (candidate {verdict.candidate_id})" if verdict.candidate_id else ""
                why = f"{verdict.reason}{shown}"
                fate = Fate(verdict.stage, verdict.strategy, verdict.outcome, why)
                yield self._lines.of_count(head, fate, 1, verdict.evidence, None)
                continue
            if verdict.candidate_id is not None or verdict.stage not in _EARLY:
                continue
            fate = Fate(verdict.stage, verdict.strategy, verdict.outcome, verdict.reason)
            found, evidence = None, verdict.evidence
            if verdict.stage is Stage.RULE:
                found = self._pipeline.example(verdict.strategy, state.task.task_id)
            elif verdict.stage is Stage.DRAFT and listed is not None:
                found, evidence = listed.best_dropped, {"n_ranked": listed.n_ranked, "n_listed": len(listed.pool)}
            example = (found, state.space.sketches[found.sketch_index]) if found and state.space else None
            yield self._lines.of_count(head, fate, verdict.count, evidence, example)
