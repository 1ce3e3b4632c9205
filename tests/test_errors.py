from __future__ import annotations

import inspect

import pytest

from prune_engine import errors
from prune_engine.errors import ModelImportError, PruneEngineError

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, Exception) and kind.__module__ == errors.__name__
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_is_of_the_tree_and_says_all(kind: type[PruneEngineError]) -> None:
    assert issubclass(kind, PruneEngineError)
    assert kind.__doc__
    error = kind("cannot be read", who="x.yaml", got="text", expected="a number", remedy="Write a number.")
    assert str(error) == "x.yaml: cannot be read; got text; expected a number. Write a number."
    assert (error.problem, error.who, error.got) == ("cannot be read", "x.yaml", "text")


@pytest.mark.parametrize("kind", KINDS)
def test_exit_codes_are_no_success_and_no_signal(kind: type[PruneEngineError]) -> None:
    assert 1 <= kind.exit_code < 64


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "broken."),
        ({"who": "a"}, "a: broken."),
        ({"got": 0}, "broken; got 0."),
        ({"got": ""}, "broken; got ."),
        ({"expected": "b"}, "broken; expected b."),
        ({"remedy": "Mend it."}, "broken. Mend it."),
        ({"expected": "is it b?"}, "broken; expected is it b?"),
    ],
)
def test_parts_that_are_missing_leave_no_trace(fields: dict[str, object], text: str) -> None:
    assert str(PruneEngineError("broken", **fields)) == text  # type: ignore[arg-type]


def test_import_errors_name_the_place_in_the_model() -> None:
    error = ModelImportError("not supported", operator="Foo", node="n1", opset=13, who="m.onnx")
    assert str(error) == "m.onnx: not supported (operator Foo, node 'n1', opset 13)."
    assert (error.operator, error.node, error.opset) == ("Foo", "n1", 13)
    assert str(ModelImportError("not supported", opset=0)) == "not supported (opset 0)."
