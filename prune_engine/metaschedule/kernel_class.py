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
from typing import Any

from prune_engine.errors import SpaceError
from prune_engine.library import KernelClass
from prune_engine.metaschedule.statement_text import BufferNames, statement_text
from prune_engine.metaschedule.tir_nest import TirBlock, kernel_of, read_nest
from prune_engine.metaschedule.tir_walk import LOADS, walk

#: Part of every hash: a change of what a class is must not match what was hashed before.
_VERSION = 1
_REDUCTIONS = {"Add": "sum", "Max": "max", "Min": "min", "Mul": "product"}
_ARITHMETIC = frozenset(("Add", "Sub", "Mul", "Div", "FloorDiv", "FloorMod", "Min", "Max", "Call", "Select"))


def kernel_class_of(mod: Any, target_kind: str) -> KernelClass | None:
    """The class of a kernel alone in a module, before any schedule, for a kind of target ("llvm", "cuda").

    None for one without blocks and for one that cannot be read: nothing of it can be transferred.
    """
    try:
        blocks = [block for block in read_nest(mod).blocks if block.is_leaf]
        if not blocks:
            return None
        shared = BufferNames(kernel_of(mod).params)
        texts = [_block_text(block, shared) for block in blocks]
        anchor = _block_text(_anchor(blocks), BufferNames())
    except (SpaceError, RecursionError):
        # No constant extents, no single kernel, or an index nested beyond reading.
        return None
    return KernelClass(
        strict=_digest([target_kind, *texts]),
        anchor=_digest([target_kind, anchor]),
        label=_label(blocks),
        axes=tuple((f"{block.name}.{it.name}", it.extent) for block in blocks for it in block.iters),
    )


def _block_text(block: TirBlock, buffers: BufferNames) -> str:
    kinds = "".join(it.kind for it in block.iters)
    node = block.node.block
    iterators = [axis.var for axis in node.iter_vars]
    parts = [node.body] if node.init is None else [node.init, node.body]
    return f"{kinds}|" + ";".join(statement_text(part, iterators, buffers) for part in parts)


def _anchor(blocks: Sequence[TirBlock]) -> TirBlock:
    """The reduction that does most of the work, the first of equals; without any, the block that does most."""
    reductions = [block for block in blocks if block.has_init]
    # Of equal blocks of a chain the last is the one that schedules are built around.
    return max(reductions, key=_work) if reductions else max(reversed(blocks), key=_work)


def _work(block: TirBlock) -> int:
    """Operations of a block, about: what it computes times how often it does."""
    body = block.node.block.body
    values = [body.value] if type(body).__name__ == "BufferStore" else []
    n_operations = sum(type(node).__name__ in _ARITHMETIC for value in values for node in walk(value))
    return max(1, n_operations) * math.prod(it.extent for it in block.iters)


def _label(blocks: Sequence[TirBlock]) -> str:
    """What a kernel does, for people: the names of its blocks without their numbers, padding left out."""
    words: list[str] = []
    for block in blocks:
        word = _word(block)
        if word not in words[-1:] and not (word == "pad" and len(blocks) > 1):
            words.append(word)
    return " + ".join(words)


def _word(block: TirBlock) -> str:
    name = re.sub(r"^T_|(_intermediate)?_?\d*$", "", block.name) or block.name
    if name.startswith("pad_temp") or name == "PadInput":
        return "pad"
    value: Any = getattr(block.node.block.body, "value", None)
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
