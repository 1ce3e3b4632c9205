"""Texts and maps that are passed in."""

from __future__ import annotations

import pytest
import tvm_ffi

from prune_engine.ffi.arguments import ArgumentError, TextError, json_object, plain_map


def test_maps_become_plain_and_keep_other_objects() -> None:
    marker = object()
    source = tvm_ffi.convert({"a": [1, {"b": "c"}], "d": None})
    assert plain_map(source, "test") == {"a": [1, {"b": "c"}], "d": None}
    assert plain_map({"e": marker}, "test") == {"e": marker}
    assert plain_map('{"a": 1}', "test") == {"a": 1}
    with pytest.raises(ArgumentError, match="got null"):
        plain_map(None, "test")


def test_texts_that_are_no_objects() -> None:
    for text in ("", "nul", "[]", "1", '"a"', "[" * 100_000):
        with pytest.raises(TextError):
            json_object(text, "test")
    with pytest.raises(ArgumentError, match="bytes"):
        json_object(b"{}", "test")
