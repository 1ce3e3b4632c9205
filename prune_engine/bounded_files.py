"""Files from elsewhere: read whole, but never more than fits, and JSON whose every fault is a ValueError."""

from __future__ import annotations

import json
import tokenize
import zlib
from pathlib import Path
from typing import Any

#: A file of text is read whole up to here; a device that never ends is not.
MAX_BYTES = 1 << 30
#: What a compressed file may become: a thousand times its size fits into a few kilobytes.
MAX_INFLATED_BYTES = 1 << 28
#: What numpy raises for an array file whose header is damaged, or asks for more than any memory.
NPY_ERRORS = (ValueError, TypeError, SyntaxError, tokenize.TokenError, MemoryError, ArithmeticError)
_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK_BYTES = 1 << 20


def read_bounded(path: Path, most_bytes: int | None = None) -> bytes:
    """A file's bytes. Raises OSError, and ValueError if there are more than ``most_bytes`` (MAX_BYTES)."""
    most_bytes = MAX_BYTES if most_bytes is None else most_bytes
    with path.open("rb") as file:
        content = bytearray()
        while chunk := file.read(min(_CHUNK_BYTES, most_bytes + 1 - len(content))):
            content += chunk
            if len(content) > most_bytes:
                raise ValueError(f"more than {_told(most_bytes)}")
    return bytes(content)


def read_maybe_gzipped(path: Path, most_bytes: int | None = None, most_inflated: int = MAX_INFLATED_BYTES) -> bytes:
    """A file's bytes, inflated if it is gzipped.

    Raises OSError, and ValueError if there are more than ``most_bytes``, inflated more than ``most_inflated``, or
    if it is damaged.
    """
    content = read_bounded(path, most_bytes)
    return inflated(content, most_inflated) if content.startswith(_GZIP_MAGIC) else content


def inflated(data: bytes, most_bytes: int = MAX_INFLATED_BYTES) -> bytes:
    """What gzipped bytes say. Raises ValueError if that is more than ``most_bytes``, or cut off or damaged."""
    content = bytearray()
    try:
        while data:
            stream = zlib.decompressobj(wbits=31)
            while not stream.eof:
                piece = stream.decompress(data, _CHUNK_BYTES)
                data = stream.unconsumed_tail
                content += piece
                if len(content) > most_bytes:
                    raise ValueError(f"inflates to more than {_told(most_bytes)}")
                if not piece and not data and not stream.eof:
                    raise ValueError("the compressed data are cut off")
            data = stream.unused_data.lstrip(b"\0")  # gzip pads with zeros
    except zlib.error as error:
        raise ValueError(f"the compressed data are damaged: {error}") from error
    return bytes(content)


def json_of(text: str | bytes) -> Any:
    """A JSON value. Raises ValueError, also for nesting without end and for what is no text."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _told(n_bytes: int) -> str:
    return f"{n_bytes >> 20} MiB" if n_bytes >= 1 << 20 else f"{n_bytes} bytes"
