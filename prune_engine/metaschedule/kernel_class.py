"""Which kernels can exchange schedules: what a kernel is apart from its extents, read from its TIR.

Two kernels are of one class where schedules of one can be replayed on the other: the same statements with the same
kinds of iterators, reading and writing the same way. Numbers are left out everywhere. So a 1x1 convolution, a
3x3 one and one of stride 2 are of one class: their loops have other extents, that is all a schedule sees.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prune_engine.errors import SpaceError
from prune_engine.library.entries import KernelClass
from prune_engine.metaschedule.statement_text import BufferNames, statement_text
from prune_engine.metaschedule.tir_affine import integer_of
from prune_engine.metaschedule.tir_nest import kernel_of
from prune_engine.metaschedule.tir_walk import LOADS, children, walk

#: Part of every hash: a change of what a class is must not match what was hashed before.
_VERSION = 1
_ITER_KINDS = {0: "S", 2: "R"}  # tvm.tirx.IterVar.DataPar, CommReduce
_REDUCTIONS = {"Add": "sum", "Max": "max", "Min": "min", "Mul": "product"}
_ARITHMETIC = frozenset(("Add", "Sub", "Mul", "Div", "FloorDiv", "FloorMod", "Min", "Max", "Call", "Select"))


def kernel_class_of(mod: Any, target_kind: str) -> KernelClass | None:
    """The class of a kernel alone in a module, before any schedule, for a kind of target ("llvm", "cuda").

    None for one without iterators, as hand-written sorting is, and for one that cannot be read: nothing of it can
    be transferred.
    """
    try:
        kernel = kernel_of(mod)
        blocks = _blocks(kernel.body)
        if not any(block.iters for block in blocks):
            return None
        shared = BufferNames(kernel.params)
        texts = [_block_text(block, shared) for block in blocks]
        anchor = _block_text(_anchor(blocks), BufferNames())
    except (SpaceError, RecursionError):
        # No constant extents, no single kernel, or an index nested beyond reading.
        return None
    return KernelClass(
        strict=_digest([target_kind, *texts]),
        anchor=_digest([target_kind, anchor]),
        label=_label(blocks),
        axes=tuple((f"{block.name}.{it}", extent) for block in blocks for it, extent in block.iters),
    )


@dataclass(frozen=True, slots=True)
class _Block:
    """A block that holds no other: ``iters`` are its iterators with their extents, ``kinds`` a letter for each."""

    name: str
    iters: tuple[tuple[str, int], ...]
    kinds: str
    node: Any


def _blocks(root: Any) -> list[_Block]:
    """The blocks of a kernel in program order. Only what is needed is read: this is done for every kernel."""
    found: list[Any] = []
    holders: set[int] = set()
    stack: list[tuple[Any, int]] = [(root, -1)]
    while stack:
        statement, holder = stack.pop()
        kind = type(statement).__name__
        if kind == "SBlockRealize":
            holders.add(holder)
            holder = len(found)
            found.append(statement.block)
        if kind != "BufferStore":
            stack.extend((child, holder) for child in reversed(children(statement, kind)))
    return [_block(node) for number, node in enumerate(found) if number not in holders]


def _block(node: Any) -> _Block:
    iters: list[tuple[str, int]] = []
    kinds = ""
    for axis in node.iter_vars:
        name, extent, kind = str(axis.var.name), integer_of(axis.dom.extent), int(axis.iter_type)
        if extent is None:
            raise SpaceError("an iterator of unknown extent", who=f"block {node.name_hint}", got=name)
        iters.append((name, extent))
        kinds += _ITER_KINDS.get(kind, f"({kind})")
    return _Block(str(node.name_hint), tuple(iters), kinds, node)


def _block_text(block: _Block, buffers: BufferNames) -> str:
    node = block.node
    iterators = [axis.var for axis in node.iter_vars]
    parts = [node.body] if node.init is None else [node.init, node.body]
    return f"{block.kinds}|" + ";".join(statement_text(part, iterators, buffers) for part in parts)


def _anchor(blocks: Sequence[_Block]) -> _Block:
    """The reduction that does most of the work, the first of equals; without any, the block that does most."""
    reductions = [block for block in blocks if block.node.init is not None]
    # Of equal blocks of a chain the last is the one that schedules are built around.
    return max(reductions, key=_work) if reductions else max(reversed(blocks), key=_work)


def _work(block: _Block) -> int:
    """Operations of a block, about: what it computes times how often it does."""
    body = block.node.body
    values = [body.value] if type(body).__name__ == "BufferStore" else []
    n_operations = sum(type(node).__name__ in _ARITHMETIC for value in values for node in walk(value))
    return max(1, n_operations) * math.prod(extent for _, extent in block.iters)


def _label(blocks: Sequence[_Block]) -> str:
    """What a kernel does, for people: the names of its blocks without their numbers, padding left out."""
    words: list[str] = []
    for block in blocks:
        word = _word(block)
        if word not in words[-1:] and not (word == "pad" and len(blocks) > 1):
            words.append(word)
    return " + ".join(words)


def _word(block: _Block) -> str:
    name = re.sub(r"^T_|(_intermediate)?_?\d*$", "", block.name) or block.name
    if name.startswith("pad_temp") or name == "PadInput":
        return "pad"
    value: Any = getattr(block.node.body, "value", None)
    kind = type(value).__name__
    if name.endswith("_red") and kind in _REDUCTIONS:  # the rest is the name of what is reduced
        return _REDUCTIONS[kind]
    if name != "compute":
        return name
    # TE calls every elementwise function so: the operation says more.
    if kind == "Call":
        return str(getattr(value.op, "name", name)).rpartition(".")[2]
    if kind == "Max":
        return "relu" if any(_is_zero(side) for side in (value.a, value.b)) else "max"
    return name if kind in (*LOADS, "NoneType") else kind.lower()


def _is_zero(expression: Any) -> bool:
    return type(expression).__name__ in ("FloatImm", "IntImm") and float(expression.value) == 0.0


def _digest(texts: Sequence[str]) -> str:
    content = "\n".join([str(_VERSION), *texts])
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
