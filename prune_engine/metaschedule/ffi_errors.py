"""Our errors keep their kind on the way through TVM, which calls the drop-ins and is called by the user."""

from __future__ import annotations

import inspect

from prune_engine import errors


def register_errors() -> None:
    """Let TVM raise each error of prune_engine as what it was; idempotent."""
    from tvm_ffi import register_error

    for name, kind in vars(errors).items():
        if inspect.isclass(kind) and issubclass(kind, errors.PruneEngineError):
            register_error(name, kind)
