"""What verbs that measure have in common: signals, and the report at the end."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from prune_engine.display.streams import say, writing_to_stdout

if TYPE_CHECKING:
    from prune_engine.metaschedule.tune import TuneOutcome, TuneRequest


@contextmanager
def stop_on_signals(as_json: bool) -> Iterator[Callable[[], bool]]:
    """SIGINT and SIGTERM ask for an orderly end; a second one ends the program at once."""
    asked: list[int] = []

    def handle(number: int, _frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        message = "stopping after this batch; once more to stop at once"
        line = json.dumps({"event": "status", "message": message}) if as_json else message
        say(line)

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def report_outcome(request: TuneRequest, outcome: TuneOutcome, as_json: bool, page: Path | None = None) -> None:
    """Write ``result.json`` into the result folder, and the run's report to ``page``; print the result.

    Raises OutputError, and where the page cannot be made what `make_report` raises, after all else is done.
    """
    from prune_engine.api.records import as_record
    from prune_engine.cli.results import print_result
    from prune_engine.errors import PruneEngineError
    from prune_engine.output_file import write_whole
    from prune_engine.result_folder import write_result

    record = {**as_record(request, outcome), "report": str(page) if page else None}
    write_result(request.out_dir, json.dumps(record, indent=2) + "\n")
    problem: PruneEngineError | None = None
    if page is not None:
        from prune_engine.report.writing import make_report

        try:
            write_whole(page, make_report(str(request.out_dir)).html)
        except PruneEngineError as error:  # the result is there, and is told first
            problem = error
    with writing_to_stdout(f"The result itself is complete, in {request.out_dir}."):
        if as_json:
            typer.echo(json.dumps(record))
        else:
            print_result(outcome, page if problem is None else None)
    if problem is not None:
        raise problem
