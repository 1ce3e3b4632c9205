"""`--report [FILE.html]` of the verbs that tune: the option's value may be left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from prune_engine.result_folder import REPORT_HEAD, REPORT_NAME

_OPTION = "--report"
_ENDINGS = (".html", ".htm")

#: The option: None without it, "" with it alone.
Report = Annotated[
    str | None,
    typer.Option(
        _OPTION,
        rich_help_panel="Result",
        metavar="[FILE.html]",
        help=f"Write the run as a page at the end, by default {REPORT_NAME} in the result folder.",
        show_default=False,
    ),
]


class ReportingCommand(TyperCommand):
    """A command whose ``--report`` takes the next word only if that is the name of a page: it may be the model."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, with the option's value in its own word."""
        return super().parse_args(ctx, list(_joined(args)))


def report_file(report: str | None, out_dir: Path) -> Path | None:
    """Where the page is to be written, None if none is. Raises OutputError for a place that cannot be."""
    from prune_engine.output_file import check_place, check_replaceable

    if report is None:
        return None
    file = Path(report) if report else out_dir / REPORT_NAME
    # The result's own folder is made when there is something to put into it.
    check_replaceable(file, REPORT_HEAD) if file.parent == out_dir else check_place(file, head=REPORT_HEAD)
    return file


def _joined(args: Sequence[str]) -> Iterator[str]:
    words = iter(args)
    for word in words:
        if word == "--":
            yield word
            yield from words
            return
        if word != _OPTION:
            yield word
            continue
        following = next(words, None)
        if following is not None and following.lower().endswith(_ENDINGS):
            yield f"{_OPTION}={following}"
            continue
        yield f"{_OPTION}="
        if following is not None:
            yield from _joined([following, *words])
            return
