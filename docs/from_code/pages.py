"""A hook of mkdocs that adds the pages which come from the code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from api import PAGES, api_page
from commands import commands_page
from hooks import hooks_page
from mkdocs.structure.files import File


def generated() -> dict[str, str]:
    """Return the text of every generated page by its place below docs/."""
    pages = {"reference/hooks.md": hooks_page(), "reference/cli.md": commands_page()}
    return pages | {f"reference/api/{name}.md": api_page(name) for name in PAGES}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages to those of the folder."""
    for place, text in generated().items():
        files.append(File.generated(config, place, content=text))
    return files
