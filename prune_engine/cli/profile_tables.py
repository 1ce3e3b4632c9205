"""How profiles are printed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from prune_engine.cli.console import result_console
from prune_engine.display.tables import add_row, make_table, print_line, print_table

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
        number = f"{value / step:.2f}".rstrip("0").rstrip(".") if prefix else str(value)
        return f"{number} {prefix}B"
    if not unit:
        return f"{value:g}" if isinstance(value, float) else str(value)
    step, prefix = next(((s, p) for s, p in _DECIMAL if value >= s), _DECIMAL[-1])
    return f"{value / step:.4g} {prefix}{unit.replace('bytes', 'B')}"


def print_entries(entries: Iterable[ProfileEntry]) -> None:
    """Names with aliases, kind and where they were found; files that cannot be used with the reason."""
    console, entries = result_console(), list(entries)
    table = make_table("profile", "kind", "from", "device", prose=["device"])
    seen: set[str] = set()
    for entry in entries:
        if entry.profile is None:
            continue
        name = f"{entry.name} (hidden)" if entry.name in seen else entry.name
        seen.add(entry.name)
        profile = entry.profile
        aliases = f"also called {', '.join(profile.aliases)}" if profile.aliases else ""
        device = "; ".join(filter(None, (profile.description, aliases)))
        add_row(table, name, profile.kind.value, entry.layer, device)
    print_table(console, table)
    for entry in entries:
        if entry.error:
            print_line(console, f"not usable: {entry.error}")


def print_profile(choice: Choice) -> None:
    """Every number with unit and source: a tag in the table stands for the source below it."""
    from prune_engine.hardware.fields import number_rows

    profile, console = choice.profile, result_console()
    print_line(console, f"{profile.name}: {profile.description}" if profile.description else profile.name)
    print_line(console, f"found: {choice.reason}")
    facts = [f"kind {profile.kind.value}", f"terms combine by {profile.combine}", f"digest {profile.digest()}"]
    if profile.compiler_cpu:
        facts.insert(1, f"compiler name {profile.compiler_cpu}")
    print_line(console, ", ".join(facts))
    tags = {text: f"[{tag}]" for tag, text in profile.sources.items()}
    table = make_table("number", "value", "", "source", right=["value"])
    used: dict[str, str] = {}
    for row in number_rows(profile):
        origin = "" if row.origin == "declared" else row.origin
        if row.source:
            used.setdefault(tags[row.source], row.source)
        add_row(table, row.field, quantity(row.value, row.unit), origin, tags.get(row.source, ""))
    print_table(console, table)
    if used:
        print_line(console, "\nsources:")
    for tag, text in used.items():
        print_line(console, f"{tag} {text}")


def print_differences(a: str, b: str, rows: Sequence[Difference]) -> None:
    """Field, both values, and the ratio."""
    console = result_console()
    if not rows:
        print_line(console, f"{a} and {b} say the same")
        return
    table = make_table("field", a, b, "ratio", right=[a, b, "ratio"])
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.3g}"
        left = "-" if row.only_in == "b" else quantity(row.a, row.unit)
        right = "-" if row.only_in == "a" else quantity(row.b, row.unit)
        add_row(table, row.field, left, right, ratio)
    print_table(console, table)
