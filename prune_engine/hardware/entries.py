"""Profiles as they are found in files: where each is from, and what is wrong with one that cannot be used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prune_engine.errors import ProfileError
from prune_engine.hardware.loader import load_profile
from prune_engine.hardware.schema import HardwareProfile


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """A profile that was found. ``origin`` is its file, or the plugin that computed it.

    ``profile`` is None, and ``error`` says why, for a file or a whole pack that cannot be used.
    """

    name: str
    layer: str
    origin: str
    profile: HardwareProfile | None
    error: ProfileError | None = None


def yaml_files(folder: Path) -> list[Path]:
    """The files of a folder that may be profiles, in order. A pipe is none: nobody may ever write into it."""
    found = [*folder.glob("*.yaml"), *folder.glob("*.yml")]
    return sorted(file for file in found if not file.is_fifo())


def entries_at(path: Path, layer: str) -> Iterator[ProfileEntry]:
    """The profile of a file, or all of a folder; none if there is no such file or folder."""
    for file in yaml_files(path) if path.is_dir() else [path]:
        if file.is_file():
            yield entry_of(file, layer)


def entry_of(file: Path, layer: str) -> ProfileEntry:
    """The profile of a file."""
    try:
        profile = load_profile(file)
    except ProfileError as error:
        return ProfileEntry(file.stem, layer, str(file), None, error)
    return ProfileEntry(profile.name, layer, str(file), profile)
