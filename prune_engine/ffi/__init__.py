"""The engine for other languages: importing this registers tvm-ffi global functions, see docs/reference/ffi.md.

TVM itself is imported only when a space needs it.
"""

from __future__ import annotations

from prune_engine.ffi.registering import register_all

register_all()
