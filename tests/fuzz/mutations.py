"""Files that went wrong: bytes flipped, cut and doubled, and JSON whose values are not what they should be."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

#: Values that readers trip over.
STRANGE: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**31,
    2**63,
    -(2**63) - 1,
    10**400,
    1e308,
    -0.0,
    float("nan"),
    float("inf"),
    "",
    "\0",
    "\ud800",
    "x" * 10_000,
    "__import__('os').abort()",
    [],
    {},
    [[]],
    [[[[[[]]]]]],
    {"": {"": {}}},
    {"__class__": "os.system"},
    [0] * 1000,
)


def _strange(draw: random.Random) -> Any:
    return copy.deepcopy(draw.choice(STRANGE))


def nested(depth: int) -> str:
    """JSON lists in one another."""
    return "[" * depth + "]" * depth


def broken_bytes(content: bytes, draw: random.Random) -> bytes:
    """A file after a bad disk: a few changes anywhere."""
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 4, 16))):
        at = draw.randrange(len(changed) + 1)
        kind = draw.randrange(6)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del changed[at:]
        elif kind == 2:
            del changed[at : at + draw.randrange(1, 64)]
        elif kind == 3:
            changed[at:at] = bytes(draw.randrange(256) for _ in range(draw.randrange(1, 16)))
        elif kind == 4:
            changed[at:at] = changed[at : at + draw.randrange(1, 256)]
        elif at < len(changed):
            changed[at] = draw.choice((0, 0x7F, 0x80, 0xFF, ord("["), ord("{"), ord('"'), ord("-"), ord("9")))
    return bytes(changed)


def broken_value(value: Any, draw: random.Random) -> Any:
    """A JSON value with one thing in it replaced, dropped, doubled or put elsewhere."""
    places = list(_places(value))
    if not places:
        return _strange(draw)
    holder, key = draw.choice(places)
    kind = draw.randrange(6)
    if kind <= 2:
        holder[key] = _strange(draw)
    elif kind == 3:
        del holder[key]
    elif kind == 4:
        other, there = draw.choice(places)
        if there in other if isinstance(other, dict) else there < len(other):
            holder[key] = other[there] if not isinstance(other[there], list | dict) else _strange(draw)
    elif isinstance(holder, list):
        holder.insert(key, holder[key])
    else:
        holder[f"{key}x"] = holder.pop(key)
    return value


def broken_json(text: str, draw: random.Random) -> str:
    """JSON text that is broken as JSON, as bytes, or nested without end."""
    kind = draw.randrange(10)
    if kind == 0:
        return nested(draw.choice((50, 1_000, 100_000)))
    if kind <= 2:
        return broken_bytes(text.encode(), draw).decode("utf-8", "replace")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # broken already
        return broken_bytes(text.encode("utf-8", "replace"), draw).decode("utf-8", "replace")
    for _ in range(draw.choice((1, 1, 2, 3))):
        value = broken_value(value, draw)
    return json.dumps(value)


def broken_lines(text: str, draw: random.Random) -> str:
    """Lines of JSON, one or two of which are broken."""
    lines = text.splitlines()
    for _ in range(draw.choice((1, 1, 2))):
        at = draw.randrange(len(lines))
        lines[at] = broken_json(lines[at], draw)
        if draw.randrange(8) == 0:
            lines.append(lines[draw.randrange(len(lines))])
    return "\n".join(lines) + "\n"


def _places(value: Any) -> Any:
    """Every (holder, key) of a JSON value."""
    if isinstance(value, dict):
        keys: Any = list(value)
    elif isinstance(value, list):
        keys = range(len(value))
    else:
        return
    for key in keys:
        yield value, key
        yield from _places(value[key])
