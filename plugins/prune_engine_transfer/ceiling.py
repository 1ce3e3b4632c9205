"""Ceiling division: an entry's trace with its inner factors kept, although they do not divide the new extent.

Such a schedule is in no choice table. It is made by editing the compiler's JSON of the trace, ``[instructions,
decisions]`` with ``[kind, inputs, attributes, outputs]`` each: the sampling of a tile is taken out, the loop is
split by constants, and the outermost part, left open, is rounded up by the compiler, which guards what is too much
by a predicate. This is what Ansor does with any factors.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prune_engine.candidates import Decision
from prune_engine.library import LibraryEntry

CEIL = "ceil"
UNREADABLE = "its trace cannot be read"

_TILE, _SPLIT, _SAMPLE, _BLOCK, _ENTER_POSTPROC = (
    "SamplePerfectTile",
    "Split",
    "Sample",
    "GetSBlock",
    "EnterPostproc",
)


@dataclass(frozen=True, slots=True)
class Ceiled:
    """A rewritten trace. ``useful_share`` is the part of the iterations that the predicates let through."""

    trace_json: str
    useful_share: float


def ceiled(entry: LibraryEntry, extents: Mapping[int, int], renamed: Mapping[str, str]) -> Ceiled | str | None:
    """Rewrite an entry's trace for other extents; say why it cannot be done, or None where every factor divides.

    ``extents`` gives the new extent by the number of a tile among the entry's decisions; ``renamed`` gives what the
    kernel calls a statement that the trace calls otherwise.
    """
    try:
        instructions, decisions = json.loads(entry.trace_json)
        rewriting = _Rewriting(instructions, decisions, extents, renamed)
    except (ValueError, TypeError, LookupError, AttributeError):
        return UNREADABLE
    # Traces that others wrote may lack what nothing uses, so that decisions are not found by their numbers.
    if rewriting.tiles != {n: entry.choices[n].values for n in extents}:
        return "its trace does not tell the same as its decisions"
    return rewriting.result()


def covering(factors: Sequence[int], extent: int) -> Decision:
    """Inner factors as they are, the outermost so that all is covered; factors beyond the extent are cut to it."""
    left, parts = extent, []
    for factor in reversed(factors[1:]):
        part = min(factor, left)
        parts.append(part)
        left = -(-left // part)
    return (left, *reversed(parts))


class _Rewriting:
    """One trace while it is rewritten."""

    def __init__(
        self,
        instructions: Sequence[Any],
        decisions: Sequence[Any],
        extents: Mapping[int, int],
        renamed: Mapping[str, str],
    ) -> None:
        self._decided = {int(at): decision for at, decision in decisions}
        self._extents, self._renamed = extents, renamed
        #: The factors that the trace itself holds, by number.
        self.tiles: dict[int, Decision] = {}
        self._constants: dict[str, int] = {}
        #: Names of outermost parts: a split takes them as open.
        self._open: set[str] = set()
        self._instructions: list[Any] = []
        self._decisions: list[Any] = []
        self._useful_share = 1.0
        n_sampled = 0
        for position, (kind, inputs, attributes, outputs) in enumerate(instructions):
            if kind == _ENTER_POSTPROC:
                break
            is_dropped = kind == _TILE and n_sampled in extents and self._drops(position, n_sampled, outputs)
            n_sampled += kind.startswith(_SAMPLE)
            if not is_dropped:
                self._keep(position, [kind, inputs, attributes, outputs])

    def result(self) -> Ceiled | None:
        """The trace, None if it has no constants: then the choice tables have it."""
        if not self._constants:
            return None
        text = json.dumps([self._instructions, self._decisions], separators=(",", ":"))
        return Ceiled(text, self._useful_share)

    def _drops(self, position: int, number: int, outputs: Sequence[str]) -> bool:
        """Take a tile out if its factors do not divide; else its decision becomes that of the new extent."""
        extent = self._extents[number]
        factors = tuple(int(factor) for factor in self._decided[position])
        self.tiles[number] = factors
        inner = math.prod(factors[1:])
        if extent % inner == 0:
            self._decided[position] = [extent // inner, *factors[1:]]
            return False
        parts = covering(factors, extent)
        self._constants.update(zip(outputs, parts, strict=True))
        self._open.add(outputs[0])
        self._useful_share *= extent / math.prod(parts)
        return True

    def _keep(self, position: int, instruction: list[Any]) -> None:
        kind, inputs, attributes, outputs = instruction
        if kind == _BLOCK:
            attributes = [self._renamed.get(attributes[0], attributes[0]), *attributes[1:]]
        if position in self._decided:
            self._decisions.append([len(self._instructions), self._decided[position]])
        self._instructions.append([kind, [self._substituted(kind, one) for one in inputs], attributes, outputs])

    def _substituted(self, kind: str, value: Any) -> Any:
        if isinstance(value, list):
            return [self._substituted(kind, one) for one in value]
        if not isinstance(value, str) or value not in self._constants:
            return value
        return None if kind == _SPLIT and value in self._open else self._constants[value]
