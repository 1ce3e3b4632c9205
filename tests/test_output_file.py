"""A place for a file is checked before the work: nothing of another kind is lost to a mistyped name."""

from __future__ import annotations

from pathlib import Path

import pytest

from prune_engine.errors import OutputError
from prune_engine.output_file import check_place


def test_what_begins_otherwise_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(b"\x08\x07")
    with pytest.raises(OutputError, match="holds something else"):
        check_place(file, head=b"{")
    check_place(file)
    file.write_bytes(b"{}")
    check_place(file, head=b"{")
    file.write_bytes(b"")
    check_place(file, head=b"{")
