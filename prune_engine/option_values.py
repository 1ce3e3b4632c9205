"""Values that options of commands and arguments of functions have in common."""

from __future__ import annotations

import re

from prune_engine.errors import ConfigError

#: More than any machine has, and few enough for the kernel's counters.
_MAX_BYTES = 2**60
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_bytes(text: str, option: str) -> int:
    """Read ``8G``, ``512MiB`` or ``1000000`` (binary units). Raises ConfigError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    size = float(match[1]) * _UNITS[match[2].upper()] if match else 0
    if not 1 <= size <= _MAX_BYTES:
        got = repr(text if len(text) <= 80 else text[:77] + "...")
        raise ConfigError("cannot be read", who=option, got=got, expected="a size such as 8G or 512M")
    return int(size)


def threads_or_default(n_threads: int | None) -> int:
    """The thread count asked for, else all usable cores. Raises ConfigError for more than there are."""
    from prune_engine.hardware.host import usable_cpus

    n_cores = len(usable_cpus())
    if n_threads is not None and n_threads > n_cores:
        raise ConfigError(
            "more threads than usable cores",
            who="--threads",
            got=n_threads,
            expected=f"1 to {n_cores}",
            remedy="Kernels that share a core cannot be timed.",
        )
    return n_threads or n_cores
