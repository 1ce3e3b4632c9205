"""`prune-engine policy`: what decides which schedules are dropped; shown, compared and pinned."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prune_engine.display.streams import writing_to_stdout

if TYPE_CHECKING:
    from prune_engine.provenance.policy import Policy

policy = typer.Typer(
    name="policy",
    help="What decides which schedules are dropped: show it, compare it, pin it.",
    no_args_is_help=True,
)

_DEVICE, _MEASURE, _STRATEGY, _OUTPUT = "Device", "Measuring", "Strategies", "Result"

Profile = Annotated[
    str, typer.Option(rich_help_panel=_DEVICE, help="Hardware profile: auto, a name, or a YAML file.")
]
Threads = Annotated[
    int | None,
    typer.Option(rich_help_panel=_DEVICE, min=1, help="Threads a kernel runs on.", show_default="usable cores"),
]
Explorer = Annotated[str | None, typer.Option(rich_help_panel=_STRATEGY, help="Explorer to use.")]
Draft = Annotated[str | None, typer.Option(rich_help_panel=_STRATEGY, help="Draft scorer to use, or none.")]
Verifier = Annotated[str | None, typer.Option(rich_help_panel=_STRATEGY, help="Verifier to use, or none.")]
Selector = Annotated[str | None, typer.Option(rich_help_panel=_STRATEGY, help="Selector to use.")]
Prior = Annotated[
    str | None,
    typer.Option(rich_help_panel=_STRATEGY, help="What the verifier starts from: builtin, none, or a model file."),
]
Batch = Annotated[int | None, typer.Option(rich_help_panel=_STRATEGY, min=1, help="Candidates per batch.")]
Plateau = Annotated[
    int | None,
    typer.Option(rich_help_panel=_STRATEGY, min=1, help="Close a task after so many trials without gain."),
]
DisableRule = Annotated[
    list[str] | None, typer.Option(rich_help_panel=_STRATEGY, help="Rule to leave out; may be repeated.")
]
Block = Annotated[
    list[str] | None, typer.Option(rich_help_panel=_STRATEGY, help="Plugin not to load; may be repeated.")
]
Plugin = Annotated[
    list[Path] | None, typer.Option(rich_help_panel=_STRATEGY, help="Plugin file to load too; may be repeated.")
]
Transfer = Annotated[
    bool,
    typer.Option("--transfer/--no-transfer", rich_help_panel=_STRATEGY, help="Begin with schedules tuned before."),
]
BuiltinLibrary = Annotated[
    bool,
    typer.Option(
        "--builtin-library/--no-builtin-library", rich_help_panel=_STRATEGY, help="Also with those shipped."
    ),
]
FpTolerance = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=_MEASURE,
        min=0,
        max=0.999,
        help="Relative error accepted of floating-point results.",
        show_default="by type and reduction length",
    ),
]
StrictFp = Annotated[
    bool,
    typer.Option("--strict-fp", rich_help_panel=_MEASURE, help="Add up in the untuned kernel's order only."),
]
StressCheck = Annotated[
    bool,
    typer.Option(
        "--stress-check/--no-stress-check",
        rich_help_panel=_MEASURE,
        help="Before a schedule ships, try it on inputs that are hard on numbers.",
    ),
]
StoreUrl = Annotated[
    str | None, typer.Option(help="Where runs are kept: file or URL.", show_default="user data folder")
]
AsJson = Annotated[bool, typer.Option("--json", rich_help_panel=_OUTPUT, help="Print JSON for machines.")]
_NO_ROOM = "Redirect it to a place with room."


@policy.command("show")
@writing_to_stdout(_NO_ROOM)
def show(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="current, a lock file, a result folder, or the id of a run.")
    ] = "current",
    profile: Profile = "auto",
    threads: Threads = None,
    explorer: Explorer = None,
    draft: Draft = None,
    verifier: Verifier = None,
    selector: Selector = None,
    prior: Prior = None,
    batch: Batch = None,
    plateau: Plateau = None,
    disable_rule: DisableRule = None,
    block: Block = None,
    plugin: Plugin = None,
    transfer: Transfer = True,
    builtin_library: BuiltinLibrary = True,
    fp_tolerance: FpTolerance = None,
    strict_fp: StrictFp = False,
    stress_check: StressCheck = True,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Show a policy: rules, thresholds, profile, models and versions, and its hash."""
    from prune_engine.cli.policy_sources import CurrentOptions, policy_from

    options = CurrentOptions(
        profile,
        threads,
        explorer,
        draft,
        verifier,
        selector,
        prior,
        batch,
        plateau,
        tuple(disable_rule or ()),
        tuple(block or ()),
        tuple(plugin or ()),
        transfer,
        builtin_library,
        fp_tolerance,
        strict_fp,
        stress_check,
    )
    title, found = policy_from(source, options, store)
    if as_json:
        typer.echo(json.dumps(found.as_json(), indent=2))
        return
    typer.echo(f"{title}: {found.hash}")
    for line in _lines(found):
        typer.echo(line)


