"""Reads a kernel's machine code, as LLVM writes it for x86-64: what its hottest piece is made of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gap_records import HotBlock

_LABEL = re.compile(r"^([.\w$]+):")
_JUMP = re.compile(r"^j\w+\s+([.\w$]+)")
_FMA = re.compile(r"^vfn?m(?:add|sub)\w*[sp][sdh]\b")
_VECTOR_REGISTER = re.compile(r"%([xyz])mm\d+|\b([xyz])mm\d+")
#: A stack slot in AT&T syntax (-8(%rsp)) and in Intel's ([rsp - 8]).
_STACK = re.compile(r"\(%r[sb]p|\[r[sb]p\b")
_BITS = {"x": 128, "y": 256, "z": 512}


@dataclass
class _Block:
    name: str
    number: int
    lines: list[str] = field(default_factory=list)
    #: Labels that it jumps to.
    targets: list[str] = field(default_factory=list)


def hot_block(assembly: str) -> HotBlock | None:
    """The block with most multiply-adds, one in a loop before one that runs once; None of code without blocks.

    Without multiply-adds it is the one with most calls of functions, or else most instructions on vectors. A block
    is what lies between labels and jumps. It is in a loop if a jump from it, or from one further down, goes to it
    or to one further up.
    """
    blocks = list(_blocks(assembly))
    inside = _in_loops(blocks)
    ranked = [block for block in sorted(blocks, key=_heat) if any(_heat(block))]
    if not ranked:
        return None
    # A block that runs once may be longer than a loop's body, which is hotter all the same.
    loops = [block for block in ranked if block.number in inside and _is_like(block, ranked[-1])]
    best = loops[-1] if loops else ranked[-1]
    vector = _vector_lines(best)
    added = [line for line in vector if _FMA.match(line)]
    return HotBlock(
        n_fma=_n_fma(best),
        n_vector=len(vector),
        n_spills=sum(bool(_STACK.search(line)) for line in vector),
        vector_bits=max(map(_bits, added or vector), default=0),
        is_loop=best.number in inside,
        n_calls=_n_calls(best),
    )


def _heat(block: _Block) -> tuple[int, int, int]:
    return _n_fma(block), _n_calls(block), len(_vector_lines(block))


def _is_like(block: _Block, hottest: _Block) -> bool:
    """Whether it has of what the hottest was chosen for."""
    kind = next(number for number, count in enumerate(_heat(hottest)) if count)
    return _heat(block)[kind] > 0


def _vector_lines(block: _Block) -> list[str]:
    return [line for line in block.lines if line.startswith("v") and _VECTOR_REGISTER.search(line)]


def _n_calls(block: _Block) -> int:
    return sum(line.startswith("call") for line in block.lines)


def _blocks(assembly: str) -> Iterator[_Block]:
    block = _Block("", 0)
    for raw in assembly.splitlines():
        line = raw.split("#", 1)[0].strip()
        if label := _LABEL.match(line):
            yield block
            block = _Block(label[1], block.number + 1)
        elif line and not line.startswith("."):
            block.lines.append(line)
            if jump := _JUMP.match(line):
                block.targets.append(jump[1])
                yield block
                block = _Block("", block.number + 1)
    yield block


def _in_loops(blocks: Sequence[_Block]) -> set[int]:
    numbers = {block.name: block.number for block in blocks if block.name}
    inside: set[int] = set()
    for block in blocks:
        for target in block.targets:
            first = numbers.get(target)
            if first is not None and first <= block.number:
                inside.update(range(first, block.number + 1))
    return inside


def _n_fma(block: _Block) -> int:
    return sum(bool(_FMA.match(line)) for line in block.lines)


def _bits(line: str) -> int:
    return max(_BITS[a or b] for a, b in _VECTOR_REGISTER.findall(line))
