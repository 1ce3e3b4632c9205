"""`prune-engine explain --why-not`: rules and draft asked about a candidate that no run looked at."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from prune_engine.cli import study_options as options
from prune_engine.errors import ConfigError
from prune_engine.explain.known_tasks import KnownTask, manifest_model, task_named

if TYPE_CHECKING:
    import numpy as np

    from prune_engine.candidates import CandidateBatch
    from prune_engine.decisions.records import Decision
    from prune_engine.explain.counterfactual import Counterfactuals
    from prune_engine.metaschedule.study import Study
    from prune_engine.space import DesignSpace
    from prune_engine.task import TuningTask

#: Draws that a partial assignment is completed by, and that the draft ranks a candidate among.
_N_DRAWN = 4096
#: Times that is drawn, of spaces of which the rules leave little.
_MAX_DRAWS = 16
_DRAFT = "draft.symbols"


def why_not_told(
    wanted: str, decisions: str, tasks: Sequence[KnownTask], model: str | None, **asked: Any
) -> dict[str, Any]:
    """The record of `explain --why-not`. Raises ConfigError, and what opening a study raises."""
    import numpy as np

    from prune_engine.assignments import completions, parse_assignment
    from prune_engine.config import EngineConfig
    from prune_engine.explain.chains import choices_text
    from prune_engine.explain.counterfactual import Counterfactuals
    from prune_engine.explain.why_not import explain_why_not, why_not_record

    assignment = parse_assignment(decisions)  # before anything that takes seconds
    what, name, known = _meant(wanted, tasks, model)
    study = options.open_study(what, draft_scorer=_DRAFT, **asked)
    task = _only(study, name)
    known = known or next((one for one in tasks if one.task_id == task.task_id), None)
    space, pipeline, profile = study.space(task), study.pipeline(), study.device.profile
    rng = np.random.default_rng(asked["seed"])
    batches = completions(assignment, space, _N_DRAWN, rng)
    config = EngineConfig()
    court = Counterfactuals(pipeline, space, profile)
    others, source = _others(known, space, court, rng, config.explore_size)
    batch, n_completions = _best(batches, court)
    n_others = sum(map(len, others))
    # Of a run's last list all were listed; of draws as large a share as of an explorer's proposals.
    is_drawn = "drawn" in source
    n_listed = n_others * config.draft_size // config.explore_size if is_drawn else min(n_others, config.draft_size)
    found = court.why_not(batch, others, max(1, n_listed))
    candidate = batch.candidate(0)
    named = {
        variable.name: decision if len(decision) > 1 else decision[0]
        for variable, decision in zip(batch.sketch.variables, candidate.decisions, strict=True)
    }
    sentences = [f"Candidate {candidate.candidate_id} of sketch {batch.sketch.index}: {choices_text(named)}."]
    if n_completions > 1:
        sentences.append(
            f"Of {n_completions:,} ways to complete these decisions it is the one that the rules and the draft "
            "like best."
        )
    sentences += explain_why_not(found, profile)
    if found.standing is not None:
        sentences.append(f"It was ranked among {source}.")
    return {
        "task_id": task.task_id,
        "name": task.name,
        "folder": str(known.folder) if known and known.folder else None,
        "candidate_id": candidate.candidate_id,
        "sketch": batch.sketch.index,
        "decisions": {key: list(value) if isinstance(value, tuple) else value for key, value in named.items()},
        "ranked_among": source,
        **why_not_record(found, profile),
        "sentences": sentences,
    }


def _meant(wanted: str, tasks: Sequence[KnownTask], model: str | None) -> tuple[str, str | None, KnownTask | None]:
    """What to open, the task of it, and what is recorded of that."""
    from prune_engine.metaschedule.workloads.loading import SourceKind, source_kind

    if model is None and (os.path.lexists(wanted) or source_kind(wanted) is SourceKind.NAME):
        return wanted, None, None
    if model is not None:
        return model, wanted, None
    known = task_named(wanted, tasks)
    found = manifest_model(known.folder.parent) if known.folder else None
    if found is None:
        raise ConfigError(
            "the model of the task is not known", who="--why-not", remedy="Name it by --model, or as the TASK."
        )
    return found, known.task_id, known


def _only(study: Study, name: str | None) -> TuningTask:
    found = study.tasks_named(name)
    if len(found) > 1:
        named = ", ".join(f"{number} ({task.name})" for number, task in found[:12])
        raise ConfigError(
            "holds several tasks",
            who="TASK",
            got=f"{len(found)} of them",
            expected=f"one of: {named}",
            remedy="Name the task, and the file by --model.",
        )
    return found[0][1]


def _best(batches: Sequence[CandidateBatch], court: Counterfactuals) -> tuple[CandidateBatch, int]:
    """The candidate that is kept and that the draft likes best, and of how many."""
    import numpy as np

    best, best_key = batches[0].take(np.array([0])), (-1, -1.0)
    for batch in batches:
        keep, (scores, _) = court.keeps(batch), court.scores(batch)
        place = int(np.argmax(np.where(keep, scores, -1.0))) if keep.any() else int(np.argmax(scores))
        key = (int(keep[place]), float(scores[place]))
        if key > best_key:
            best, best_key = batch.take(np.array([place])), key
    return best, sum(map(len, batches))


def _others(
    known: KnownTask | None, space: DesignSpace, court: Counterfactuals, rng: np.random.Generator, explore_size: int
) -> tuple[list[CandidateBatch], str]:
    """What the draft ranks among: the last draft list of the run, else draws that the rules keep."""
    from prune_engine.candidates import CandidateBatch
    from prune_engine.decisions.records import read_decisions
    from prune_engine.enumeration import drawn
    from prune_engine.numeric_safety import STRATEGY

    if known is not None and known.folder is not None:
        listed: list[Decision] = []
        for decision in read_decisions(known.folder, known.task_id):
            if decision.candidate is None or decision.strategy == STRATEGY:
                continue
            if listed and (decision.run, decision.round) != (listed[-1].run, listed[-1].round):
                listed = []
            listed.append(decision)
        if batches := list(_as_batches(listed, space)):
            n, last = sum(map(len, batches)), listed[-1]
            return batches, f"the {n:,} candidates of the last draft list, that of round {last.round}"
    kept: list[CandidateBatch] = []
    for _ in range(_MAX_DRAWS):
        for sketch in space.sketches:
            if sketch.size:
                batch = CandidateBatch(space, sketch, drawn(sketch, min(_N_DRAWN, sketch.size), rng))
                kept.append(batch.take(court.keeps(batch)))
        if sum(map(len, kept)) >= explore_size:
            break
    return kept, f"{sum(map(len, kept)):,} candidates drawn at random that the rules keep, as no run is recorded"


def _as_batches(decisions: Sequence[Decision], space: DesignSpace) -> Iterator[CandidateBatch]:
    """Recorded candidates as batches of a space; those that it has not are left out."""
    import numpy as np

    from prune_engine.candidates import CandidateBatch, rows_of

    for sketch in space.sketches:
        rows = []
        for decision in decisions:
            if decision.sketch != sketch.index or decision.decisions is None:
                continue
            values = [decision.decisions.get(variable.name) for variable in sketch.variables]
            if None in values:
                continue
            choices = [(v,) if isinstance(v, int) else tuple(v or ()) for v in values]
            if (row := rows_of(sketch, choices)) is not None:
                rows.append(row)
        if rows:
            yield CandidateBatch(space, sketch, np.stack(rows))
