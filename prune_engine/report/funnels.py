"""How far the candidates of a task got, put together from the counts that every stage leaves in the store."""

from __future__ import annotations

from collections.abc import Sequence

from prune_engine.report.records import FunnelBar, Trial
from prune_engine.verdicts import Outcome, Stage, Verdict

_GONE = (Outcome.DROPPED, Outcome.SKIPPED)


def funnel_of(
    verdicts: Sequence[Verdict], trials: Sequence[Trial], space_size: int | None
) -> tuple[FunnelBar, ...]:
    """The funnel over all rounds of all runs on the store.

    What is recorded are the candidates that stopped at each stage, so a stage was reached by those that stopped
    there or later. A candidate that was proposed in several rounds counts in each of them.
    """
    cut = {
        stage: sum(v.count for v in verdicts if v.stage is stage and v.outcome in _GONE)
        for stage in (Stage.RULE, Stage.DRAFT, Stage.VERIFY, Stage.SELECT)
    }
    n_measured = len(trials)
    n_repaired = sum(v.count for v in verdicts if v.stage is Stage.MEASURE and v.outcome is Outcome.SKIPPED)
    n_chosen = n_measured + n_repaired
    n_verified = n_chosen + cut[Stage.SELECT]
    n_drafted = n_verified + cut[Stage.VERIFY]
    n_ruled = n_drafted + cut[Stage.DRAFT]
    whole, restricted = _sizes(verdicts, space_size)
    bars = []
    if whole is not None:
        bars.append(FunnelBar("task space", whole, "exact size of the design space"))
    if restricted is not None:
        bars.append(FunnelBar("space after rules", restricted, "exact size after rules cut its tables"))
    bars += [
        FunnelBar("proposed", n_ruled + cut[Stage.RULE], "candidates that the explorer proposed, over all rounds"),
        FunnelBar("kept by rules", n_ruled, "proposed, less what trial-space rules dropped or was known"),
        FunnelBar("draft list", n_drafted, "the best by the draft in each round, and what is measured anyway"),
        FunnelBar("kept by verifier", n_verified, "less those that the verifier thinks are slower"),
        FunnelBar("selected", n_chosen, "chosen to be measured"),
        FunnelBar("measured", n_measured, "built and run, or failed at that"),
        FunnelBar("ran correctly", sum(t.error_kind is None for t in trials), "gave a latency and right results"),
    ]
    return tuple(bars)


def _sizes(verdicts: Sequence[Verdict], space_size: int | None) -> tuple[int | None, int | None]:
    """Size of the space before and after the rules of stage 1."""
    cuts = [v.evidence for v in verdicts if v.stage is Stage.TASK_SPACE and "size_after" in v.evidence]
    before = [int(evidence["size_before"]) for evidence in cuts if "size_before" in evidence]
    whole = space_size if space_size is not None else max(before, default=None)
    return whole, min((int(evidence["size_after"]) for evidence in cuts), default=None)
