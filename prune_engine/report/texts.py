"""Numbers as people read them."""

from __future__ import annotations

from prune_engine.census import Share

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_RATES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def secs_text(secs: float | None) -> str:
    """A duration with three significant digits and its unit; a dash if it is unknown."""
    if secs is None:
        return "–"
    size, unit = next(((s, u) for s, u in _UNITS if abs(secs) >= s), _UNITS[-1])
    return f"{_three(secs / size)} {unit}"


def count_text(n: int | None) -> str:
    """A whole number with spaces between thousands, or as a power of ten if it is very long."""
    if n is None:
        return "–"
    return f"{n:,}".replace(",", "\u202f") if n < 10**12 else f"{n:.3g}".replace("e+", "e")


def rate_text(value: float | None, unit: str) -> str:
    """A rate with a prefix, such as 1.23 Gflop/s."""
    if value is None:
        return "–"
    size, prefix = next(((s, p) for s, p in _RATES if value >= s), (1.0, ""))
    return f"{_three(value / size)} {prefix}{unit}"


def tick_secs(millis: float) -> str:
    """A tick of an axis of milliseconds, in the unit that suits it, without zeros at the end."""
    size, unit = next(((s, u) for s, u in _UNITS if millis * 1e-3 >= s * 0.9999), _UNITS[-1])
    return f"{millis * 1e-3 / size:.3g} {unit}"


def tick_rate(value: float) -> str:
    """A tick of an axis of rates or counts, with a prefix."""
    size, prefix = next(((s, p) for s, p in _RATES if value >= s * 0.9999), (1.0, ""))
    return (
        f"{value / size:.3g}{prefix}"
        if value / size < 1e4
        else f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
    )


def gain_text(ratio: float | None) -> str:
    """How many times as fast."""
    return "–" if ratio is None else f"{ratio:.2f}×"


def share_text(share: Share | None) -> str:
    """A share with its 95 % interval."""
    if share is None:
        return "not audited"
    return f"{share.value:.1%} ({share.low:.1%} to {share.high:.1%})"


def _three(value: float) -> str:
    digits = max(0, 2 - (len(str(int(abs(value)))) - 1))
    return f"{value:.{digits}f}"
