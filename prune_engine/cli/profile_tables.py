"""How profiles are printed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from prune_engine.cli.console import result_console

if TYPE_CHECKING:
    from prune_engine.hardware import Choice, ProfileEntry
    from prune_engine.hardware.fields import Difference

_UNKNOWN = "unknown"
#: Largest first, and what each is called in front of a unit.
_DECIMAL = (
    (1e15, "P"),
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "µ"),
    (1e-9, "n"),
)
_BINARY = ((2.0**30, "Gi"), (2.0**20, "Mi"), (2.0**10, "Ki"))


def quantity(value: float | str | None, unit: str) -> str:
    """A number with a unit that people can read: 49152 bytes is 48 KiB, 2.039e12 bytes/s is 2.039 TB/s."""
    if value is None or isinstance(value, str):
        return _UNKNOWN if value is None else value
    if unit == "bytes":
        step, prefix = next(((s, p) for s, p in _BINARY if value >= s), (1.0, ""))
        return f"{value / step:.6g} {prefix}B"
    if not unit:
        return f"{value:g}" if isinstance(value, float) else str(value)
    step, prefix = next(((s, p) for s, p in _DECIMAL if value >= s), _DECIMAL[-1])
    return f"{value / step:.4g} {prefix}{unit.replace('bytes', 'B')}"


def print_entries(entries: Iterable[ProfileEntry]) -> None:
    """Names with aliases, kind and where they were found; files that cannot be used with the reason."""
    from rich.table import Table

    console, entries = result_console(), list(entries)
    table = Table("profile", "kind", "device", "also called", "from", box=None, pad_edge=False)
    seen: set[str] = set()
    for entry in entries:
        if entry.profile is None:
            continue
        name = f"{entry.name} (hidden)" if entry.name in seen else entry.name
        seen.add(entry.name)
        profile = entry.profile
        table.add_row(
            name, profile.kind.value, profile.description, ", ".join(profile.aliases), entry.layer, style=None
        )
    console.print(table)
    for entry in entries:
        if entry.error:
            console.print(f"not usable: {entry.error}", markup=False, soft_wrap=True)


def print_profile(choice: Choice) -> None:
    """Every number with unit and source."""
    from rich.table import Table
    from rich.text import Text

    from prune_engine.hardware.fields import number_rows

    profile, console = choice.profile, result_console()
    title = f"{profile.name}: {profile.description}" if profile.description else profile.name
    console.print(title, markup=False, soft_wrap=True)
    console.print(f"found: {choice.reason}", markup=False, soft_wrap=True)
    facts = [f"kind {profile.kind.value}", f"terms combine by {profile.combine}", f"digest {profile.digest()}"]
    if profile.compiler_cpu:
        facts.insert(1, f"compiler name {profile.compiler_cpu}")
    console.print(", ".join(facts), markup=False, soft_wrap=True)
    table = Table("number", "value", "", "source", box=None, pad_edge=False)
    for row in number_rows(profile):
        origin = "" if row.origin == "declared" else row.origin
        table.add_row(row.field, quantity(row.value, row.unit), origin, Text(row.source))
    console.print(table)


def print_differences(a: str, b: str, rows: Sequence[Difference]) -> None:
    """Field, both values, and the ratio."""
    from rich.table import Table

    console = result_console()
    if not rows:
        console.print(f"{a} and {b} say the same", markup=False)
        return
    table = Table("field", a, b, "ratio", box=None, pad_edge=False)
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.3g}"
        left = "-" if row.only_in == "b" else quantity(row.a, row.unit)
        right = "-" if row.only_in == "a" else quantity(row.b, row.unit)
        table.add_row(row.field, left, right, ratio)
    console.print(table)
