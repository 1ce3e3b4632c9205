"""From what the user names to the page's text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from prune_engine.report.collecting import collect
from prune_engine.report.page import render
from prune_engine.report.sources import Source, opened
from prune_engine.report.summary import headline


@dataclass(frozen=True, slots=True)
class Report:
    """A report's page, the sentence it begins with, its run, and the folder it belongs in, where there is one."""

    html: str
    headline: str
    run_id: str
    folder: Path | None


def make_report(place: str | None, run_id: str | None = None, *, store_url: str | None = None) -> Report:
    """Make the report of a run: see `prune_engine.report.sources.opened` for what the arguments name and raise."""
    with opened(place, run_id, store_url) as source:
        return report_of(source)


def report_of(source: Source) -> Report:
    """Make the report of the run of an open store. Raises StoreError."""
    facts = collect(source)
    return Report(render(facts), headline(facts), facts.run.run_id, source.folder)
