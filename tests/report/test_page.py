"""The page: complete, closed to the network and to strangers' scripts, and honest about what is missing."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest

from prune_engine.report import page
from prune_engine.report.collecting import collect
from prune_engine.report.page import render
from prune_engine.report.sources import opened
from prune_engine.report.writing import make_report

HOSTILE = '<script>document.title="owned"</script>"\'><img src=x onerror=alert(1)>'


def packed(html: str, identity: str) -> str:
    text = re.search(rf'id="{identity}">([A-Za-z0-9+/=]+)</script>', html)
    assert text is not None
    return gzip.decompress(base64.b64decode(text[1])).decode()


def data_of(html: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(packed(html, "packed-data"))
    return found


@pytest.fixture(scope="module")
def html(plain_run: Path) -> str:
    return make_report(str(plain_run)).html


def test_every_figure_is_drawn_described_and_valid(html: str) -> None:
    figures = data_of(html)["figures"]
    places = re.findall(r'data-figure="([^"]+)" role="img" aria-label="([^"]+)"', html)
    assert {key for key, _ in places} == set(figures)
    assert {"model", "cost", "roofline", "audits", "t0-funnel", "t1-verifier"} <= set(figures)
    for figure in figures.values():
        text = re.sub(r"\$[a-z]+\d?", "#000000", json.dumps(figure))
        go.Figure(json.loads(text))  # raises for a property that plotly does not know


def test_roofline_shows_where_memory_meets_the_roof(plain_run: Path) -> None:
    from prune_engine.report.figures import roofline_figure
    from prune_engine.report.records import Ceiling

    with opened(str(plain_run), None) as source:
        tasks = collect(source).tasks
    ceilings = [Ceiling("peak", "", flop_per_sec=1e12), Ceiling("cache", "", bytes_per_sec=1e12)]
    figure = roofline_figure(tasks, ceilings)
    cache = figure["data"][1]
    assert (cache["x"][1], cache["y"][1]) == (1.0, 1e12)
    low, high = figure["layout"]["xaxis"]["range"]
    assert low < 0 < high


def test_colours_are_names_that_both_themes_have(html: str) -> None:
    used = set(re.findall(r'"\$([a-z]+\d?)"', json.dumps(data_of(html)["figures"])))
    light, dark = html.split("prefers-color-scheme: dark", 1)
    assert used
    for name in used:
        assert f"--{name}:" in light
        assert f"--{name}:" in dark


def test_nothing_comes_from_elsewhere(html: str) -> None:
    shown = re.sub(r'<script type="text/plain".*?</script>', "", html, flags=re.DOTALL)
    assert "default-src 'none'" in shown
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", shown)
    assert not re.search(r"@import|url\(", shown)
    assert packed(html, "packed-plotly").startswith("/**")


def test_numbers_of_figures_are_in_tables_too(html: str) -> None:
    for text in (
        "task space",
        "10\u202f000\u202f000",
        "ran correctly",
        "flop per byte",
        "audit",
        "signal 11",
        "GetSBlock",
    ):
        assert text in html


def test_hostile_names_and_messages_stay_text(made_run) -> None:
    html = make_report(str(made_run(name=HOSTILE, error=HOSTILE))).html
    scripts = re.findall(r"<script[^>]*>", html)
    assert len(scripts) == 3
    assert "<img" not in html
    assert "&lt;script&gt;document.title" in html
    (nonce,) = set(re.findall(r'script nonce="([^"]+)"', html))
    assert f"script-src 'nonce-{nonce}'" in html
    assert "<script" not in json.dumps([f["data"] for f in data_of(html)["figures"].values()])


def test_two_pages_have_two_nonces(plain_run: Path) -> None:
    nonces = {re.search(r"nonce-([^']+)", make_report(str(plain_run)).html)[1] for _ in range(2)}  # type: ignore[index]
    assert len(nonces) == 2


def test_a_store_alone_says_what_is_missing(plain_run: Path) -> None:
    html = make_report(str(plain_run.parent / "store.sqlite3")).html
    assert "The whole model&#39;s latency is not on the store. It is only in the result folder" in html
    assert "This run was made before policies were recorded." in html
    assert "The roofline has no ceilings: the manifest of this older run only names its profile, nobody" in html
    assert "their records are not on the store" in html
    assert "2 kernels together take" in html


def test_chains_lead_from_the_draft_to_the_choice(html: str) -> None:
    data = data_of(html)
    first = data["candidates"][0][0]
    told = [[data["texts"][i] for i in step[:4]] for step in first[7]]
    assert [step[:3] for step in told] == [["draft", "draft.symbols", "kept"], ["select", "select", "kept"]]
    names = [data["texts"][i] for i in first[7][0][5][::2]]
    assert names == ["latency_secs", "lanes"]


def test_of_many_chains_failures_and_the_fastest_stay(plain_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MAX_CHAINS", 6)
    with opened(str(plain_run), None) as source:
        report = collect(source)
    html = render(report)
    data = data_of(html)
    for task, rows in zip(report.tasks, data["candidates"], strict=True):
        assert len(rows) == 3
        failed = [row for row in rows if row[2] is None]
        fastest = sorted(t.latency_secs for t in task.trials if t.latency_secs is not None)[:2]
        assert len(failed) == 1
        assert sorted(row[2] for row in rows if row[2] is not None) == pytest.approx(
            [s * 1e3 for s in fastest], rel=1e-3
        )
    assert "3 of 12 are here" in html


def test_many_kernels_can_be_searched(made_run) -> None:
    html = make_report(str(made_run(n_tasks=13, n_trials=4))).html
    assert 'type="search"' in html


def test_few_kernels_need_no_search(html: str) -> None:
    assert 'type="search"' not in html


def test_a_hundred_tasks_fit_into_eight_megabytes(made_run) -> None:
    """A tenth of the trials that are allowed for; the rest of the page's size is the same."""
    html = make_report(str(made_run(n_tasks=100, n_trials=20))).html
    assert len(html.encode()) < 5_000_000


def test_kernels_have_the_numbers_of_the_result_and_the_costliest_comes_first(html: str) -> None:
    names = re.findall(r'<span class="name">(\d+ [^<]+)</span>', html)
    assert names == ["2 dense_1", "1 dense_0"]


def test_kernels_that_became_no_faster_are_not_counted(plain_run: Path) -> None:
    with opened(str(plain_run), None) as source:
        report = collect(source)
    slow = replace(report.tasks[0], best_secs=report.tasks[0].default_secs)
    assert "<dt>kernels faster</dt><dd>1 of 2</dd>" in render(replace(report, tasks=(slow, report.tasks[1])))
