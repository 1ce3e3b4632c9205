"""Whitelisted schedules in a run: measured before anything else, whatever guesses think of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prune_engine.candidates import Candidate
from prune_engine.config import EngineConfig
from prune_engine.errors import SpaceError
from prune_engine.loop.harvest import compiler_version
from prune_engine.loop.task_state import TaskState, Unmeasured
from prune_engine.measurement import REPLAY_DEVICE, Workbench, WritesSchedules
from prune_engine.pipeline import Pipeline, PruneResult
from prune_engine.store.base import Store
from prune_engine.verdicts import Outcome, RuleKind, SelectionReason, Stage, Verdict
from prune_engine.whitelist.entries import WHITELIST, WhitelistEntry
from prune_engine.whitelist.events import whitelist_of
from prune_engine.whitelist.placing import Placed, Schedule, droppers, placed, why_illegal

#: Writes verdicts on a task's candidates.
Tell = Callable[[TaskState, Sequence[Verdict]], None]


@dataclass(frozen=True, slots=True)
class _Listed:
    """An entry as a candidate of the task's space."""

    entry: WhitelistEntry
    place: Placed

    @property
    def candidate(self) -> Candidate:
        return self.place.candidate


class Whitelisting:
    """Hands out the whitelisted schedules of a task, batch by batch, before anything else is proposed.

    An entry counts where it passed its last check on this device under this version of the compiler; in a replay,
    where nothing runs, where it passed its last check anywhere. ``tell`` is given a verdict on each that is not
    handed out, ``say`` a sentence on each that cannot be read.
    """

    def __init__(
        self,
        store: Store,
        config: EngineConfig,
        workbench: Workbench,
        pipeline: Pipeline,
        tell: Tell,
        say: Callable[[str], None],
    ) -> None:
        self._store, self._config, self._workbench, self._pipeline = store, config, workbench, pipeline
        self._tell, self._say = tell, say
        self._pending: dict[str, list[WhitelistEntry]] = {}

    def open(self, state: TaskState) -> None:
        """Look up what is listed for a task."""
        known = state.task.kernel_class
        if known is None or state.space is None:
            return
        listed = whitelist_of(self._store.whitelist_events(known.strict))
        for name, problem in listed.broken.items():
            self._say(f"warning: whitelist entry {name} does not count, as it cannot be read ({problem})")
        found = listed.of(state.task)
        waiting = [entry for entry in found if self._counts(entry)]
        for entry in found:
            if entry not in waiting:
                why = f"not checked on {self._workbench.device_name()}: `prune-engine whitelist verify` does"
                self._leave(state, entry, Outcome.SKIPPED, why)
        self._pending[state.task.task_id] = waiting

    def is_waiting(self, state: TaskState) -> bool:
        """Whether a task has whitelisted schedules that had no turn."""
        return bool(self._pending.get(state.task.task_id))

    def batch(self, state: TaskState, k: int) -> PruneResult | None:
        """At most ``k`` whitelisted schedules of an open task to measure now, None when none is left.

        Where one is to ship unmeasured it is chosen now, which closes the task.
        """
        waiting = self._pending.get(state.task.task_id, [])
        started = time.perf_counter()
        chosen: list[_Listed] = []
        verdicts: list[Verdict] = []
        while waiting and len(chosen) < k:
            entry = waiting.pop(0)
            one = self._listed(state, entry)
            if one is None or one.candidate.candidate_id in state.known_ids:
                continue
            if why := self._illegal(state, one):
                state.mark_seen(one.candidate)
                self._leave(state, entry, Outcome.DROPPED, why, one.candidate.candidate_id)
                continue
            if self._config.transfer_only and not self._config.transfer_trials:
                self._ship_unmeasured(state, one)
                return None
            chosen.append(one)
            verdicts.append(self._kept(state, one))
        if not chosen:
            return None
        candidates, secs = [one.candidate for one in chosen], time.perf_counter() - started
        return PruneResult.of_choice(candidates, SelectionReason.WHITELIST, verdicts, secs)

    def _ship_unmeasured(self, state: TaskState, one: _Listed) -> None:
        bench = self._workbench
        text = bench.schedule_text(state.bench_space, one.candidate) if isinstance(bench, WritesSchedules) else None
        if text is not None:
            state.unmeasured = Unmeasured(one.candidate, text, f"the whitelist, {_words(one.entry)}")
            state.stop_reason = "ranked"
            self._tell(state, [self._kept(state, one)])

    def _counts(self, entry: WhitelistEntry) -> bool:
        device = self._workbench.device_name()
        if device == REPLAY_DEVICE:
            return entry.checks[-1].is_passed
        check = entry.last_check(device, compiler_version())
        return check is not None and check.is_passed

    def _listed(self, state: TaskState, entry: WhitelistEntry) -> _Listed | None:
        """The entry as a candidate; None, and told, where the space of today has no place for it."""
        assert state.space is not None, "only open tasks get here"
        try:
            place = placed(state.bench_space, Schedule.of(entry), self._workbench, len(state.space.sketches))
        except SpaceError as error:
            self._leave(state, entry, Outcome.SKIPPED, f"no schedule of this kernel now: {error.problem}")
            return None
        if place.new_sketch is not None:
            state.fixed.append(place.new_sketch)
        return _Listed(entry, place)

    def _illegal(self, state: TaskState, one: _Listed) -> str:
        """Why a schedule cannot run here: what LEGALITY rules and the compiler say; empty if it can."""
        assert state.full_space is not None, "only open tasks get here"
        why = why_illegal(self._pipeline, state.full_space, one.place)
        return why or self._workbench.refusal(state.bench_space, one.candidate) or ""

    def _kept(self, state: TaskState, one: _Listed) -> Verdict:
        """Why it is measured, and which guesses would have prevented that."""
        against = ""
        row = one.place.row
        if row is not None:
            assert state.space is not None, "only open tasks get here"
            assert state.full_space is not None, "only open tasks get here"
            is_cut = not state.space.sketches[one.candidate.sketch_index].allows(row[None, :])[0]
            dropped = droppers(self._pipeline, state.full_space, one.place, RuleKind.HEURISTIC)
            against = "; a rule had cut a choice of it" if is_cut else ""
            against += f"; {dropped} would have dropped it" if dropped else ""
        reason = f"{SelectionReason.WHITELIST.value}: {_words(one.entry)}{against}"
        return Verdict(Stage.SELECT, WHITELIST, Outcome.KEPT, reason, 1, one.candidate.candidate_id)

    def _leave(
        self, state: TaskState, entry: WhitelistEntry, outcome: Outcome, why: str, candidate_id: str | None = None
    ) -> None:
        self._tell(state, [Verdict(Stage.RULE, WHITELIST, outcome, f"{_words(entry)}: {why}", 1, candidate_id)])


def _words(entry: WhitelistEntry) -> str:
    return f"entry {entry.entry_id}" + (f" ({entry.note})" if entry.note else "")
