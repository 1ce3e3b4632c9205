"""Symbols as arithmetic over choices: ``i[1] * j[1]``, evaluated for all candidates at once, never by ``eval``."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch
from prune_engine.errors import ConfigError
from prune_engine.space import Int32Array
from prune_engine.symbols.table import Column

_MAX_CHARACTERS = 4096
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": lambda *items: reduce(np.minimum, items),
    "max": lambda *items: reduce(np.maximum, items),
    "ceil_div": lambda a, b: -(-a // b),
}
_GRAMMAR = "numbers, variables as i or i[1], + - * / // %, min, max and ceil_div"


@dataclass(frozen=True, slots=True)
class Formula:
    """An expression over the variables of a sketch."""

    text: str
    tree: ast.expr

    def check(self, widths: Mapping[str, int], who: str) -> None:
        """Raise ConfigError unless each variable it names is there; ``widths`` are numbers per choice, by name."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Subscript):
                name, part = _part(node)
                if not 0 <= part < widths.get(name, 0):
                    raise _no_variable(f"{name}[{part}]", widths, who)
            elif isinstance(node, ast.Name) and node.id not in widths and node.id not in _FUNCTIONS:
                raise _no_variable(node.id, widths, who)
        bare = _bare_names(self.tree)
        if wide := sorted(name for name in bare if widths.get(name, 1) != 1):
            raise ConfigError(
                "a variable of several numbers",
                who=who,
                got=wide[0],
                expected=f"{wide[0]}[0] to [{widths[wide[0]] - 1}]",
            )

    def of_batch(self, batch: CandidateBatch) -> Column:
        """Its value for the candidates of a batch. Raises ConfigError where it has none."""
        choices = {variable.name: batch.column(v) for v, variable in enumerate(batch.sketch.variables)}
        try:
            return self.column(choices)
        except FloatingPointError as error:
            raise ConfigError(
                f"has no value for some candidate: {error}", who=f"formula {self.text!r}", expected="numbers"
            ) from error

    def column(self, choices: Mapping[str, Int32Array]) -> Column:
        """Its value for candidates whose choices are int32 (n, p) by variable: int64 or float64 (n,).

        Division by zero and overflow are errors: FloatingPointError.
        """
        n = len(next(iter(choices.values())))
        wide = {name: choice.astype(np.int64) for name, choice in choices.items()}
        with np.errstate(divide="raise", invalid="raise", over="raise"):
            value = np.asarray(_value(self.tree, wide))
        dtype = np.float64 if value.dtype.kind == "f" else np.int64
        column: Column = np.broadcast_to(value.astype(dtype), (n,)).copy()
        return column


def parse_formula(text: str, who: str) -> Formula:
    """Read a formula. Raises ConfigError for what is none."""
    try:
        if len(text) > _MAX_CHARACTERS:
            raise ValueError(f"longer than {_MAX_CHARACTERS} characters")
        tree = ast.parse(text, mode="eval").body
        for node in ast.walk(tree):
            _check_node(node)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ConfigError(f"not a formula: {error}", who=who, got=repr(text[:80]), expected=_GRAMMAR) from error
    return Formula(text, tree)


def _check_node(node: ast.AST) -> None:
    is_number = isinstance(node, ast.Constant) and type(node.value) in (int, float)
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
    if is_call and isinstance(node, ast.Call):
        wanted = 2 if getattr(node.func, "id", "") == "ceil_div" else len(node.args) or 1
        if node.keywords or len(node.args) != wanted:
            raise ValueError("a function with the wrong number of arguments")
    elif isinstance(node, ast.Subscript):
        _part(node)
    elif (isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.USub)) or (
        isinstance(node, ast.BinOp) and type(node.op) not in _BINARY
    ):
        raise ValueError(f"{type(node.op).__name__} is not known")
    elif not is_number and not isinstance(node, (ast.Name, ast.Load, ast.UnaryOp, ast.USub, ast.BinOp, *_BINARY)):
        raise ValueError(f"{type(node).__name__} is not known")


def _part(node: ast.Subscript) -> tuple[str, int]:
    if isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Constant) and type(node.slice.value) is int:
        return node.value.id, node.slice.value
    raise ValueError("a part is written i[1]")


def _bare_names(tree: ast.expr) -> set[str]:
    """The variables that stand without the number of a part."""
    inside = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Subscript)}
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return {node.id for node in names if id(node) not in inside | called}


def _value(node: ast.AST, choices: Mapping[str, NDArray[np.int64]]) -> Any:
    if isinstance(node, ast.Constant):
        return np.asarray(node.value)
    if isinstance(node, ast.Name):
        return choices[node.id][:, 0]
    if isinstance(node, ast.Subscript):
        name, part = _part(node)
        return choices[name][:, part]
    if isinstance(node, ast.UnaryOp):
        return -_value(node.operand, choices)
    if isinstance(node, ast.BinOp):
        return _BINARY[type(node.op)](_value(node.left, choices), _value(node.right, choices))
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    return _FUNCTIONS[node.func.id](*(_value(argument, choices) for argument in node.args))


def _no_variable(got: str, widths: Mapping[str, int], who: str) -> ConfigError:
    parts = ", ".join(name if width == 1 else f"{name}[0] to [{width - 1}]" for name, width in widths.items())
    return ConfigError("no such variable", who=who, got=got, expected=parts)
