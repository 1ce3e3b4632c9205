"""What `prune-engine prior` learns from: databases, tables and stores, all of them of one device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from prune_engine.cli.late_progress import LateProgress
from prune_engine.cli.recorded_tables import is_table, profile_of_device
from prune_engine.errors import ConfigError, ProfileError

if TYPE_CHECKING:
    from prune_engine.hardware.registry import ProfileRegistry
    from prune_engine.hardware.schema import HardwareProfile
    from prune_engine.metaschedule.stored_spaces import Programs, StoredDevice
    from prune_engine.recorded.spaces import RecordedSpace, Recording
    from prune_engine.store.base import Store

_OTHERS_REMEDY = "Learn a prior of each alone."


class Kind(Enum):
    """What a source is."""

    DATABASE = "database"
    TABLE = "table"
    STORE = "store"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the options say of where the sources were measured; None is for the sources to say."""

    profile: str | None
    n_threads: int | None
    device: str | None
    programs: Programs


@dataclass(frozen=True, slots=True)
class Part:
    """What one source holds, and what it says it was measured on."""

    source: str
    spaces: tuple[RecordedSpace, ...]
    remarks: tuple[str, ...]
    profile: HardwareProfile | None
    n_threads: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sources:
    """All that was read: ``of[i]`` names the source of ``spaces[i]``."""

    spaces: tuple[RecordedSpace, ...]
    of: tuple[str, ...]
    remarks: tuple[str, ...]
    profile: HardwareProfile
    n_threads: int | None


def kind_of(source: str) -> Kind:
    """What a source is, by its form. Raises ConfigError for one that is not there."""
    from prune_engine.output_file import is_store

    if "://" in source:
        return Kind.STORE
    path = Path(source)
    if not path.exists():
        raise ConfigError(
            "there is no such file or folder",
            who=source,
            expected="a MetaSchedule database or result folder, a table of kernels (.tsv, .tsv.gz), or a store",
        )
    if is_table(path):
        return Kind.TABLE
    return Kind.STORE if is_store(path) else Kind.DATABASE


def read_sources(sources: Sequence[tuple[str, Kind]], asked: Asked) -> Sources:
    """Read all sources. What of them cannot be used is told in ``remarks``.

    Raises ConfigError where nobody says what they were measured on, or they were measured on different things, and
    what reading each of them raises.
    """
    from prune_engine.hardware.registry import ProfileRegistry

    if asked.profile is None and (of_nobody := [source for source, kind in sources if kind is Kind.DATABASE]):
        raise ConfigError(
            "databases do not say what they were measured on",
            who=", ".join(of_nobody),
            expected="--profile with that device's name or file, or auto for this machine",
        )
    registry = ProfileRegistry()
    if asked.profile is not None:  # before anything that takes seconds
        registry.resolve(asked.profile, n_threads=asked.n_threads)
    progress, parts = LateProgress(), []
    for number, (source, kind) in enumerate(sources):
        progress.tell(f"read {number} of {len(sources)} recordings")
        if kind is Kind.STORE:
            parts.append(_of_store(source, asked))
        else:
            parts.append(_of_table(source, asked) if kind is Kind.TABLE else _of_database(source, asked))
    n_threads = _threads(parts)
    profile = _profile(parts, asked.profile, n_threads, registry)
    fitting, misfits = _fitting(parts, profile)
    return Sources(
        tuple(space for _, space in fitting),
        tuple(source for source, _ in fitting),
        (*(remark for part in parts for remark in part.remarks), *misfits),
        profile,
        n_threads,
    )


def _of_database(source: str, asked: Asked) -> Part:
    """Whatever is said of the device, the threads are those that the targets state."""
    from prune_engine.metaschedule.recorded import read_recorded
    from prune_engine.metaschedule.targets import threads_of
    from prune_engine.result_folder import DATABASE_FOLDER

    folder = Path(source)
    if (folder / DATABASE_FOLDER).is_dir():
        folder /= DATABASE_FOLDER
    recording = read_recorded(folder)
    stated = {threads_of(space.task.target) for space in recording.spaces} - {None}
    threads = (asked.n_threads,) if asked.n_threads else tuple(sorted(n for n in stated if n))
    return Part(source, recording.spaces, _remarks(recording), None, threads)


def _of_table(source: str, asked: Asked) -> Part:
    from prune_engine.recorded.kernel_table_files import read_kernel_tables

    spaces, remarks, profile = [], [], None
    for table in read_kernel_tables(Path(source)):
        remarks += [f"{table.name}: {remark}" for remark in table.remarks]
        if asked.device is None:
            raise ConfigError(
                "a table has several devices", who=source, expected=f"--device {' or '.join(table.devices)}"
            )
        spaces.append(table.recorded(asked.device))
        profile = profile or (None if asked.profile else profile_of_device(table.device(asked.device), None))
    return Part(source, tuple(spaces), tuple(remarks), profile, ())


