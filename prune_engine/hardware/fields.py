"""The numbers of profiles as rows, for people: path, value, unit and source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

from prune_engine.hardware.schema import REQUIRED_LIMITS, Count, HardwareProfile, Rate, Tile

#: Suffix of a field's name -> the unit it stands for. Numbers without one are counts.
_UNITS = (
    ("_bytes_per_sec", "bytes/s"),
    ("_bytes", "bytes"),
    ("_secs", "s"),
    ("_hz", "Hz"),
)


@dataclass(frozen=True, slots=True)
class NumberRow:
    """One number: ``value`` is None where it is unknown; a matrix shape is a text m×n×k. ``source`` in words."""

    field: str
    value: int | float | str | None
    unit: str
    origin: str
    source: str


@dataclass(frozen=True, slots=True)
class Difference:
    """A field in which two profiles differ; ``ratio`` is b / a where both are numbers.

    None is unknown, or a field that only the other profile has: then ``only_in`` says which.
    """

    field: str
    a: int | float | str | None
    b: int | float | str | None
    unit: str
    ratio: float | None
    only_in: Literal["a", "b"] | None


def number_rows(profile: HardwareProfile) -> list[NumberRow]:
    """Every number that the profile gives or says is unknown, in the schema's order."""
    return list(_rows(profile, "", profile))


def differences(a: HardwareProfile, b: HardwareProfile) -> list[Difference]:
    """The fields in which two profiles differ: a's order first, then what only b has."""
    left, right = _values(a), _values(b)
    found = []
    for field in dict.fromkeys([*left, *right]):
        (first, unit), (second, other) = left.get(field, (None, "")), right.get(field, (None, ""))
        only_in: Literal["a", "b"] | None = "a" if field not in right else "b" if field not in left else None
        if first == second and only_in is None:
            continue
        are_numbers = isinstance(first, int | float) and isinstance(second, int | float)
        ratio = second / first if are_numbers else None  # type: ignore[operator]
        found.append(Difference(field, first, second, unit or other, ratio, only_in))
    return found


def unit_of(path: str) -> str:
    """The unit of the number at a dotted path, empty for a count."""
    parts = path.split(".")
    if "peak_flop_per_sec" in parts:
        return "flop/s"
    return next((unit for suffix, unit in _UNITS if parts[-1].endswith(suffix)), "")


def _values(profile: HardwareProfile) -> Mapping[str, tuple[int | float | str | None, str]]:
    facts: dict[str, tuple[int | float | str | None, str]] = {
        "kind": (profile.kind.value, ""),
        "combine": (profile.combine, ""),
    }
    facts.update((row.field, (row.value, row.unit)) for row in number_rows(profile))
    return facts


def _rows(node: object, path: str, profile: HardwareProfile) -> Iterator[NumberRow]:
    if isinstance(node, Count | Rate):
        source = profile.sources[node.source]
        yield NumberRow(path, node.value, unit_of(path), node.origin, source)
    elif isinstance(node, Tile):
        yield NumberRow(path, f"{node.m}×{node.n}×{node.k}", "m×n×k", node.origin, profile.sources[node.source])
    elif isinstance(node, BaseModel):
        for name, field in type(node).model_fields.items():
            value = getattr(node, name)
            here = f"{path}.{name}" if path else name
            if name == "tile" and value is not None:
                yield NumberRow(here, "×".join(map(str, value)), "m×n×k", "", "")
            elif value is None and _is_number(str(field.annotation)):
                if name in node.model_fields_set and _is_meant(path, name, profile):
                    yield NumberRow(here, None, unit_of(here), "", "")
            else:
                yield from _rows(value, here, profile)
    elif isinstance(node, Mapping):
        for key, item in node.items():
            if item is None:
                yield NumberRow(f"{path}.{key}", None, unit_of(f"{path}.{key}"), "", "")
            else:
                yield from _rows(item, f"{path}.{key}", profile)
    elif isinstance(node, tuple):
        for item in node:
            if isinstance(item, BaseModel):
                yield from _rows(item, f"{path}.{getattr(item, 'name', '')}", profile)


def _is_number(annotation: str) -> bool:
    return re.search(r"\b(Count|Rate)\b", annotation) is not None


def _is_meant(path: str, name: str, profile: HardwareProfile) -> bool:
    """Whether a null says "unknown" and not "this device has no such thing"."""
    if path == "limits":
        return name in REQUIRED_LIMITS[profile.kind] or name in profile.limits.model_fields_set
    return True
