"""The page in a real browser: figures are drawn, nothing complains, nothing runs that a name brought along."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from prune_engine.report.writing import make_report

CHROMIUM = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium")

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=document.title='owned'>"
#: Opens everything and looks at the page once it is drawn.
PROBE = """
setTimeout(() => {
  document.querySelectorAll("details").forEach((one) => { one.open = true; });
  document.querySelector("button.pick")?.click();
  setTimeout(() => {
    document.querySelector("button.pick")?.click();
    const page = document.documentElement;
    const needed = page.scrollWidth;
    dispatchEvent(new Event("beforeprint")); // those that nobody scrolled to are drawn, too
    const plots = [...document.querySelectorAll(".plot")];
    const told = {
      ready: page.dataset.ready, title: document.title, width: innerWidth, needed,
      figures: plots.length, drawn: plots.filter((plot) => plot.querySelector(".main-svg")).length,
      chains: document.querySelectorAll("ol.chain li").length, foreign: document.querySelectorAll("img").length,
    };
    document.body.dataset.probe = JSON.stringify(told);
  }, 1500);
}, 3000);
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], str]:
    """What the probe saw, and what the browser logged; looked at once, as starting a browser takes seconds."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("report_kit", Path(__file__).with_name("conftest.py"))
    assert spec is not None
    assert spec.loader is not None
    kit = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kit)
    folder = tmp_path_factory.mktemp("browser")
    out = kit.make_run(folder, n_tasks=2, name=HOSTILE, error=HOSTILE)
    html = make_report(str(out)).html
    nonce = re.search(r'script nonce="([^"]+)"', html)
    assert nonce is not None
    file = folder / "page.html"
    file.write_text(
        html.replace("</body>", f'<script nonce="{nonce[1]}">{PROBE}</script></body>'), encoding="utf-8"
    )
    command = [
        *(str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"),
        *(
            "--window-size=500,900",
            "--virtual-time-budget=10000",
            f"--user-data-dir={folder / 'user'}",
            "--dump-dom",
        ),
        file.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    told = re.search(r'data-probe="([^"]+)"', done.stdout)
    assert told is not None, done.stderr[-2000:]
    return json.loads(told[1].replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">")), done.stderr


def test_console_is_silent(seen) -> None:
    assert [line for line in seen[1].splitlines() if "CONSOLE" in line] == []


def test_every_figure_is_drawn(seen) -> None:
    assert seen[0]["ready"] == "yes"
    assert seen[0]["figures"] >= 10
    assert seen[0]["drawn"] == seen[0]["figures"]


def test_a_chain_opens(seen) -> None:
    assert seen[0]["chains"] == 3  # draft, selection, result


def test_nothing_runs_that_a_name_brought_along(seen) -> None:
    assert str(seen[0]["title"]).endswith(" – prune-engine report")
    assert seen[0]["foreign"] == 0


def test_page_is_as_wide_as_the_window(seen) -> None:
    assert seen[0]["needed"] <= seen[0]["width"]