def _of_store(source: str, asked: Asked) -> Part:
    from prune_engine.metaschedule.stored_spaces import read_stored
    from prune_engine.store.open import open_existing_store

    store = open_existing_store(source)
    try:
        device = _device_in(store, asked)
        profile = None if asked.profile else _profile_of_runs(store, device)
        recording = read_stored(store, device, asked.programs)
        return Part(store.url, recording.spaces, _remarks(recording), profile, (device.n_threads,))
    finally:
        store.close()


def _device_in(store: Store, asked: Asked) -> StoredDevice:
    """The one of a store's devices that is meant. Raises ConfigError."""
    from prune_engine.metaschedule.stored_spaces import devices_of
    from prune_engine.recorded.kernel_tables import plain_device_name

    known = devices_of(store)
    found = [
        one
        for one in known
        if (asked.device is None or plain_device_name(one.device_name) == plain_device_name(asked.device))
        and asked.n_threads in (None, one.n_threads)
    ]
    if len(found) == 1:
        return found[0]
    if not known:
        raise ConfigError("nothing was measured there", who=store.url, expected="a store that `tune` has written")
    listed = "; ".join(map(str, known))
    raise ConfigError(
        "the store has measurements of several devices" if found else "the store has none of this device",
        who=store.url,
        got=listed if found else f"{asked.device or 'any device'}, {asked.n_threads or 'any number of'} threads",
        expected="one of them, by --device and --threads" if found else f"one of: {listed}",
    )


def _profile_of_runs(store: Store, device: StoredDevice) -> HardwareProfile:
    """The profile of the newest run on a device. Raises ConfigError where none can be read."""
    from prune_engine.report.environment import profile_of

    profile, why = profile_of(device.runs[0].manifest)
    if profile is None:
        raise ConfigError(
            "does not tell the profile of its device", who=store.url, got=why, remedy="Name one by --profile."
        )
    return profile


def _remarks(recording: Recording) -> tuple[str, ...]:
    unmatched = (f"{space.name}: {space.remark}" for space in recording.spaces if space.remark)
    return (*recording.remarks, *unmatched)


def _threads(parts: Sequence[Part]) -> int | None:
    """The threads that all kernels ran on, None where nobody says. Raises ConfigError if they differ."""
    found = sorted({n for part in parts for n in part.n_threads})
    if len(found) > 1:
        by_source = "; ".join(f"{part.source}: {_joined(part.n_threads)}" for part in parts if part.n_threads)
        raise ConfigError(
            "kernels for different numbers of threads do not make one prior",
            who="SOURCE",
            got=by_source,
            expected="one number of threads",
            remedy=f"If the kernels of databases ran on another than their targets state, --threads says it. "
            f"{_OTHERS_REMEDY}",
        )
    return found[0] if found else None


def _joined(numbers: Sequence[int]) -> str:
    return " and ".join(map(str, numbers))


def _profile(
    parts: Sequence[Part], wanted: str | None, n_threads: int | None, registry: ProfileRegistry
) -> HardwareProfile:
    """The profile of the device that all was measured on. Raises ConfigError, ProfileError."""
    from prune_engine.hardware.slice import with_threads

    if wanted is not None:
        profile = registry.resolve(wanted, n_threads=n_threads)
        return with_threads(profile, n_threads) if n_threads else profile
    told = [(part.source, part.profile) for part in parts if part.profile is not None]
    if len({profile.name for _, profile in told}) > 1:
        raise ConfigError(
            "what was measured on different devices does not make one prior",
            who="SOURCE",
            got="; ".join(f"{source}: {profile.name}" for source, profile in told),
            expected="sources of one device",
            remedy=f"If it is one, --profile says it. {_OTHERS_REMEDY}",
        )
    return told[0][1]


def _fitting(parts: Sequence[Part], profile: HardwareProfile) -> tuple[list[tuple[str, RecordedSpace]], list[str]]:
    """The spaces that fit a profile, and a sentence on each other one. Raises ProfileError without any."""
    fitting: list[tuple[str, RecordedSpace]] = []
    errors: list[tuple[RecordedSpace, ProfileError]] = []
    for part, space in _spaces(parts):
        try:
            _check_fits(profile, space)
        except ProfileError as error:
            errors.append((space, error))
        else:
            fitting.append((part.source, space))
    if errors and not fitting:
        raise errors[0][1]
    return fitting, [
        f"{space.n_candidates} records of {space.name} are left out: {error}" for space, error in errors
    ]


def _check_fits(profile: HardwareProfile, space: RecordedSpace) -> None:
    from prune_engine.hardware.fit import check_fits

    if space.task.target.startswith("{"):  # that of a table is a device's name
        check_fits(profile, space.task.target, remedy="Name the device of the recording by --profile.")


def _spaces(parts: Sequence[Part]) -> Iterator[tuple[Part, RecordedSpace]]:
    return ((part, space) for part in parts for space in part.spaces)
