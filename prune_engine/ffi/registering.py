"""Makes the functions known to tvm-ffi, and the errors by names of their own."""

from __future__ import annotations

import tvm_ffi

from prune_engine import errors
from prune_engine.ffi import abi, arguments
from prune_engine.ffi.functions import FUNCTIONS

_PREFIX = "prune_engine."


def error_kinds() -> dict[str, type[errors.PruneEngineError]]:
    """The kinds of errors that a caller may meet, by the name that ``tvm::ffi::Error::kind`` gives."""
    return {
        f"{_PREFIX}{name}": error
        for module in (errors, abi, arguments)
        for name, error in vars(module).items()
        if isinstance(error, type) and issubclass(error, errors.PruneEngineError)
    }


def register_all() -> None:
    """Register every function and every kind of error. May be called again."""
    for kind, error in error_kinds().items():
        tvm_ffi.register_error(kind, error)
    for name, function in FUNCTIONS.items():
        tvm_ffi.register_global_func(name, function, override=True)
