"""Whether C++ programs that start Python can be built here."""

from __future__ import annotations

import pytest

from prune_engine.errors import ConfigError


def need_python_to_embed() -> None:
    """Skip a test where this Python has no headers or no shared library, which Debian has in `python3-dev`."""
    from prune_engine.ffi import build_flags

    try:
        build_flags.compile_flags(embed=True)
        build_flags.link_flags(embed=True)
    except ConfigError as error:
        pytest.skip(str(error))
