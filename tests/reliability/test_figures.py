"""The page of figures."""

from __future__ import annotations

from reliability.figures import ABOUT, PAGE, page


def test_every_figure_of_the_page_is_described() -> None:
    """A name in code means nothing to a reader."""
    text = PAGE.read_text(encoding="utf-8")
    titles = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert set(titles) <= {about.title for about in ABOUT.values()}
    for about in ABOUT.values():
        if about.title in titles:
            assert about.text in text
            assert f"Measured by `{about.module}`." in text


def test_a_figure_that_nobody_described_is_shown_all_the_same() -> None:
    record = {"figure": "new_one", "n": 3, "result": "passed", "details": {"must_not_happen": {"harm": 0}}}
    text = page({"new_one": record})
    assert "| New one | 3 | passed |" in text
    assert "| harm | 0 |" in text
