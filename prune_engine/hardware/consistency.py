"""What the fields of a profile say together: limits of the kind, names of levels, sources that are explained.

Looks at plain data, so that a file that is wrong elsewhere as well is told everything at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from prune_engine.hardware.levels import DeviceKind, current_name, is_level_name, level_names

#: Limits a profile of each kind must speak about, be it with null.
REQUIRED_LIMITS: Mapping[DeviceKind, tuple[str, ...]] = {
    DeviceKind.CPU: ("vector_bytes", "vector_registers"),
    DeviceKind.GPU: (
        "vector_bytes",
        "threads_per_warp",
        "threads_per_block",
        "threads_per_core",
        "registers_per_block",
        "shared_memory_per_block_bytes",
    ),
    DeviceKind.NPU: ("vector_bytes",),
}
#: Fields whose ``source`` is prose, not a key of ``sources``.
_PROSE = ("sources", "calibration", "probe")


@dataclass(frozen=True, slots=True)
class Inconsistency:
    """What is wrong at which path (keys and list positions), and what to write instead."""

    path: tuple[str | int, ...]
    text: str
    remedy: str


def inconsistencies(profile: Mapping[str, object]) -> Iterator[Inconsistency]:
    """All of a profile that is given as in a file. Values of the wrong type are left to the schema."""
    kinds = {kind.value: kind for kind in DeviceKind}
    name = profile.get("kind")
    kind = kinds.get(name) if isinstance(name, str) else None
    if kind is not None:
        yield from _missing_limits(kind, profile.get("limits"))
        yield from _level_names(kind, _names(profile.get("memory")))
    yield from _repeated("memory", "memory level", _names(profile.get("memory")), kind)
    yield from _repeated("compute", "compute unit", _names(profile.get("compute")), None)
    sources = profile.get("sources")
    if isinstance(sources, Mapping):
        for key, value in profile.items():
            if key not in _PROSE:
                yield from _unexplained(value, (key,), sources)


def _missing_limits(kind: DeviceKind, limits: object) -> Iterator[Inconsistency]:
    if isinstance(limits, Mapping):
        for field in REQUIRED_LIMITS[kind]:
            if field not in limits:
                remedy = f"Give {field}, as null if it is unknown."
                yield Inconsistency(("limits", field), f"missing; profiles of kind {kind.value} give it", remedy)


def _level_names(kind: DeviceKind, names: Sequence[str | None]) -> Iterator[Inconsistency]:
    for number, name in enumerate(names):
        if name is not None and not is_level_name(kind, name):
            known = ", ".join(level_names(kind))
            text = f"a {kind.value} has no memory level {name}"
            yield Inconsistency(("memory", number, "name"), text, f"It may have: {known}.")


def _repeated(
    field: str, what: str, names: Sequence[str | None], kind: DeviceKind | None
) -> Iterator[Inconsistency]:
    seen: set[str] = set()
    for number, name in enumerate(names):
        current = current_name(kind, name) if kind and name is not None else name
        if current in seen:
            yield Inconsistency((field, number, "name"), f"two {what}s share a name: {name}", "Rename one of them.")
        if current is not None:
            seen.add(current)


def _unexplained(
    node: object, path: tuple[str | int, ...], sources: Mapping[str, object]
) -> Iterator[Inconsistency]:
    if isinstance(node, Mapping):
        source = node.get("source")
        if isinstance(source, str) and source and source not in sources:
            known = ", ".join(map(str, sources)) or "none"
            text = f"source {source!r} is not explained in sources ({known})"
            yield Inconsistency((*path, "source"), text, f"Add {source} to sources, or name one that is there.")
        for key, value in node.items():
            yield from _unexplained(value, (*path, key), sources)
    elif isinstance(node, list):
        for number, value in enumerate(node):
            yield from _unexplained(value, (*path, number), sources)


def _names(items: object) -> list[str | None]:
    """The name of each item, None where it has none that is text."""
    names: list[str | None] = []
    for item in items if isinstance(items, list) else []:
        name = item.get("name") if isinstance(item, Mapping) else None
        names.append(name if isinstance(name, str) else None)
    return names
