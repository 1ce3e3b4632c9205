"""Which profile a device has, by the name that CUDA, HIP or OpenCL report: the one in Kernel Tuner's files."""

from __future__ import annotations

import re
from collections.abc import Mapping

from prune_engine.hardware.schema import HardwareProfile

_MAKERS = ("nvidia", "amd", "tesla", "geforce", "quadro", "radeon", "instinct")
#: Words of a name that tell no device from another.
_IDLE = re.compile(r"nvidia|amd|tesla|geforce|quadro|radeon|pro|instinct|graphics|gpu|accelerator|sxm\d?|hbm\d\w?")
#: What a device may have beyond the words of its profile: profiles differ in it only if they name it.
_MEMORY = re.compile(r"\d+gb")


def profile_of_device(name: str, profiles: Mapping[str, HardwareProfile]) -> HardwareProfile | None:
    """The profile whose name or alias has all words of a device's name, None if none or several have.

    A name such as ``NVIDIA A100-SXM4-40GB`` begins with its maker; anything else is left alone. Form factors with
    other clocks (PCIe) have profiles of their own, or none.
    """
    if not name.lower().startswith(_MAKERS):
        return None
    device = _words(name)
    best: dict[str, int] = {}
    for profile in profiles.values():
        for known in (profile.name, *profile.aliases):
            words = _words(known)
            if words and words <= device and all(_MEMORY.fullmatch(word) for word in device - words):
                best[profile.name] = max(best.get(profile.name, 0), len(words))
    leading = [profile for profile, n in best.items() if n == max(best.values())]
    return profiles[leading[0]] if len(leading) == 1 else None


def _words(name: str) -> frozenset[str]:
    return frozenset(word for word in re.findall(r"[a-z0-9]+", name.lower()) if not _IDLE.fullmatch(word))
