"""What each field of a profile means, in a line: for templates, the JSON Schema and the reference page.

The one place where fields are explained. A test sees that every field of every record is here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel

from prune_engine.hardware.fields import unit_of
from prune_engine.hardware.schema import (
    Calibration,
    ComputeUnit,
    Count,
    HardwareProfile,
    Limits,
    MemoryLevel,
    Probe,
    Rate,
    Tile,
)

_SOURCE = "a key of sources: where the number is from"
_ORIGIN = "declared (a data sheet or runtime says so), derived (computed; the source gives the rule) or measured"
#: Record -> field -> meaning.
MEANINGS: Mapping[type[BaseModel], Mapping[str, str]] = {
    HardwareProfile: {
        "schema_version": "version of this format; a newer one is refused",
        "name": "what --profile takes; lower-case letters, digits, '.', '_', '-'",
        "kind": "cpu, gpu or npu",
        "description": "one line for people",
        "aliases": "other names that --profile takes",
        "cpu_model_patterns": "regular expressions on the processor's model name, for --profile auto",
        "compiler_cpu": "the device's name for LLVM or nvcc, such as znver4 or sm_80",
        "core_count": "cores (SMs, CUs, AI cores) that a kernel may use",
        "clock_hz": "the clock that the peaks are meant at",
        "memory": "levels from the innermost to the outermost",
        "compute": "arithmetic units",
        "limits": "what one kernel may use; null is unknown, a field left out means nothing for this kind",
        "transaction_bytes": "unit in which off-chip memory is read",
        "launch_secs": "cost of starting a kernel; on a CPU of one parallel region (fork and join)",
        "combine": "how compute and memory time add up: sum (no overlap), max (full), pipe (along a pipeline)",
        "calibration": "fits a model's terms to this device",
        "probe": "where and when the profile was measured; written by `profiles probe`",
        "sources": "what each source key stands for: title, page or address; the rule of what is derived",
    },
    MemoryLevel: {
        "name": "cpu: l1i l1d l2 l3 dram; gpu: registers shared l1 l2 l3 dram; npu: the vendor's names, and dram",
        "scope": "who shares one instance: core, cluster or chip",
        "instances": "how many there are on the device",
        "capacity_bytes": "of one instance",
        "bandwidth_bytes_per_sec": "of one instance",
        "line_bytes": "size of a cache line",
        "is_hard_limit": "true: a kernel that asks for more cannot run (scratchpad); false: it gets slower (cache)",
        "usable_bytes": "what the runtime or compiler leaves of the capacity",
        "alignment_bytes": "what addresses and sizes of buffers there must be multiples of",
        "ways": "associativity of a cache",
    },
    ComputeUnit: {
        "name": "free: fma, simt, tensor, cube, vector ...",
        "count": "on the whole device",
        "lanes": "fp32 results of one unit per cycle",
        "tile": "one [m, n, k] for all dtypes that tiles does not name",
        "tiles": "by dtype of the operands: the matrix instruction, (m, k) by (k, n)",
        "peak_flop_per_sec": "by dtype, of the whole device, dense; a multiply-add counts as two",
    },
    Limits: {
        "vector_bytes": "widest vector access",
        "vector_alignment_bytes": "what the address and length of a vector access must be multiples of",
        "vector_registers": "architectural vector registers",
        "threads_per_warp": "threads that run in lockstep (a warp, a wavefront)",
        "threads_per_block": "threads that a block may have",
        "threads_per_core": "threads that are resident on an SM or CU",
        "blocks_per_core": "blocks that are resident on an SM or CU",
        "registers_per_thread": "32-bit registers that a thread may use",
        "registers_per_block": "32-bit registers that a block may use",
        "registers_per_core": "32-bit registers of an SM or CU",
        "register_allocation_unit": "32-bit registers are handed out in such units per warp",
        "shared_memory_per_block_bytes": "what a block gets without asking",
        "shared_memory_per_block_opt_in_bytes": "what a block may ask for",
        "shared_memory_per_core_bytes": "shared memory of an SM or CU",
        "shared_memory_allocation_unit_bytes": "shared memory is handed out in such units",
    },
    Calibration: {
        "exponents": "by term of the draft model",
        "source": "what they were fitted on",
    },
    Probe: {
        "cpu_model": "the processor's model name",
        "n_threads": "threads that measured",
        "measured_at": "date and time, ISO 8601",
        "version": "of prune-engine",
        "others_share": "part of all processors' time that other programs used meanwhile, 0 to 1",
    },
    Count: {"value": "a whole number > 0", "source": _SOURCE, "origin": _ORIGIN},
    Rate: {"value": "a number > 0; write exponents as 3.35e+12", "source": _SOURCE, "origin": _ORIGIN},
    Tile: {
        "m": "rows of the left operand and the result",
        "n": "columns of the right operand and the result",
        "k": "columns of the left operand, rows of the right one",
        "source": _SOURCE,
        "origin": _ORIGIN,
    },
}


@dataclass(frozen=True, slots=True)
class FieldNote:
    """One field for people: dotted ``path`` (LEVEL, UNIT, DTYPE stand for names), ``type`` in words, ``unit``.

    ``is_required`` is False for what may be left out; ``may_be_null`` says that null is allowed: unknown.
    """

    path: str
    type: str
    unit: str
    is_required: bool
    may_be_null: bool
    meaning: str


def field_notes() -> list[FieldNote]:
    """Every field that a profile can have, in the schema's order, records before what is in them."""
    return list(_notes(HardwareProfile, ""))


#: Field -> what stands for its items' names in a path.
_ITEMS = {"memory": "LEVEL", "compute": "UNIT", "tiles": "DTYPE", "peak_flop_per_sec": "DTYPE"}
_NUMBERS: Mapping[object, str] = {Count: "whole number", Rate: "number", Tile: "m, n, k"}


def _notes(record: type[BaseModel], path: str) -> Iterator[FieldNote]:
    for name, field in record.model_fields.items():
        here = f"{path}.{name}" if path else name
        options = _options(field.annotation)
        inner = next((option for option in options if option is not type(None)), str)
        may_be_null, meaning = type(None) in options, MEANINGS[record][name]
        yield FieldNote(here, _type(name, inner), unit_of(here), field.is_required(), may_be_null, meaning)
        nested = next((it for it in (inner, *get_args(inner)) if it in MEANINGS and it not in _NUMBERS), None)
        if nested is not None:
            yield from _notes(nested, f"{here}.{_ITEMS[name]}" if name in _ITEMS else here)


def _options(annotation: Any) -> tuple[Any, ...]:
    """What a field may be; ``Annotated`` is looked through."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return tuple(it for part in get_args(annotation) for it in _options(part))
    return _options(get_args(annotation)[0]) if hasattr(annotation, "__metadata__") else (annotation,)


def _type(name: str, inner: Any) -> str:
    if inner in _NUMBERS:
        return _NUMBERS[inner]
    origin = get_origin(inner)
    if name in ("tiles", "peak_flop_per_sec"):
        return f"{_NUMBERS[_options(get_args(inner)[1])[0]]} by dtype"
    if name == "tile":
        return "list m, n, k"
    if origin is tuple:
        return "list of texts" if get_args(inner)[0] not in MEANINGS else "list of records"
    if inner in MEANINGS:
        return "record"
    if origin is not None and issubclass(origin if isinstance(origin, type) else object, Mapping):
        return "number by term" if name == "exponents" else "text by key"
    plain = {bool: "true or false", int: "whole number", float: "number", str: "text"}
    return plain.get(inner, "text" if name != "schema_version" else "whole number")
