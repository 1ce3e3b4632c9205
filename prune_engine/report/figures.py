"""The figures as plotly.js takes them: JSON values with ``data`` and ``layout``.

Colours are names such as ``$best``: the page puts in those of its light or dark theme.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from prune_engine.report.axes import log_axis
from prune_engine.report.curves import best_so_far, by_seconds
from prune_engine.report.records import Ceiling, ModelLatency, RunReport, TaskReport, Trial
from prune_engine.report.texts import count_text, gain_text, rate_text, secs_text, tick_rate, tick_secs

Figure = dict[str, Any]

#: Kernels in the figure of where the time goes.
_N_COSTLY = 15
_NO_CEILINGS = {
    "text": "no ceilings: the profile knows no peak and no bandwidth;<br>prune-engine profiles probe measures them",
    "xref": "paper",
    "yref": "paper",
    "x": 0.5,
    "y": 1,
    "yanchor": "top",
    "showarrow": False,
}
#: Kernels with a number in the roofline; of the others only the marks are drawn.
_N_NAMED = 30


def model_figure(latencies: Sequence[ModelLatency]) -> Figure:
    """Bars of the whole model's latency, with the spread of its calls."""
    millis = [x.median_secs * 1e3 for x in latencies]
    bar = {
        "type": "bar",
        "orientation": "h",
        "y": [f"{x.name}<br><b>{secs_text(x.median_secs)}</b>" for x in latencies],
        "x": _short(millis),
        "marker": {"color": ["$best" if x.name == "tuned" else "$default" for x in latencies]},
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": _short((x.high_secs - x.median_secs) * 1e3 for x in latencies),
            "arrayminus": _short((x.median_secs - x.low_secs) * 1e3 for x in latencies),
            "color": "$ink",
        },
        "hovertemplate": "%{x:.4g} ms<extra></extra>",
    }
    axes = {"xaxis": {"title": {"text": "latency, ms"}, "rangemode": "tozero"}, "yaxis": {"autorange": "reversed"}}
    return _figure([bar], height=90 + 46 * len(latencies), showlegend=False, **axes)


def cost_figure(tasks: Sequence[TaskReport]) -> Figure:
    """Where the time goes: each kernel's calls times its latency, before and after."""
    shown = [t for t in tasks if t.default_secs][:_N_COSTLY]
    names = [_brief(t.task.name, t.number) for t in shown]
    bars = []
    for label, colour, secs in (
        ("untuned", "$default", [t.default_secs for t in shown]),
        ("best", "$best", [t.best_secs for t in shown]),
    ):
        bars.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": label,
                "y": names,
                "x": _short(t.task.weight * (s or 0.0) * 1e3 for t, s in zip(shown, secs, strict=True)),
                "marker": {"color": colour},
                "hovertemplate": "%{y}, " + label + ": %{x:.4g} ms<extra></extra>",
            }
        )
    axes = {"xaxis": {"title": {"text": "ms per inference (calls × latency)"}}, "yaxis": {"autorange": "reversed"}}
    return _figure(bars, height=110 + 34 * len(shown), barmode="group", bargap=0.25, **axes)


def roofline_figure(tasks: Sequence[TaskReport], ceilings: Sequence[Ceiling]) -> Figure:
    """Flop per second over flop per byte of compulsory traffic, each kernel untuned and best, under ceilings.

    Where there are no ceilings the figure says so, and how to get them.
    """
    placed = [t for t in tasks if t.bytes_moved and t.task.flop_count]
    spots = [t.task.flop_count / t.bytes_moved for t in placed]
    peaks = [c.flop_per_sec for c in ceilings if c.flop_per_sec]
    roof = max(peaks, default=math.inf)
    # Where a level of memory meets the roof must be seen, or its line is not.
    ridges = [roof / c.bytes_per_sec for c in ceilings if c.bytes_per_sec] if peaks else []
    low, high = min([*spots, *ridges], default=1.0) / 3, max([*spots, *ridges], default=1.0) * 3
    data: list[dict[str, Any]] = []
    for i, ceiling in enumerate(ceilings):
        data.append(_ceiling_line(ceiling, i, low, high, roof))
    for t, spot in zip(placed, spots, strict=True):  # what tuning changed
        ends = [_flop_per_sec(t, t.default_secs), _flop_per_sec(t, t.best_secs)]
        if all(ends):
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "x": _short([spot, spot]),
                    "y": _short(e for e in ends if e),
                    "line": {"color": "$faint", "width": 1},
                    "showlegend": False,
                    "hoverinfo": "skip",
                }
            )
    for label, colour, symbol, which in (
        ("untuned", "$default", "circle-open", "default_secs"),
        ("best", "$best", "circle", "best_secs"),
    ):
        points = [
            (i, t, spot, rate)
            for i, (t, spot) in enumerate(zip(placed, spots, strict=True))
            if (rate := _flop_per_sec(t, getattr(t, which)))
        ]
        data.append(
            {
                "type": "scatter",
                "mode": "markers+text" if which == "best_secs" else "markers",
                "name": label,
                "x": _short(p[2] for p in points),
                "y": _short(p[3] for p in points),
                "text": [str(p[1].number) if p[0] < _N_NAMED else "" for p in points],
                "textposition": "top center",
                "textfont": {"size": 10},
                "customdata": [
                    f"{_brief(p[1].task.name, p[1].number)}: {rate_text(p[3], 'flop/s')}, "
                    f"{secs_text(getattr(p[1], which))}"
                    for p in points
                ],
                "marker": {"color": colour, "symbol": symbol, "size": 9, "line": {"width": 2, "color": colour}},
                "hovertemplate": "%{customdata}<extra></extra>",
            }
        )
    return _figure(
        data,
        height=480,
        xaxis=log_axis([low, high], "flop per byte of arguments and results", "{:g}".format),
        yaxis=log_axis([y * room for trace in data for y in trace["y"] for room in (1, 1.6)], "flop/s", tick_rate),
        annotations=[] if ceilings else [_NO_CEILINGS],
    )


