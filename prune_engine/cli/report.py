"""`prune-engine report`: a run as one HTML file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from prune_engine.display.streams import say, writing_to_stdout
from prune_engine.result_folder import REPORT_HEAD, REPORT_NAME


def report(
    source: Annotated[
        str | None,
        typer.Argument(
            help="Folder of a result, or a store: its file or URL.",
            show_default="the store in the user data folder",
            metavar="FOLDER|STORE",
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(help="Id of the run, or how it begins.", show_default="the folder's, or the newest"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The file to write.", show_default=f"{REPORT_NAME} in the folder, or here"
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(help="Where the folder's store is now.", show_default="where the result says"),
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Say as JSON what was written.")] = False,
) -> None:
    """Write one run as a single HTML file that needs no network: for people, printers and archives.

    It shows what was gained, where candidates were pruned and why, how well the guesses held, what failed,
    and what the run was made with.
    """
    from prune_engine.output_file import check_place, write_whole
    from prune_engine.report.writing import make_report

    if out is not None:
        check_place(out, head=REPORT_HEAD)
    made = make_report(source, run, store_url=store)
    file = out or (made.folder or Path()) / REPORT_NAME
    write_whole(file, made.html)
    with writing_to_stdout(f"The report itself is written, to {file}."):
        if as_json:
            size = len(made.html.encode())
            told = {"file": str(file), "run_id": made.run_id, "headline": made.headline, "n_bytes": size}
            typer.echo(json.dumps(told))
        else:
            typer.echo(made.headline)
            typer.echo(f"written to {file}")
    if open_it:
        import webbrowser

        if not webbrowser.open(file.resolve().as_uri()):
            say("warning: no browser could be started; open the file by hand")
