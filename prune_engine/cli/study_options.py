"""Options that `spaces`, `prune` and `candidates` share, and what they make of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prune_engine.display.streams import say

if TYPE_CHECKING:
    from prune_engine.metaschedule.study import Study

_DEVICE, _STRATEGY, _OUTPUT = "Device", "Strategies", "Result"

What = Annotated[
    str,
    typer.Argument(
        metavar="WORKLOAD",
        help="A workload such as gemm:512x512x512, an ONNX file, or a file of kernels: .py, .json.",
        show_default=False,
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=_DEVICE,
        help="Target: native, cuda/a100, 'llvm -mcpu=...', or JSON.",
        show_default="the profile's, else native",
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=_DEVICE,
        help="Hardware profile: auto, a name, or a YAML file.",
        show_default="that of the target's device",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        rich_help_panel=_DEVICE, min=1, help="Threads a kernel runs on.", show_default="the profile's cores"
    ),
]
Shape = Annotated[list[str] | None, typer.Option(help="Shape of an input, x=1x3x224x224; may be repeated.")]
Dim = Annotated[list[str] | None, typer.Option(help="Size of a symbolic dimension, batch=1; may be repeated.")]
Task = Annotated[str | None, typer.Option(help="One task only: its name, number, or the first letters of its id.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of every random draw.")]
DisableRule = Annotated[
    list[str] | None, typer.Option(rich_help_panel=_STRATEGY, help="Rule to leave out; may be repeated.")
]
Block = Annotated[
    list[str] | None, typer.Option(rich_help_panel=_STRATEGY, help="Plugin not to load; may be repeated.")
]
Plugin = Annotated[
    list[Path] | None, typer.Option(rich_help_panel=_STRATEGY, help="Plugin file to load too; may be repeated.")
]
Strict = Annotated[bool, typer.Option(rich_help_panel=_STRATEGY, help="Stop at the first plugin that fails.")]
AsJson = Annotated[bool, typer.Option("--json", rich_help_panel=_OUTPUT, help="Print JSON for machines.")]


def open_study(
    what: str,
    *,
    target: str | None,
    profile: str | None,
    threads: int | None,
    shape: Sequence[str] | None,
    dim: Sequence[str] | None,
    disabled_rules: Sequence[str] | None,
    blocked_plugins: Sequence[str] | None,
    plugin_files: Sequence[Path] | None,
    strict: bool,
    draft_scorer: str | None = None,
    **config: object,
) -> Study:
    """Read the options and open a study; on a terminal, ask for what a model leaves open.

    Raises what reading them, or Study, raises.
    """
    from prune_engine.cli.options import ask_for_open_dimensions, check_blocked, parse_dim, parse_shape
    from prune_engine.config import EngineConfig
    from prune_engine.metaschedule.study import Study
    from prune_engine.metaschedule.study_device import StudyRequest
    from prune_engine.metaschedule.workloads.loading import SourceKind, source_kind

    options = EngineConfig.of(
        draft_scorer=draft_scorer,
        verifier=None,
        disabled_rules=tuple(disabled_rules or ()),
        blocked_plugins=tuple(blocked_plugins or ()),
        plugin_files=tuple(plugin_files or ()),
        strict=strict,
        **config,
    )
    check_blocked(options.blocked_plugins, options.plugin_files)
    shapes, dims = dict(map(parse_shape, shape or ())), dict(map(parse_dim, dim or ()))
    if source_kind(what) is SourceKind.ONNX:
        shapes, dims = ask_for_open_dimensions(Path(what), shapes, dims)
    request = StudyRequest(what, options, target, profile, threads, shapes, dims)
    return Study(request, say=say)
