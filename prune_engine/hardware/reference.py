"""The reference page of profiles: ``python -m prune_engine.hardware.reference > docs/reference/profile.md``."""

from __future__ import annotations

from collections.abc import Sequence

from prune_engine.hardware.levels import DeviceKind
from prune_engine.hardware.meanings import MEANINGS, FieldNote, field_notes
from prune_engine.hardware.schema import REQUIRED_LIMITS, SCHEMA_VERSION, Count

_HEAD = f"""\
# Fields of a hardware profile

Every field of a profile's YAML file, version {SCHEMA_VERSION} of the format. [Hardware
profiles](../profiles/index.md) shows a whole one, and [the guide to packs](../guides/pack.md) how to write and
publish one. For editors and other programs there is a JSON Schema, `prune_engine.schemas.schema("profile")` or
`prune_engine/schemas/profile.schema.json` in the package.

A *number* is written as `{{value: 65536, source: sheet}}` and *m, n, k* as `{{m: 16, n: 16, k: 16, source:
sheet}}`, both with `origin` where it is not `declared`. The unit is that of the value. LEVEL, UNIT and DTYPE
stand for names. *Required* fields must be there; where *null* is allowed it says that nobody knows.
"""
_SECTIONS = (
    ("The device", ""),
    ("Memory levels", "memory.LEVEL."),
    ("Compute units", "compute.UNIT."),
    ("Limits", "limits."),
    ("Calibration", "calibration."),
    ("Probe", "probe."),
)


def page() -> str:
    """The whole page as Markdown."""
    notes = field_notes()
    nested = tuple(prefix for _, prefix in _SECTIONS if prefix)
    parts = [_HEAD]
    for title, prefix in _SECTIONS:
        found = [it for it in notes if (it.path.startswith(prefix) if prefix else not it.path.startswith(nested))]
        parts.append(f"## {title}\n\n{_required(prefix)}{_table(found, prefix)}")
    parts.append(f"## Numbers\n\n{_number_table()}")
    return "\n".join(parts)


def _required(prefix: str) -> str:
    if prefix != "limits.":
        return ""
    told = [f"{kind.value}: {', '.join(f'`{name}`' for name in REQUIRED_LIMITS[kind])}" for kind in DeviceKind]
    return (
        "Limits that a profile of each kind must speak about, be it with `null`:\n\n"
        + "".join(f"- {line}\n" for line in [*told, ""] if line)
        + "\n"
    )


def _table(notes: Sequence[FieldNote], prefix: str) -> str:
    lines = ["| field | type | unit | required | null | meaning |", "|---|---|---|---|---|---|"]
    for note in notes:
        flags = ("yes" if note.is_required else "", "yes" if note.may_be_null else "")
        meaning = note.meaning.replace("|", "\\|")
        lines.append(
            f"| `{note.path.removeprefix(prefix)}` | {note.type} | {note.unit} | {' | '.join(flags)} | {meaning} |"
        )
    return "\n".join(lines) + "\n"


def _number_table() -> str:
    meanings = {
        **MEANINGS[Count],
        "value": "a number > 0, a whole one where the type says so; exponents as in 3.35e+12",
    }
    return "| field | meaning |\n|---|---|\n" + "".join(
        f"| `{name}` | {text} |\n" for name, text in meanings.items()
    )


if __name__ == "__main__":
    print(page(), end="")
