"""Files of long benchmarks: one JSON object ``{kind: content}`` a line, whatever moment the machine stops at."""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


def entries(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Kind and content of each whole line, in order; nothing of a file that does not exist."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            ((kind, content),) = json.loads(line).items()
        except ValueError:  # the end of a line that was being written when the machine stopped
            continue
        yield kind, content


def append(path: Path, kind: str, content: object) -> None:
    """Add a line, after the end of one that was not written to its end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        start = b""
        if file.tell():
            file.seek(-1, os.SEEK_END)
            start = b"" if file.read(1) == b"\n" else b"\n"
        file.write(start + json.dumps({kind: content}).encode() + b"\n")


def rewrite(path: Path, kept: Iterable[tuple[str, object]]) -> None:
    """Put these entries in place of all: at once, or not at all."""
    text = "".join(json.dumps({kind: content}) + "\n" for kind, content in kept)
    staged = path.with_suffix(".staged")
    staged.parent.mkdir(parents=True, exist_ok=True)
    staged.write_text(text, encoding="utf-8")
    staged.replace(path)


def packed(text: str) -> str:
    """Text as less text."""
    return base64.b85encode(zlib.compress(text.encode(), 9)).decode()


def unpacked(text: str) -> str:
    """What was packed."""
    return zlib.decompress(base64.b85decode(text)).decode()
