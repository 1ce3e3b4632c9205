"""Profile packs: packages of YAML files with an entry point, as they are installed, as projects and as wheels.

A pack is data: nothing of it is ever imported. One broken file costs that file only.
"""

from __future__ import annotations

import configparser
import importlib.util
import re
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path, PurePosixPath
from typing import Any

from prune_engine.errors import ProfileError
from prune_engine.hardware.entries import ProfileEntry, entries_at, yaml_files
from prune_engine.hardware.loader import MAX_BYTES, profile_from_bytes

ENTRY_POINT_GROUP = "prune_engine.hardware_profiles"
_PACKAGE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_ENTRY_POINT_LINE = f'[project.entry-points."{ENTRY_POINT_GROUP}"]'
#: What a damaged, encrypted or unknown kind of archive raises when it is read.
_ARCHIVE_ERRORS = (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError)


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack with its profiles; ``name`` is that of the entry point, ``origin`` a distribution, folder or wheel.

    A pack that cannot be used as a whole has one entry, with the error.
    """

    name: str
    package: str
    origin: str
    entries: tuple[ProfileEntry, ...]


def installed_packs() -> Iterator[Pack]:
    """The packs of this environment, by name."""
    points = {(p.name, p.value): p for p in reversed(tuple(entry_points(group=ENTRY_POINT_GROUP)))}
    for _, point in sorted(points.items()):
        layer, origin = f"pack {point.name}", _distribution(point)
        try:
            entries = tuple(entry for folder in _installed(point.value) for entry in entries_at(folder, layer))
        except ProfileError as error:
            entries = (ProfileEntry(point.name, layer, origin, None, error),)
        yield Pack(point.name, point.value, origin, entries or (_nothing(point.name, point.value, origin),))


def is_project(path: Path) -> bool:
    """Whether a folder is a Python project, of a pack or something else."""
    return (path / "pyproject.toml").is_file()


def packs_of_project(folder: Path) -> Iterator[Pack]:
    """The packs that a project's pyproject.toml declares. Raises ProfileError if it cannot be read or has none."""
    file = folder / "pyproject.toml"
    content = _toml(file)
    points = _table(content, "project", "entry-points", ENTRY_POINT_GROUP)
    if not points:
        raise ProfileError(
            "the project declares no pack",
            who=str(file),
            expected=f'a table {_ENTRY_POINT_LINE} with a line such as acme = "acme_pack"',
            remedy="Add it; `prune-engine profiles new VENDOR/DEVICE --pack NAME` writes a whole project.",
        )
    for name, package in points.items():
        layer = f"pack {name}"
        try:
            root = _project_package(folder, content, str(package), file)
            entries = tuple(entries_at(root, layer))
        except ProfileError as error:
            entries = (ProfileEntry(name, layer, str(file), None, error),)
        yield Pack(name, str(package), str(folder), entries or (_nothing(name, str(package), str(file)),))


def ships_yaml(folder: Path, package: str) -> bool:
    """Whether a project's YAML files get into its wheel, as far as pyproject.toml tells."""
    content = _toml(folder / "pyproject.toml")
    backend = str(_table(content, "build-system").get("build-backend", "setuptools"))
    if not backend.startswith("setuptools") or (folder / "MANIFEST.in").is_file():
        return True
    data = _table(content, "tool", "setuptools", "package-data")
    listed = [data.get(key) for key in ("*", package)]
    patterns = [pattern for one in listed if isinstance(one, list) for pattern in one]
    return any(PurePosixPath("x.yaml").match(str(pattern)) for pattern in patterns if pattern)


def packs_of_wheel(wheel: Path) -> Iterator[Pack]:
    """The packs in a wheel. Raises ProfileError for what is no wheel or has none."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            points = _entry_points(archive, wheel)
            yield from _packs_of_archive(archive, points, wheel)
    except _ARCHIVE_ERRORS as error:
        raise _unreadable(wheel, error) from error


def _entry_points(archive: zipfile.ZipFile, wheel: Path) -> configparser.ConfigParser:
    """What the wheel's ``entry_points.txt`` says; nothing where there is none. Raises ProfileError."""
    pattern = r"[^/]+\.dist-info/entry_points\.txt"
    described = next((n for n in archive.namelist() if re.fullmatch(pattern, n)), None)
    points = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    points.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    if described is None:
        return points
    with archive.open(described) as file:
        text = file.read(MAX_BYTES + 1)
    try:
        if len(text) > MAX_BYTES:
            raise ValueError(f"more than {MAX_BYTES} bytes")
        points.read_string(text.decode("utf-8"), described)
    except (configparser.Error, ValueError) as error:
        raise ProfileError(
            f"cannot be read: {' '.join(str(error).split())}",
            who=f"{wheel}/{described}",
            expected=f'a section [{ENTRY_POINT_GROUP}] with lines such as "acme = acme_pack"',
            remedy="Build the wheel anew.",
        ) from error
    return points


