"""The HTML page: one file with everything in it, which may fetch nothing and run no script but its own."""

from __future__ import annotations

import base64
import gzip
import json
import secrets
import time
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from prune_engine import __version__
from prune_engine.report import texts
from prune_engine.report.chain_data import MAX_CHAINS, Texts, candidate_rows
from prune_engine.report.curves import improvements
from prune_engine.report.figures import (
    audit_figure,
    cost_figure,
    forecast_figure,
    funnel_figure,
    model_figure,
    roofline_figure,
    seconds_figure,
    trials_figure,
)
from prune_engine.report.forecasts import Forecast, draft_forecast, verifier_forecast
from prune_engine.report.records import RunReport, TaskReport
from prune_engine.report.summary import headline

#: From so many kernels on there is a field to search them.
MIN_SEARCHED = 12
#: Characters of a failure's message and of its trace that the page shows.
_MAX_MESSAGE, _MAX_TRACE = 2_000, 6_000


def render(report: RunReport) -> str:
    """The report as a page. Names and messages are escaped, whatever they are."""
    figures: dict[str, Any] = {}
    words = Texts()
    limit = max(1, MAX_CHAINS // max(1, len(report.tasks)))
    tasks = []
    candidates = []
    for place, task in enumerate(report.tasks):
        tasks.append(_task_parts(task, place, figures))
        candidates.append(candidate_rows(task, words, limit))
    if report.latencies:
        figures["model"] = model_figure(report.latencies)
    if report.tasks:
        figures["cost"] = cost_figure(report.tasks)
        figures["roofline"] = roofline_figure(report.tasks, report.ceilings)
    if any(audit.n_measured for audit in report.audits):
        figures["audits"] = audit_figure(report)
    data = {"figures": figures, "texts": words.all, "candidates": candidates}
    packed = _packed(json.dumps(data, separators=(",", ":"), allow_nan=False))
    script = _asset("page.js")
    # Whoever chose a kernel's name could not know it, so that a script smuggled in by one would not run.
    nonce = secrets.token_urlsafe(15)
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            report=report,
            tasks=tasks,
            headline=headline(report),
            limit=limit,
            n_faster=sum((task.speedup or 0.0) > 1 for task in report.tasks),
            is_searched=len(report.tasks) > MIN_SEARCHED,
            version=__version__,
            made_at=_moment(time.time()),
            nonce=nonce,
            style=Markup(_asset("page.css")),  # our own file
            script=Markup(script),  # our own file
            data=Markup(packed),  # base64
            plotly=Markup(_packed_plotly()),  # base64
            max_message=_MAX_MESSAGE,
            max_trace=_MAX_TRACE,
        )
    )


def _task_parts(task: TaskReport, place: int, figures: dict[str, Any]) -> Mapping[str, Any]:
    """What the template needs of a task besides its report; draws its figures."""
    key = f"t{place}"
    figures[f"{key}-funnel"] = funnel_figure(task)
    if task.trials or task.default_secs:
        figures[f"{key}-trials"] = trials_figure(task)
    if any(t.run_offset_secs is not None for t in task.trials):
        figures[f"{key}-seconds"] = seconds_figure(task)
    draft, verifier = draft_forecast(task.trials), verifier_forecast(task.trials)
    if draft.trials:
        figures[f"{key}-draft"] = _drawn(draft, "latency foreseen by the draft")
    if verifier.trials:
        figures[f"{key}-verifier"] = _drawn(
            verifier,
            "latency foreseen by the verifier" if verifier.is_latency else "verifier's score (higher is faster)",
        )
    return {
        "key": key,
        "place": place,
        "report": task,
        "draft": draft,
        "verifier": verifier,
        "improvements": improvements(task),
        "has_seconds": f"{key}-seconds" in figures,
        "has_trials": f"{key}-trials" in figures,
    }


def _drawn(forecast: Forecast, axis: str) -> dict[str, Any]:
    return forecast_figure(forecast.trials, forecast.foreseen, axis, is_latency=forecast.is_latency)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("prune_engine.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        secs=texts.secs_text,
        count=texts.count_text,
        gain=texts.gain_text,
        share=texts.share_text,
        rate=texts.rate_text,
        moment=_moment,
    )
    return environment


def _asset(name: str) -> str:
    return (files("prune_engine.report") / "assets" / name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _packed_plotly() -> str:
    """plotly.js as installed with plotly. Packed it is 1.9 MB in a page and not 4.8."""
    return _packed((files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8"))


def _packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()


def _moment(seconds: float | None) -> str:
    """A time of the clock, UTC."""
    return "–" if seconds is None else time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
