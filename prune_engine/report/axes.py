"""Logarithmic axes with ticks that people can read: 1, 2, 5 and their powers of ten, with units."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

#: Room at both ends, in decades.
_MARGIN = 0.08
#: Leading digits of the ticks by how many decades the axis spans, at most.
_STEPS = (
    (0.4, (1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)),
    (0.9, (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)),
    (2.2, (1.0, 2.0, 5.0)),
)
#: More powers of ten than this are thinned out.
_MAX_POWERS = 7


def log_axis(values: Iterable[float], label: str, text_of: Callable[[float], str]) -> dict[str, Any]:
    """A plotly axis that shows all positive ``values``; ``text_of`` writes a tick's value."""
    shown = [value for value in values if value > 0]
    low, high = (math.log10(min(shown)), math.log10(max(shown))) if shown else (-1.0, 1.0)
    room = max(_MARGIN, 0.04 * (high - low))
    low, high = low - room, high + room
    ticks = _ticks(low, high)
    return {
        "type": "log",
        "range": [round(low, 4), round(high, 4)],
        "tickvals": ticks,
        "ticktext": [text_of(tick) for tick in ticks],
        "title": {"text": label},
    }


def _ticks(low: float, high: float) -> list[float]:
    powers = range(math.floor(low), math.ceil(high) + 1)
    digits = next((steps for span, steps in _STEPS if high - low <= span), (1.0,))
    if len(digits) == 1:
        powers = range(powers.start, powers.stop, max(1, math.ceil(len(powers) / _MAX_POWERS)))
    ticks = [float(f"{digit}e{power}") for power in powers for digit in digits]
    return [tick for tick in ticks if low <= math.log10(tick) <= high]