def _packs_of_archive(archive: zipfile.ZipFile, points: configparser.ConfigParser, wheel: Path) -> Iterator[Pack]:
    names = archive.namelist()
    if not points.has_section(ENTRY_POINT_GROUP):
        raise ProfileError(
            "the wheel holds no pack",
            who=str(wheel),
            expected=f"an entry point in the group {ENTRY_POINT_GROUP}",
            remedy=f"Add {_ENTRY_POINT_LINE} to its pyproject.toml.",
        )
    for name, package in points.items(ENTRY_POINT_GROUP):
        layer = f"pack {name}"
        try:
            folder = "/".join(_parts(package))
        except ProfileError as error:
            yield Pack(name, package, str(wheel), (ProfileEntry(name, layer, str(wheel), None, error),))
            continue
        files = [n for n in names if re.fullmatch(rf"{re.escape(folder)}/[^/]+\.ya?ml", n)]
        entries = tuple(_entry_in(archive, file, wheel, layer) for file in sorted(files))
        yield Pack(name, package, str(wheel), entries or (_nothing(name, package, str(wheel)),))


def _entry_in(archive: zipfile.ZipFile, member: str, wheel: Path, layer: str) -> ProfileEntry:
    origin = f"{wheel}/{member}"
    try:
        with archive.open(member) as file:
            profile = profile_from_bytes(file.read(MAX_BYTES + 1), origin)
    except _ARCHIVE_ERRORS as damage:
        return ProfileEntry(PurePosixPath(member).stem, layer, origin, None, _unreadable(Path(origin), damage))
    except ProfileError as error:
        return ProfileEntry(PurePosixPath(member).stem, layer, origin, None, error)
    return ProfileEntry(profile.name, layer, origin, profile)


def _unreadable(place: Path, error: Exception) -> ProfileError:
    return ProfileError(f"cannot be read: {error}", who=str(place), expected="a wheel", remedy="Build it anew.")


def _nothing(name: str, package: str, origin: str) -> ProfileEntry:
    error = ProfileError(
        f"the package {package} holds no YAML file",
        who=f"pack {name} ({origin})",
        expected="one file per device, in the package itself",
        remedy='See that the files are packaged: setuptools wants [tool.setuptools.package-data] "*" = ["*.yaml"].',
    )
    return ProfileEntry(name, f"pack {name}", origin, None, error)


def _installed(package: str) -> list[Path]:
    """The folders of an installed package, found without importing it or what it is in. Raises ProfileError."""
    top, *inner = _parts(package)
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError) as error:
        raise _missing(package, str(error)) from error
    locations = (spec.submodule_search_locations if spec else None) or ()
    folders = [folder for base in locations if (folder := Path(base, *inner)).is_dir()]
    if not folders:
        raise _missing(
            package, "no such package is installed" if spec is None else "it is no package with a folder"
        )
    return folders


def _project_package(folder: Path, content: Mapping[str, Any], package: str, file: Path) -> Path:
    parts = _parts(package)
    mapped = _table(content, "tool", "setuptools", "package-dir")
    places = [folder / str(mapped[package])] if package in mapped else []
    places += [Path(folder, str(base), *parts) for base in (mapped.get("", "."), ".", "src")]
    found = next((place for place in places if place.is_dir()), None)
    if found is None:
        raise ProfileError(
            f"names the package {package}, which is not in the project",
            who=str(file),
            expected=f"a folder {' or '.join(str(place) for place in dict.fromkeys(places))}",
            remedy="Correct the entry point, or move the YAML files there.",
        )
    return found


def _parts(package: str) -> list[str]:
    if not _PACKAGE.fullmatch(package):
        raise ProfileError(
            "an entry point of a pack names a package",
            who=f"entry point in {ENTRY_POINT_GROUP}",
            got=repr(package),
            expected="a package such as acme_pack, without a colon",
            remedy="Correct it in the pack's pyproject.toml, and install the pack again.",
        )
    return package.split(".")


def _missing(package: str, why: str) -> ProfileError:
    return ProfileError(
        f"package {package} cannot be found: {why}",
        who=f"entry point in {ENTRY_POINT_GROUP}",
        expected="an installed package of YAML files",
        remedy="Install the pack again, or uninstall it; the entry point must name the package as it is imported.",
    )


def _distribution(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def _table(content: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """The table at a path; empty where there is none, or something else."""
    node: Any = content
    for key in path:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node if isinstance(node, Mapping) else {}


def _toml(file: Path) -> Mapping[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        with file.open("rb") as opened:
            content: Mapping[str, Any] = tomllib.load(opened)
    except (OSError, ValueError) as error:  # syntax errors and bytes that are no text are ValueErrors
        raise ProfileError(
            f"cannot be read: {error}", who=str(file), expected="a TOML file in UTF-8", remedy="Correct it."
        ) from error
    return content


def repeated_names(entries: tuple[ProfileEntry, ...]) -> Iterator[tuple[ProfileEntry, str, ProfileEntry]]:
    """Names and aliases of a pack that two of its profiles claim: the later entry, the name, the one that wins."""
    owners: dict[str, ProfileEntry] = {}
    for entry in entries:
        for name in (entry.name, *entry.profile.aliases) if entry.profile else ():
            owner = owners.setdefault(name, entry)
            if owner is not entry:
                yield entry, name, owner


__all__ = [
    "ENTRY_POINT_GROUP",
    "Pack",
    "installed_packs",
    "is_project",
    "packs_of_project",
    "packs_of_wheel",
    "repeated_names",
    "ships_yaml",
    "yaml_files",
]
