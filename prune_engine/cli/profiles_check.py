"""`prune-engine profiles check`: all mistakes of files, folders, packs and wheels at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prune_engine.display.streams import say, writing_to_stdout
from prune_engine.errors import ProfileError

if TYPE_CHECKING:
    from prune_engine.hardware import HardwareProfile, ProfileEntry
    from prune_engine.hardware.packs import Pack

#: The layer of the profiles that ship.
_BUILT_IN = "built in"


@dataclass
class _Found:
    """Profiles that belong together, and what is said of them as a whole."""

    entries: list[ProfileEntry]
    pack: str | None = None
    notes: list[str] = field(default_factory=list)


def check(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="WHAT",
            help="YAML files, folders of them, projects of packs, wheels; names of profiles or installed packs.",
            show_default=False,
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Check profiles of one's own: all mistakes are told; the exit code is 2 if there are any.

    Of an NPU, whose memory levels have the vendor's names, those are noted that no rule reads.
    """
    found = [part for one in what for part in _found(one)]
    rows = [row for part in found for row in _rows(part)]
    n_broken = sum(bool(row["error"]) for row in rows)
    with writing_to_stdout("Redirect it to a place with room."):
        if as_json:
            typer.echo(json.dumps({"profiles": rows, "n_broken": n_broken}, indent=2))
        else:
            for row in rows:
                _print(row)
            if len(rows) > 1 and n_broken:
                typer.echo(f"{n_broken} of {len(rows)} profiles cannot be used, the others can")
    if n_broken:
        raise typer.Exit(ProfileError.exit_code)


def _print(row: dict[str, Any]) -> None:
    if row["error"]:
        say(f"error: {row['error']}")
    else:
        typer.echo(f"{row['file']}: ok, {row['name']}: {row['n_known']} numbers, {row['n_unknown']} unknown")
    for note in row["notes"]:
        say(f"note: {row['file']}: {note}")


def _found(what: str) -> Iterator[_Found]:
    from prune_engine.hardware.entries import ProfileEntry, entry_of, yaml_files
    from prune_engine.hardware.packs import is_project, packs_of_project, packs_of_wheel

    path = Path(what)
    try:
        if path.is_dir() and is_project(path):
            for pack in packs_of_project(path):
                yield _of_project(pack, path)
        elif path.suffix == ".whl":
            for pack in packs_of_wheel(path):
                yield _Found(list(pack.entries), pack.name)
        elif path.is_dir():
            files = yaml_files(path)
            if not files:
                raise ProfileError(
                    "the folder holds no profile",
                    who=what,
                    expected="*.yaml, or a pyproject.toml with the entry point of a pack",
                    remedy="Name a file, or the folder it is in.",
                )
            yield _Found([entry_of(file, "file") for file in files])
        elif path.exists() or path.suffix in (".yaml", ".yml"):
            yield _Found([entry_of(path, "file")])
        else:
            yield _by_name(what)
    except ProfileError as error:
        yield _Found([ProfileEntry(path.stem, "file", what, None, error)])


def _of_project(pack: Pack, folder: Path) -> _Found:
    from prune_engine.hardware.packs import ships_yaml

    found = _Found(list(pack.entries), pack.name)
    if not ships_yaml(folder, pack.package):
        found.notes.append(
            'the wheel will hold no YAML: add [tool.setuptools.package-data] "*" = ["*.yaml"] to pyproject.toml'
        )
    return found


def _by_name(name: str) -> _Found:
    """An installed pack, by its entry point or distribution, or one profile by name. Raises ProfileError."""
    from prune_engine.cli.profiles import registry_with_plugins
    from prune_engine.hardware.pack_project import import_name
    from prune_engine.hardware.packs import installed_packs

    for pack in installed_packs():
        if name == pack.name or import_name(name) in (import_name(pack.origin.split()[0]), pack.package):
            return _Found(list(pack.entries), pack.name)
    registry = registry_with_plugins()
    wanted = name.lower().replace("/", "-")
    for entry in registry.entries():
        if wanted in (entry.name, *(entry.profile.aliases if entry.profile else ())):
            return _Found([entry])
    registry.resolve(name)  # says what there is
    raise AssertionError(f"{name} was resolved, but is in no entry")


def _rows(found: _Found) -> Iterator[dict[str, Any]]:
    from prune_engine.hardware.fields import number_rows
    from prune_engine.hardware.packs import repeated_names

    clashes: dict[str, list[str]] = {}
    for entry, name, owner in repeated_names(tuple(found.entries)):
        clashes.setdefault(entry.origin, []).append(f"{name} is a name of {owner.origin}, too, which comes first")
    for number, entry in enumerate(found.entries):
        numbers = number_rows(entry.profile) if entry.profile else []
        n_unknown = sum(row.value is None for row in numbers)
        clash = clashes.get(entry.origin, [])
        error = (
            str(entry.error)
            if entry.error
            else f"{entry.origin}: {'; '.join(clash)}. Rename one."
            if clash
            else None
        )
        yield {
            "file": entry.origin,
            "pack": found.pack,
            "name": entry.name,
            "kind": entry.profile.kind.value if entry.profile else None,
            "n_known": len(numbers) - n_unknown,
            "n_unknown": n_unknown,
            "notes": [*(found.notes if number == 0 else ()), *_hidden(entry), *_notes(entry.profile)],
            "error": error,
            "mistakes": [
                {"line": line, "problem": problem, "remedy": remedy or None}
                for line, problem, remedy in (entry.error.mistakes if entry.error else ())
            ],
        }


def _hidden(entry: ProfileEntry) -> Iterator[str]:
    """Built-in profiles whose place this one takes, wherever it is found without its path."""
    names = {entry.name, *entry.profile.aliases} if entry.profile else set()
    for other in _built_in() if names else ():
        if other.profile is None or other.profile == entry.profile:
            continue
        shared = sorted(names.intersection((other.name, *other.profile.aliases)))
        if shared:
            yield f"hides the built-in profile {other.name}: both are called {', '.join(shared)}"


@cache
def _built_in() -> tuple[ProfileEntry, ...]:
    from prune_engine.hardware import ProfileRegistry

    return tuple(entry for entry in ProfileRegistry(environ={}).entries() if entry.layer == _BUILT_IN)


def _notes(profile: HardwareProfile | None) -> Iterator[str]:
    from prune_engine.hardware import DeviceKind, level_names

    if profile is not None and profile.kind is DeviceKind.NPU:
        read_levels = _levels_of_rules()
        unread = ", ".join(m.name for m in profile.memory if m.name not in {*read_levels, "dram"})
        known = ", ".join(sorted(read_levels - {*level_names(DeviceKind.CPU)}))
        if unread:
            yield f"no rule reads memory {unread}; rules read {known}"


def _levels_of_rules() -> set[str]:
    """Memory levels that a rule of any plugin reads, by name."""
    from prune_engine.config import EngineConfig
    from prune_engine.plugins import PluginHost
    from prune_engine.strategies import Rule

    config = EngineConfig()
    host = PluginHost(config)
    host.load()
    rules = [rule for _, rule in host.collect("register_rules", config=config) if isinstance(rule, Rule)]
    paths = [path.split(".") for rule in rules for path in rule.hardware_basis]
    return {path[1] for path in paths if path[0] == "memory"}
