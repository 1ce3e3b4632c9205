"""A hook of mkdocs: adds the pages which come from the code, and gives pages that mkdocs.yml leaves out a place."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from api import PAGES, api_page
from commands import commands_page
from hooks import hooks_page
from mkdocs.structure.files import File

#: Sections for pages by their folder; the order inside is that of mkdocs.yml, then of names.
_SECTIONS = {"guides": "Guides", "reference": "Reference", "benchmarks": "How it works", "plugins": "Extend"}
_OTHERS = "Use"


def on_config(config: Any) -> Any:
    """Put every page into the navigation."""
    root = Path(config["docs_dir"])
    known = set(_pages(config["nav"]))
    for path in sorted(root.rglob("*.md")):
        place = path.relative_to(root).as_posix()
        folder = place.partition("/")[0] if "/" in place else ""
        if place not in known and folder not in ("changes", "from_code"):
            section = _SECTIONS.get(folder, _OTHERS)
            next(entry[section] for entry in config["nav"] if section in entry).append(place)
    return config


def _pages(nav: Any) -> Iterator[str]:
    for entry in nav if isinstance(nav, list) else [nav]:
        if isinstance(entry, dict):
            for below in entry.values():
                yield from _pages(below)
        else:
            yield entry


def generated() -> dict[str, str]:
    """Return the text of every generated page by its place below docs/."""
    pages = {"reference/hooks.md": hooks_page(), "reference/cli.md": commands_page()}
    return pages | {f"reference/api/{name}.md": api_page(name) for name in PAGES}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages to those of the folder."""
    for place, text in generated().items():
        files.append(File.generated(config, place, content=text))
    return files
