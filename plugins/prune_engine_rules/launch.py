"""What one thread block of a GPU may have. Sound: past these limits the launch fails on the device."""

from __future__ import annotations

from prune_engine.hardware.schema import DeviceKind, HardwareProfile
from prune_engine.verdicts import RuleKind
from prune_engine_rules.limits import Bound, SymbolBound, profile_bound


class ThreadsPerBlock(SymbolBound):
    """More threads in a block than the device can run."""

    name, kind, order = "rules.threads-per-block", RuleKind.LEGALITY, 30
    hardware_basis = ("limits.threads_per_block",)
    symbol, what = "threads_per_block", "threads per block"

    def bound(self, profile: HardwareProfile) -> Bound | None:
        """The device's limit."""
        return profile_bound(profile, "limits.threads_per_block")


class SharedMemory(SymbolBound):
    """More shared memory in a block than the device can give one, even if asked to.

    A target may allow a block the opt-in size, so that is the device's limit; where it is not known, what a
    whole multiprocessor has is a limit that certainly holds. The default size of a launch comes last: it
    counts only if nothing else is known.
    """

    name, kind, order = "rules.shared-memory", RuleKind.LEGALITY, 40
    hardware_basis = (
        "limits.shared_memory_per_block_opt_in_bytes",
        "limits.shared_memory_per_core_bytes",
        "limits.shared_memory_per_block_bytes",
    )
    symbol, what = "shared_bytes_per_block", "bytes of shared memory per block"

    def bound(self, profile: HardwareProfile) -> Bound | None:
        """The largest size a block can have, as far as the profile knows."""
        bounds = (profile_bound(profile, path) for path in self.hardware_basis)
        return next((bound for bound in bounds if bound is not None), None)


class VectorBytes(SymbolBound):
    """A wider vector access than a GPU has. CPUs are left alone: there the compiler splits long vectors."""

    name, kind, order = "rules.vector-bytes", RuleKind.LEGALITY, 50
    hardware_basis = ("limits.vector_bytes",)
    symbol, what = "max_vector_bytes", "bytes of the widest vector access"

    def bound(self, profile: HardwareProfile) -> Bound | None:
        """The widest access of a GPU."""
        return profile_bound(profile, "limits.vector_bytes") if profile.kind is DeviceKind.GPU else None
