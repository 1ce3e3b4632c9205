"""Options that several verbs of `whitelist` have."""

from __future__ import annotations

from typing import Annotated

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
StoreOption = Annotated[
    str | None, typer.Option(help="Where the whitelist is kept: file or URL.", show_default="user data folder")
]
ByOption = Annotated[str | None, typer.Option(help="Who does it, for the record.", show_default="the user's name")]
ThreadsOption = Annotated[
    int | None, typer.Option(min=1, help="Threads a kernel runs on.", show_default="usable cores")
]
TargetOption = Annotated[str, typer.Option(help="TVM target of this machine: native, 'llvm -mcpu=...', or JSON.")]
ProfileOption = Annotated[str, typer.Option(help="Hardware profile: auto, a name, or a YAML file.")]
