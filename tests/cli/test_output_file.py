"""Files that commands write: nothing of another kind is lost to a mistyped name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from prune_engine.store.open import open_store

Inside = Callable[..., "tuple[int, str, str]"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    file = tmp_path / "store.sqlite3"
    open_store(str(file)).close()
    return file


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "STORE", "--out", "STORE"),
        ("whitelist", "export", "STORE", "--store", "STORE"),
        ("policy", "pin", "STORE", "--threads", "1"),
        ("library", "export", "STORE", "--store", "STORE"),
        ("candidates", "gemm:8x8x8", "--out", "STORE"),
        ("profiles", "probe", "--out", "STORE"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_store_is_never_replaced(inside: Inside, store: Path, arguments: tuple[str, ...]) -> None:
    before = store.read_bytes()
    code, out, err = inside(*(str(store) if one == "STORE" else one for one in arguments))
    assert (code, out) == (5, "")
    assert "got a store" in err
    assert store.read_bytes() == before
