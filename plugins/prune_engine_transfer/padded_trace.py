"""An entry's trace with PadEinsum put in: the compiler's JSON is edited, as in `ceiling`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from prune_engine.candidates import Decision
from prune_engine.library import LibraryEntry

_TILE, _SAMPLE, _BLOCK, _LOOPS = "SamplePerfectTile", "Sample", "GetSBlock", "GetLoops"
_ENTER_POSTPROC = "EnterPostproc"


def padded_trace(
    entry: LibraryEntry, factors: Mapping[int, Decision], extents: Mapping[int, int], renamed: Mapping[str, str]
) -> str | None:
    """The trace with these factors of its tiles, by number, on loops that are padded from ``extents``.

    ``renamed`` gives what the kernel calls a statement that the trace calls otherwise. None for a trace that cannot
    be read or is not one of the entry's decisions.
    """
    try:
        instructions, decisions = json.loads(entry.trace_json)
        decided: dict[int, Any] = {int(at): decision for at, decision in decisions}
        kinds = [inst[0] for inst in instructions]
        n = kinds.index(_ENTER_POSTPROC) if _ENTER_POSTPROC in kinds else len(kinds)
        samples = [at for at in range(n) if kinds[at].startswith(_SAMPLE)]
        padding: dict[str, int] = {}
        for number, row in factors.items():
            at = samples[number]
            if kinds[at] != _TILE or tuple(decided[at]) != entry.choices[number].values:
                return None
            decided[at] = list(row)
            # The extent of a loop becomes a multiple of this number.
            padding[instructions[at][1][0]] = math.prod(row) if math.prod(row) != extents[number] else 1
        return _written(instructions[:n], decided, padding, renamed)
    except (ValueError, TypeError, LookupError, AttributeError):
        return None


def _written(
    instructions: Sequence[Any], decided: Mapping[int, Any], padding: Mapping[str, int], renamed: Mapping[str, str]
) -> str:
    written: list[Any] = []
    decisions: list[Any] = []
    for at, (kind, inputs, attributes, outputs) in enumerate(instructions):
        if kind == _BLOCK:
            attributes = [renamed.get(attributes[0], attributes[0]), *attributes[1:]]
        if kind == _LOOPS and padding.keys() & set(outputs):
            written.append(["PadEinsum", inputs, [[padding.get(loop, 1) for loop in outputs]], []])
        if kind.startswith("Get") and not outputs:
            continue  # padding adds statements, so that it would find something now
        if at in decided:
            decisions.append([len(written), decided[at]])
        written.append([kind, inputs, attributes, outputs])
    return json.dumps([written, decisions], separators=(",", ":"))