@policy.command("diff")
@writing_to_stdout(_NO_ROOM)
def diff(
    old: Annotated[str, typer.Argument(metavar="A", help="current, a lock file, a result folder, or a run's id.")],
    new: Annotated[str, typer.Argument(metavar="B", help="The same.")] = "current",
    profile: Profile = "auto",
    threads: Threads = None,
    disable_rule: DisableRule = None,
    block: Block = None,
    plugin: Plugin = None,
    fp_tolerance: FpTolerance = None,
    strict_fp: StrictFp = False,
    stress_check: StressCheck = True,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """List what differs between two policies, field by field. The options say what "current" is."""
    from prune_engine.cli.policy_sources import CurrentOptions, policy_from
    from prune_engine.provenance.policy import change_lines
    from prune_engine.provenance.policy import diff as difference

    options = CurrentOptions(
        profile,
        threads,
        disabled_rules=tuple(disable_rule or ()),
        blocked_plugins=tuple(block or ()),
        plugin_files=tuple(plugin or ()),
        fp_tolerance=fp_tolerance,
        strict_fp=strict_fp,
        stress_check=stress_check,
    )
    (old_title, before), (new_title, after) = (policy_from(source, options, store) for source in (old, new))
    changes = difference(before, after)
    if as_json:
        record = {"old": before.hash, "new": after.hash, "changes": [asdict(change) for change in changes]}
        typer.echo(json.dumps(record, indent=2))
        return
    typer.echo(f"A: {old_title}, {before.short_hash}\nB: {new_title}, {after.short_hash}")
    for line in change_lines(changes) or ["no difference"]:
        typer.echo(line)


@policy.command("pin")
@writing_to_stdout(_NO_ROOM)
def pin(
    file: Annotated[Path, typer.Argument(help="The lock file to write.", show_default=False)],
    source: Annotated[
        str,
        typer.Option("--from", metavar="SOURCE", help="What to pin: current, a result folder, or the id of a run."),
    ] = "current",
    profile: Profile = "auto",
    threads: Threads = None,
    explorer: Explorer = None,
    draft: Draft = None,
    verifier: Verifier = None,
    selector: Selector = None,
    prior: Prior = None,
    batch: Batch = None,
    plateau: Plateau = None,
    disable_rule: DisableRule = None,
    block: Block = None,
    plugin: Plugin = None,
    transfer: Transfer = True,
    builtin_library: BuiltinLibrary = True,
    fp_tolerance: FpTolerance = None,
    strict_fp: StrictFp = False,
    stress_check: StressCheck = True,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Write a policy to a lock file, which `prune-engine tune --policy FILE` holds a run to."""
    from prune_engine.cli.policy_sources import CurrentOptions, policy_from
    from prune_engine.output_file import check_replaceable
    from prune_engine.provenance.policy_files import write_lock

    check_replaceable(file, head=b"{")
    options = CurrentOptions(
        profile,
        threads,
        explorer,
        draft,
        verifier,
        selector,
        prior,
        batch,
        plateau,
        tuple(disable_rule or ()),
        tuple(block or ()),
        tuple(plugin or ()),
        transfer,
        builtin_library,
        fp_tolerance,
        strict_fp,
        stress_check,
    )
    title, found = policy_from(source, options, store)
    write_lock(file, found)
    if as_json:
        typer.echo(json.dumps({"file": str(file), "pinned": title, "hash": found.hash}))
    else:
        typer.echo(f"pinned {title}, {found.short_hash}, in {file}")


def _lines(found: Policy) -> list[str]:
    """A policy for people, a section after the other."""
    content = found.content
    lines: list[str] = []
    rules = sorted(content["rules"].items(), key=lambda item: (item[1]["kind"] != "legality", item[1]["order"]))
    lines += ["", "rules, in the order they are asked"]
    for name, rule in rules:
        state = "" if rule["is_enabled"] else ", disabled"
        lines.append(f"  {name}: {rule['kind']}, of plugin {rule['plugin']}{state}")
    for section in ("strategies", "thresholds", "models", "packages"):
        lines += ["", section, *(f"  {name}: {_plain(value)}" for name, value in content[section].items())]
    profile = content["profile"]
    lines += ["", f"profile of kind {profile['kind']}, digest {profile['digest']}, terms by {profile['combine']}"]
    lines += [f"  {path}: {_plain(value)}" for path, value in profile["values"].items()]
    lines += ["", "plugins"]
    for name, plugin in content["plugins"].items():
        lines.append(f"  {name}: version {plugin['version'] or '-'}, digest {plugin['digest'] or '-'}")
    return lines


def _plain(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "true" if value else "false"  # as `diff` writes it
    return "none" if value is None else str(value)
