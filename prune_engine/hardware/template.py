"""Write a profile to be filled in: every field that a device of its kind has, with unit and meaning.

An empty template is a valid profile of which nothing is known. One made from another profile has that one's numbers
and source keys but no sources, so that it is refused until somebody says where the numbers are from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prune_engine.hardware.levels import DeviceKind
from prune_engine.hardware.meanings import field_notes
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.hardware.writer import scalar_text

_SCRATCHPAD = ("usable_bytes", "alignment_bytes")
#: Kind -> memory levels: name, scope, whether it is a hard limit, the fields that make sense besides the required.
_LEVELS: Mapping[DeviceKind, tuple[tuple[str, str, bool, tuple[str, ...]], ...]] = {
    DeviceKind.CPU: (
        ("l1d", "core", False, ("ways",)),
        ("l2", "core", False, ("ways",)),
        ("l3", "chip", False, ("ways",)),
        ("dram", "chip", True, ()),
    ),
    DeviceKind.GPU: (
        ("registers", "core", True, ()),
        ("shared", "core", True, ()),
        ("l2", "chip", False, ()),
        ("dram", "chip", True, ()),
    ),
    DeviceKind.NPU: (
        ("l0a", "core", True, _SCRATCHPAD),
        ("l0b", "core", True, _SCRATCHPAD),
        ("l0c", "core", True, _SCRATCHPAD),
        ("ub", "core", True, _SCRATCHPAD),
        ("dram", "chip", True, ()),
    ),
}
#: Kind -> arithmetic units: name, and the dtypes of its matrix instruction or, without one, of its lanes.
_UNITS: Mapping[DeviceKind, tuple[tuple[str, bool, tuple[str, ...]], ...]] = {
    DeviceKind.CPU: (("fma", False, ("float32", "float64")),),
    DeviceKind.GPU: (("simt", False, ("float32", "float16")), ("tensor", True, ("float16", "int8"))),
    DeviceKind.NPU: (("cube", True, ("float16", "int8")), ("vector", False, ("float32", "float16"))),
}
_LIMITS: Mapping[DeviceKind, tuple[str, ...]] = {
    DeviceKind.CPU: ("vector_bytes", "vector_alignment_bytes", "vector_registers"),
    DeviceKind.NPU: ("vector_bytes", "vector_alignment_bytes"),
}
_NOT_VECTOR_REGISTERS = "vector_registers"
#: What a device of the kind is called in the file's first line, and what is said of its levels.
_HINTS: Mapping[DeviceKind, str] = {
    DeviceKind.CPU: "Rules look levels up by these names; a system cache is l3. Remove those it has not.",
    DeviceKind.GPU: "Rules look levels up by these names; l1 and l3 exist, too. Remove those it has not.",
    DeviceKind.NPU: "Rules that ship read l0a l0b l0c (operands and sums of a matrix unit), ub (vector unit),\n"
    "# nram, wram and sram; levels of other names are for people and for rules of your own.",
}
#: Comments begin in this column, or behind a longer line.
_COLUMN = 46


_HEAD = """\
What one {kind} can do. Write each number as {{value: 65536, source: sheet}}; the source is a key of sources, at the
end. What is computed has `origin: derived`, what you measured `origin: measured`. Leave null what nobody published:
rules and models treat it as unknown. Exponents have a point and a sign, as in 3.35e+12.
`prune-engine profiles check FILE` tells all mistakes.
"""


def template(name: str, kind: DeviceKind, description: str) -> str:
    """YAML of a device of which nothing is known yet; it loads as it is."""
    limits = _LIMITS.get(kind) or tuple(
        field for field in _limit_fields() if field != _NOT_VECTOR_REGISTERS and field != "vector_alignment_bytes"
    )
    content: dict[str, Any] = {
        "schema_version": 1,
        "name": name,
        "kind": kind.value,
        "description": description,
        "aliases": [],
        **({"cpu_model_patterns": []} if kind is DeviceKind.CPU else {}),
        "compiler_cpu": None,
        "core_count": None,
        "clock_hz": None,
        "memory": [_level(*it) for it in _LEVELS[kind]],
        "compute": [_unit(*it) for it in _UNITS[kind]],
        "limits": dict.fromkeys(limits),
        "transaction_bytes": None,
        "launch_secs": None,
        "combine": "pipe" if kind is DeviceKind.NPU else "max",
        "sources": {},
    }
    return "\n".join([*_head(kind), *_lines(content, kind), *_SOURCES_HINT, ""])


def template_like(name: str, other: HardwareProfile, description: str) -> str:
    """YAML with the numbers of another profile and no sources: `load_profile` refuses it until they are given.

    What identifies the other device (aliases, patterns of its model's name, its calibration and probe) is left out.
    """
    content = other.model_dump(mode="json", exclude_unset=True)
    for field in ("aliases", "cpu_model_patterns", "calibration", "probe"):
        content.pop(field, None)
    content |= {"name": name, "description": description, "sources": dict.fromkeys(other.sources, "")}
    in_order = {field: content[field] for field in HardwareProfile.model_fields if field in content}
    head = [
        *_head(other.kind),
        f"# The numbers are those of {other.name}: correct each or write null; say in sources where it is from.",
    ]
    return "\n".join([*head, *_lines(in_order, other.kind), ""])


_SOURCES_HINT = (
    "  # in place of {}:",
    "  # sheet: https://example.com/data-sheet.pdf, table 3",
    "  # peak: 4 units x 16 lanes x 2 flop x 1.0 GHz",
)


def _head(kind: DeviceKind) -> tuple[str, ...]:
    return tuple(f"# {line}" for line in _HEAD.format(kind=kind.value.upper()).splitlines())


def _limit_fields() -> list[str]:
    return [note.path.partition(".")[2] for note in field_notes() if note.path.startswith("limits.")]


def _level(name: str, scope: str, is_hard: bool, optional: tuple[str, ...]) -> dict[str, Any]:
    numbers = ("instances", "capacity_bytes", *optional, "bandwidth_bytes_per_sec", "line_bytes")
    return {"name": name, "scope": scope, **dict.fromkeys(numbers), "is_hard_limit": is_hard}


def _unit(name: str, is_matrix: bool, dtypes: tuple[str, ...]) -> dict[str, Any]:
    shape: dict[str, Any] = {"tiles": dict.fromkeys(dtypes)} if is_matrix else {"lanes": None}
    return {"name": name, "count": None, **shape, "peak_flop_per_sec": dict.fromkeys(dtypes)}


def _lines(content: Mapping[str, Any], kind: DeviceKind) -> Iterator[str]:
    """The content as YAML lines; each field is explained where it comes up first."""
    notes = {note.path: f"[{note.unit}] {note.meaning}" if note.unit else note.meaning for note in field_notes()}
    for key, value in content.items():
        if key == "memory":
            yield f"# {_HINTS[kind]}"
        yield from _field(key, value, "", key, notes)


def _field(key: str, value: Any, indent: str, path: str, notes: dict[str, str]) -> Iterator[str]:
    comment = notes.pop(path, "")
    if path in ("memory", "compute") and value:
        item_name = "LEVEL" if path == "memory" else "UNIT"
        yield _line(f"{indent}{key}:", comment)
        for item in value:
            start = f"{indent}  - "
            for name, inner in item.items():
                yield from _field(name, inner, start, f"{path}.{item_name}.{name}", notes)
                start = f"{indent}    "
    elif isinstance(value, Mapping) and "source" not in value and (value or key == "sources"):
        yield _line(f"{indent}{key}:" if value else f"{indent}{key}: {{}}", comment)
        inside = indent.replace("-", " ") + "  "
        for name, inner in value.items():
            yield from _field(name, inner, inside, f"{path}.{name}", notes)
    else:
        yield _line(f"{indent}{key}: {scalar_text(value)}", comment)


def _line(text: str, comment: str) -> str:
    return f"{text:<{_COLUMN - 2}}  # {comment}" if comment else text
