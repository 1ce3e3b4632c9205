"""What memory levels are called, by kind of device. Rules and models look levels up by these names."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class DeviceKind(Enum):
    """What kind of device a profile is about."""

    CPU = "cpu"
    GPU = "gpu"
    NPU = "npu"


#: Names from the innermost level to the outermost; ``dram`` is the device's off-chip memory, whatever its
#: technology. NPUs are missing here: their levels have the vendor's names, but for ``dram``.
_NAMES: Mapping[DeviceKind, tuple[str, ...]] = {
    DeviceKind.CPU: ("l1i", "l1d", "l2", "l3", "dram"),
    DeviceKind.GPU: ("registers", "shared", "l1", "l2", "l3", "dram"),
}
#: A name that profiles were written with before -> what it is called now.
_FORMER: Mapping[DeviceKind, Mapping[str, str]] = {DeviceKind.CPU: {"l1": "l1d"}}


def level_names(kind: DeviceKind) -> tuple[str, ...]:
    """The names of a device kind's levels; empty where they are the vendor's own."""
    return _NAMES.get(kind, ())


def is_level_name(kind: DeviceKind, name: str) -> bool:
    """Whether a level of such a device may have this name."""
    names = level_names(kind)
    return not names or current_name(kind, name) in names


def current_name(kind: DeviceKind, name: str) -> str:
    """What the level of this name is called today."""
    return _FORMER.get(kind, {}).get(name, name)


def digest_name(kind: DeviceKind, name: str) -> str:
    """What a level is called in a digest: its first name, for a digest outlives renaming."""
    first_names = {now: former for former, now in _FORMER.get(kind, {}).items()}
    return first_names.get(name, name)
