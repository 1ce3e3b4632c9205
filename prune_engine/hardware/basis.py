"""What a strategy reads of a profile, as it declares it: fields and their values."""

from __future__ import annotations

import re
from collections.abc import Sequence

from prune_engine.hardware.schema import Count, HardwareProfile, Quantity, Rate, quantities

#: The value of a field: a number, a matrix shape as m×n×k, or None where nobody knows.
FieldValue = int | float | str | None


def basis_of(profile: HardwareProfile, paths: Sequence[str]) -> tuple[tuple[str, FieldValue], ...]:
    """The fields at dotted paths with their values, in that order.

    A part in capitals stands for every name: ``compute.UNIT.tiles.DTYPE`` gives the fields that the profile has. A
    path that no profile can have is left out.
    """
    found: dict[str, FieldValue] = {}
    for path in paths:
        if any(part.isupper() for part in path.split(".")):
            parts = ("[^.]+" if part.isupper() else re.escape(part) for part in path.split("."))
            pattern = re.compile(r"\.".join(parts))
            found |= {name: _value(it) for name, it in quantities(profile) if pattern.fullmatch(name)}
            continue
        try:
            found[path] = profile.value(path)
        except KeyError:
            continue
    return tuple(found.items())


def _value(quantity: Quantity) -> FieldValue:
    if isinstance(quantity, Count | Rate):
        return quantity.value
    return f"{quantity.m}×{quantity.n}×{quantity.k}"
