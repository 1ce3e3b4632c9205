"""The version of the functions that are registered for other languages, and when two versions fit."""

from __future__ import annotations

from prune_engine.errors import PruneEngineError

#: Changes when a function goes, or an argument or a result changes its meaning.
ABI_MAJOR = 1
#: Grows when a function, a last argument with a default, or a key of a JSON result is added.
ABI_MINOR = 0

_PER_MAJOR = 1000


class AbiError(PruneEngineError):
    """A program was built for another version of these functions."""


def abi_version() -> int:
    """The version as one number: 1000 * major + minor."""
    return ABI_MAJOR * _PER_MAJOR + ABI_MINOR


def check_abi(version: int) -> None:
    """Raise AbiError unless a program that was built for ``version`` can use this one.

    It can if the major numbers are equal and ours has at least its minor number.
    """
    major, minor = divmod(version, _PER_MAJOR)
    if version < 0 or major != ABI_MAJOR or minor > ABI_MINOR:
        raise AbiError(
            "the program was built for another version of the functions",
            who="prune_engine.CheckAbi",
            got=version,
            expected=f"{ABI_MAJOR * _PER_MAJOR} to {abi_version()}",
            remedy="Build it again with the headers of the prune-engine that is installed."
            if major <= ABI_MAJOR
            else "Install a newer prune-engine.",
        )
