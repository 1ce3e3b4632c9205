"""``python -m prune_engine.ffi``: flags to build a C++ program with."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from prune_engine.errors import PruneEngineError
from prune_engine.ffi import build_flags
from prune_engine.ffi.abi import abi_version


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is asked for, in one line. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m prune_engine.ffi", description="Flags to build a C++ program that calls the engine."
    )
    parser.add_argument("--cxxflags", action="store_true", help="flags for the compiler")
    parser.add_argument("--ldflags", action="store_true", help="flags for the linker")
    parser.add_argument("--embed", action="store_true", help="for a program that starts Python: start.h")
    parser.add_argument("--includedir", action="store_true", help="folder of the headers")
    parser.add_argument("--cmakedir", action="store_true", help="folder of the CMake package")
    parser.add_argument("--abi", action="store_true", help="version of the functions, 1000 * major + minor")
    asked = parser.parse_args(arguments)
    words: list[str] = []
    try:
        words += [str(build_flags.include_folder())] if asked.includedir else []
        words += [str(build_flags.cmake_folder())] if asked.cmakedir else []
        words += [str(abi_version())] if asked.abi else []
        words += build_flags.compile_flags(embed=asked.embed) if asked.cxxflags else []
        words += build_flags.link_flags(embed=asked.embed) if asked.ldflags else []
    except PruneEngineError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    if not words:
        parser.print_help(sys.stderr)
        return 2
    print(" ".join(words))
    return 0


if __name__ == "__main__":
    sys.exit(main())