def funnel_figure(task: TaskReport) -> Figure:
    """How many candidates reached each stage, on a logarithmic axis."""
    bars = [bar for bar in task.funnel if bar.count > 0]
    data = {
        "type": "bar",
        "orientation": "h",
        "y": [bar.label for bar in bars],
        "x": [float(f"{bar.count:.4g}") for bar in bars],
        "text": [count_text(bar.count) for bar in bars],
        "textposition": "auto",
        "constraintext": "none",
        "marker": {"color": "$stage"},
        "hovertemplate": "%{y}: %{text}<extra></extra>",
    }
    most = max((bar.count for bar in bars), default=1)
    axes = {
        "xaxis": log_axis([0.5, float(most) * 1.5], "candidates (log scale)", tick_rate),
        "yaxis": {"autorange": "reversed"},
    }
    return _figure([data], height=330, showlegend=False, **axes)


def trials_figure(task: TaskReport) -> Figure:
    """Every trial's latency, the best so far, the untuned kernel and the failures, over the trials."""
    steps = best_so_far(task)
    data = [*_marks(task.trials, [float(t.number) for t in task.trials], "trial %{x}"), _steps(*steps)]
    return _latency_figure(task, data, "trials, those of earlier runs too")


def seconds_figure(task: TaskReport) -> Figure:
    """The same over the seconds since the run began, for what this run measured."""
    trials = [t for t in task.trials if t.run_offset_secs is not None]
    at = [t.run_offset_secs or 0.0 for t in trials]
    data = [*_marks(trials, at, "after %{x:.1f} s"), _steps(*by_seconds(task))]
    return _latency_figure(task, data, "seconds since the run began")


def forecast_figure(trials: Sequence[Trial], foreseen: Sequence[float], axis: str, *, is_latency: bool) -> Figure:
    """Foreseen against measured; for latencies with the line on which a perfect forecast lies."""
    millis = [(t.latency_secs or 0.0) * 1e3 for t in trials]
    x = [f * 1e3 for f in foreseen] if is_latency else list(foreseen)
    data: list[dict[str, Any]] = []
    if is_latency:
        ends = [min(*x, *millis), max(*x, *millis)]
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": _short(ends),
                "y": _short(ends),
                "line": {"color": "$faint", "dash": "dash"},
                "name": "exact",
                "hoverinfo": "skip",
            }
        )
    data.append(
        {
            "type": "scatter",
            "mode": "markers",
            "x": _short(x),
            "y": _short(millis),
            "name": "measured",
            "customdata": [t.number for t in trials],
            "marker": {"color": "$stage", "size": 7, "opacity": 0.75},
            "hovertemplate": "trial %{customdata}: foreseen %{x:.4g}, measured %{y:.4g} ms<extra></extra>",
        }
    )
    axes = {
        "xaxis": log_axis(x, axis, tick_secs if is_latency else "{:.3g}".format),
        "yaxis": log_axis(millis, "measured latency", tick_secs),
    }
    return _figure(data, height=330, showlegend=False, **axes)


def audit_figure(report: RunReport) -> Figure:
    """Each strategy's false-prune rate with its 95 % interval; of those not audited what they dropped."""
    rows = [(a.strategy, share) for a in report.audits if (share := a.false_prune) is not None]
    audited = {name for name, _ in rows}
    others = [a for a in report.audits if a.false_prune is None and a.strategy not in audited]
    data = {
        "type": "scatter",
        "mode": "markers",
        "y": [name for name, _ in rows],
        "x": _short(100 * s.value for _, s in rows),
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": _short(100 * (s.high - s.value) for _, s in rows),
            "arrayminus": _short(100 * (s.value - s.low) for _, s in rows),
            "color": "$stage",
            "thickness": 2,
        },
        "marker": {"color": "$stage", "size": 10},
        "hovertemplate": "%{y}: %{x:.3g} % of its drops are winners<extra></extra>",
    }
    unknown = {
        "type": "scatter",
        "mode": "text",
        "y": [a.strategy for a in others],
        "x": [0] * len(others),
        "text": [f"not audited, {count_text(a.n_dropped)} dropped" for a in others],
        "textposition": "middle right",
        "hoverinfo": "skip",
    }
    axes = {"xaxis": {"title": {"text": "winners among what it drops, %"}, "range": [-2, 102]}}
    n_rows = len(rows) + len(others)
    return _figure([data, unknown], height=110 + 34 * n_rows, showlegend=False, **axes)


