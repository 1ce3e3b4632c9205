"""The result of a run in one sentence."""

from __future__ import annotations

from prune_engine.report.records import RunReport
from prune_engine.report.texts import gain_text, secs_text


def headline(report: RunReport) -> str:
    """What was gained, and on what: of the whole model if that was timed, else of its kernels."""
    by_name = {latency.name: latency for latency in report.latencies}
    device = report.run.manifest.get("device", "an unknown device")
    n_threads = report.run.manifest.get("n_threads", "?")
    where = f"on {device}, {n_threads} thread{'' if n_threads == 1 else 's'}"
    if "untuned" in by_name and "tuned" in by_name:
        before, after = by_name["untuned"].median_secs, by_name["tuned"].median_secs
        change = f"from {secs_text(before)} to {secs_text(after)}"
        if report.is_tuned is False:
            return f"{report.model}: the untuned model was not beaten ({change}), so it is what ships, {where}."
        return (
            f"{report.model} runs {gain_text(before / after)} as fast as untuned: {change} per inference {where}."
        )
    pairs = [(t.task.weight, t.default_secs, t.best_secs) for t in report.tasks]
    timed = [(weight, before, after) for weight, before, after in pairs if before and after]
    found = [(t.task.name, t.best_secs) for t in report.tasks if t.best_secs]
    if not timed and found:  # candidates that somebody else measured, and nobody the untuned kernel
        best = ", ".join(f"{secs_text(secs)} for {name}" for name, secs in found)
        return f"{report.model}: the best found takes {best}, {where}."
    if not timed:
        return f"{report.model}: nothing was measured {where}."
    before, after = sum(w * b for w, b, _ in timed), sum(w * a for w, _, a in timed)
    kernels = f"{len(timed)} kernels together take" if len(timed) > 1 else "1 kernel takes"
    return (
        f"{report.model}: {kernels} {secs_text(after)} instead of {secs_text(before)} per "
        f"inference, {gain_text(before / after)} as fast, {where}."
    )
