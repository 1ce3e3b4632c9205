"""`prune-engine profiles new`: a profile to be filled in, alone or in a pack of its own."""

from __future__ import annotations

import importlib.util
import json
import keyword
import re
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prune_engine.display.streams import say, writing_to_stdout
from prune_engine.errors import ConfigError, OutputError

if TYPE_CHECKING:
    from prune_engine.hardware import ProfileRegistry

_NAME = re.compile(r"([a-z0-9][a-z0-9._-]*)/([a-z0-9][a-z0-9._-]*)")
_DISTRIBUTION = re.compile(r"[A-Za-z]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_MAX_NAME = 80


class Kind(str, Enum):
    """What --kind takes."""

    CPU, GPU, NPU = "cpu", "gpu", "npu"


def new(
    name: Annotated[str, typer.Argument(metavar="VENDOR/DEVICE", help="Such as acme/npu1.", show_default=False)],
    kind: Annotated[Kind | None, typer.Option(help="Kind of device.", show_default="that of --like")] = None,
    like: Annotated[
        str | None, typer.Option(help="Profile whose numbers to begin with; their sources are left to you.")
    ] = None,
    folder: Annotated[Path, typer.Option(help="Folder for the file, or for the pack's folder.")] = Path(),
    pack: Annotated[
        str | None, typer.Option(metavar="NAME", help="Write a whole pack of this name, which pip can install.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Write a profile to be filled in: every field with unit and meaning, null where nobody knows.

    With --pack it is a project around that file. Nothing is ever overwritten.
    """
    from prune_engine.hardware.pack_project import pack_project

    vendor, profile_name = _checked_name(name)
    files: Mapping[str, str]
    text = _profile_text(name, profile_name, kind, like)
    if pack is None:
        root, files = folder, {f"{profile_name}.yaml": text}
    else:
        _check_pack(pack)
        root, files = folder / pack, pack_project(pack, vendor, f"{profile_name}.yaml", text)
    _write_new(root, files, is_pack=pack is not None)
    written = [str(root / file) for file in files]
    with writing_to_stdout("Redirect it to a place with room."):
        if as_json:
            typer.echo(json.dumps({"name": profile_name, "pack": pack, "files": written}, indent=2))
        else:
            for file in written:
                typer.echo(f"written: {file}")
            typer.echo(f"next: fill it in, then `prune-engine profiles check {root if pack else written[0]}`")


def _checked_name(name: str) -> tuple[str, str]:
    matched = _NAME.fullmatch(name)
    if not matched or len(name) > _MAX_NAME:
        close = re.sub(r"[^a-z0-9._/-]+", "-", name.lower()).strip("-._/")
        fitting = close if _NAME.fullmatch(close) and len(close) <= _MAX_NAME else None
        raise ConfigError(
            "no name for a profile",
            who="profiles new",
            got=repr(name),
            expected=f"vendor/device, each of a-z, 0-9, '.', '_', '-', {_MAX_NAME} characters in all",
            remedy=f"Write {fitting}." if fitting else "Write it as in acme/npu1.",
        )
    return matched[1], name.replace("/", "-")


def _profile_text(name: str, profile_name: str, kind: Kind | None, like: str | None) -> str:
    from prune_engine.cli.profiles import registry_with_plugins
    from prune_engine.hardware import DeviceKind
    from prune_engine.hardware.template import template, template_like

    registry = registry_with_plugins()
    _say_what_is_hidden(registry, profile_name)
    description = " ".join(part.upper() for part in name.split("/"))
    if like is not None:
        other = registry.resolve(like)
        if kind is not None and kind.value != other.kind.value:
            raise ConfigError(
                f"{other.name} is a {other.kind.value}", who="--kind", got=kind.value, remedy="Leave --kind out."
            )
        return template_like(profile_name, other, description)
    if kind is None:
        raise ConfigError(
            "which kind of device?",
            who="profiles new",
            expected="--kind cpu, gpu or npu, or --like a profile",
            remedy="Add one of them.",
        )
    return template(profile_name, DeviceKind(kind.value), description)


def _say_what_is_hidden(registry: ProfileRegistry, name: str) -> None:
    for entry in registry.entries():
        if entry.profile and name in (entry.name, *entry.profile.aliases):
            say(f"note: {name} is a profile already ({entry.layer}); the one that is found first counts")
            return


def _check_pack(name: str) -> None:
    from prune_engine.hardware.pack_project import import_name

    package = import_name(name)
    if not _DISTRIBUTION.fullmatch(name) or len(name) > _MAX_NAME or keyword.iskeyword(package):
        raise ConfigError(
            "no name for a pack",
            who="--pack",
            got=repr(name),
            expected=f"letters, digits, '.', '_', '-', beginning with a letter, {_MAX_NAME} characters in all",
            remedy="Write it as in acme-profiles.",
        )
    if package in sys.stdlib_module_names or importlib.util.find_spec(package) is not None:
        raise ConfigError(
            f"a package {package} is installed already, and one would hide the other",
            who="--pack",
            got=repr(name),
            remedy="Choose another name.",
        )


def _write_new(root: Path, files: Mapping[str, str], *, is_pack: bool) -> None:
    """Write files that are not there yet. Raises OutputError, before it writes any, if one is."""
    taken = [root] if is_pack and root.exists() else [root / file for file in files if (root / file).exists()]
    if taken:
        raise OutputError(
            "is there already, and nothing is overwritten",
            who=str(taken[0]),
            remedy="Choose another name or --folder"
            + (f"; `--folder {root}/src/...` without --pack adds a device to a pack." if is_pack else "."),
        )
    try:
        for file, text in files.items():
            path = root / file
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as opened:
                opened.write(text)
    except OSError as error:
        raise OutputError(
            f"cannot be written ({error.strerror or error})",
            who=str(error.filename or root),
            remedy="Name another place by --folder.",
        ) from error