def _ceiling_line(ceiling: Ceiling, place: int, low: float, high: float, roof: float) -> dict[str, Any]:
    if ceiling.flop_per_sec is not None:
        x, y, text = [low, high], [ceiling.flop_per_sec] * 2, rate_text(ceiling.flop_per_sec, "flop/s")
    else:
        rate = ceiling.bytes_per_sec or 0.0
        end = min(high, roof / rate) if rate else high
        x, y, text = [low, end], [low * rate, end * rate], rate_text(rate, "byte/s")
    return {
        "type": "scatter",
        "mode": "lines",
        "x": _short(x),
        "y": _short(y),
        "name": f"{ceiling.name}: {text}",
        "line": {"color": f"$roof{place % 4}", "width": 2, "dash": "solid" if ceiling.flop_per_sec else "dot"},
        "hovertemplate": f"{ceiling.name}: {text}<extra></extra>",
    }


def _marks(trials: Sequence[Trial], places: Sequence[float], where: str) -> Iterable[dict[str, Any]]:
    """Trials that ran, those that were stopped for being slow, and failures (on the figure's floor)."""
    pairs = list(zip(trials, places, strict=True))
    ran = [p for p in pairs if p[0].latency_secs is not None]
    for name, is_censored, symbol, colour in (
        ("measured", False, "circle", "$stage"),
        ("stopped early: clearly slower", True, "triangle-up-open", "$faint"),
    ):
        kind = [(t, at) for t, at in ran if t.is_censored is is_censored]
        if kind:
            yield {
                "type": "scatter",
                "mode": "markers",
                "name": name,
                "x": _short(at for _, at in kind),
                "y": _short((t.latency_secs or 0.0) * 1e3 for t, _ in kind),
                "marker": {"color": colour, "symbol": symbol, "size": 6, "opacity": 0.8},
                "hovertemplate": where + ": %{y:.4g} ms<extra></extra>",
            }
    failed = [(t, at) for t, at in pairs if t.error_kind is not None]
    floor = min(((t.latency_secs or 0.0) for t, _ in ran), default=1e-3) * 1e3 * 0.8
    if failed:
        yield {
            "type": "scatter",
            "mode": "markers",
            "name": "failed",
            "x": _short(at for _, at in failed),
            "y": _short([floor] * len(failed)),
            "customdata": [t.error_kind for t, _ in failed],
            "marker": {"color": "$failed", "symbol": "x", "size": 8},
            "hovertemplate": where + ": %{customdata}<extra></extra>",
        }


def _steps(x: Sequence[float], secs: Sequence[float]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "best so far",
        "x": _short(x),
        "y": _short(s * 1e3 for s in secs),
        "line": {"shape": "hv", "color": "$best", "width": 2.5},
        "hovertemplate": "best so far: %{y:.4g} ms<extra></extra>",
    }


def _latency_figure(task: TaskReport, data: list[dict[str, Any]], axis: str) -> Figure:
    shapes = []
    notes = []
    y = 0.0
    if task.default_secs:
        y = float(f"{task.default_secs * 1e3:.4g}")
        line = {"color": "$default", "width": 1.5, "dash": "dash"}
        shapes.append({"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line})
        notes.append(
            {
                "xref": "paper",
                "x": 1,
                "xanchor": "right",
                "y": math.log10(y),
                "yanchor": "top",
                "text": f"untuned {secs_text(task.default_secs)}"
                + (f", best {gain_text(task.speedup)}" if task.speedup else ""),
                "showarrow": False,
                "font": {"size": 11},
            }
        )
    axes = {
        "xaxis": {"title": {"text": axis}, "rangemode": "tozero"},
        "yaxis": log_axis([*(y for trace in data for y in trace["y"]), y], "latency (log scale)", tick_secs),
    }
    return _figure(data, height=330, shapes=shapes, annotations=notes, **axes)


def _figure(data: list[dict[str, Any]], **layout: Any) -> Figure:
    return {"data": data, "layout": layout}


def _flop_per_sec(task: TaskReport, secs: float | None) -> float | None:
    return task.task.flop_count / secs if secs else None


def _brief(name: str, number: int) -> str:
    """A kernel's number and as much of its name as a figure has room for; '<' would be read as markup."""
    plain = name.replace("<", "‹").replace(">", "›").replace("&", "+")
    return f"{number} {plain if len(plain) <= 22 else plain[:21] + '…'}"


def _short(values: Iterable[float]) -> list[float]:
    """Five significant digits are more than a figure shows."""
    return [float(f"{value:.5g}") for value in values]
