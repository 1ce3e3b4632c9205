"""Whether a profile and the target that code is made for are of one kind of device."""

from __future__ import annotations

import json

from prune_engine.errors import ProfileError
from prune_engine.hardware.levels import DeviceKind
from prune_engine.hardware.schema import HardwareProfile

#: Kinds of the compiler's targets that make code for processors; all others are accelerators'.
_PROCESSOR_KINDS = ("llvm", "c")
_NAMES = {DeviceKind.CPU: "a processor", DeviceKind.GPU: "a GPU", DeviceKind.NPU: "an NPU"}


def check_fits(profile: HardwareProfile, target: str, *, remedy: str, may_be_npu: bool = True) -> None:
    """Raise ProfileError for a profile of another kind of device than ``target``, a canonical text, makes code for.

    The compiler has no targets for NPUs: their profiles judge a processor's spaces, where ``may_be_npu``.
    """
    kind = json.loads(target)["kind"]
    wanted = DeviceKind.CPU if kind in _PROCESSOR_KINDS else DeviceKind.GPU
    if profile.kind is wanted or (may_be_npu and profile.kind is DeviceKind.NPU):
        return
    raise ProfileError(
        "it describes another kind of device than the code is for",
        who=f"profile {profile.name}",
        got=_NAMES[profile.kind],
        expected=_NAMES[wanted],
        remedy=remedy,
    )
