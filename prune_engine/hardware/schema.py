"""What a hardware profile says: schema version 1.

A profile describes one runtime device (a CPU socket or slice, one GPU as the runtime reports it). Every number
is a `Count` or `Rate` with the source it was read from, or None: unknown. Nothing is guessed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

SCHEMA_VERSION: Final = 1

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=80)]
Text = Annotated[str, Field(min_length=1)]
#: declared: a data sheet or runtime says so; derived: computed, the source gives the rule; measured: probed.
Origin = Literal["declared", "derived", "measured"]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Count(_Record):
    """A whole number > 0 and where it comes from: a key of the profile's ``sources``."""

    value: Annotated[int, Field(gt=0)]
    source: Text
    origin: Origin = "declared"


class Rate(_Record):
    """A real number > 0 and where it comes from: a key of the profile's ``sources``."""

    value: Annotated[float, Field(gt=0)]
    source: Text
    origin: Origin = "declared"


class DeviceKind(Enum):
    """What kind of device the profile is about."""

    CPU = "cpu"
    GPU = "gpu"
    NPU = "npu"


class Scope(Enum):
    """Who shares one instance of a memory: one core (SM, CU), a cluster of cores, or the whole device."""

    CORE = "core"
    CLUSTER = "cluster"
    CHIP = "chip"


class MemoryLevel(_Record):
    """One level of memory. Capacity and bandwidth are those of *one* instance.

    ``is_hard_limit`` says that a kernel asking for more than the capacity cannot run (a scratchpad), in
    contrast to a cache, which only gets slower.
    """

    name: Name
    scope: Scope
    instances: Count | None
    capacity_bytes: Count | None
    bandwidth_bytes_per_sec: Rate | None
    line_bytes: Count | None
    is_hard_limit: bool


class ComputeUnit(_Record):
    """One kind of arithmetic unit.

    ``count`` is the number on the whole device; ``lanes`` the fp32 results of one unit per cycle, or
    ``tile`` the m, n, k of its matrix instruction. ``peak_flop_per_sec`` is the whole device's dense peak
    by dtype; one fused multiply-add counts as two.
    """

    name: Name
    count: Count | None
    lanes: Count | None = None
    tile: tuple[Annotated[int, Field(gt=0)], Annotated[int, Field(gt=0)], Annotated[int, Field(gt=0)]] | None = None
    peak_flop_per_sec: Mapping[str, Rate | None]


class Limits(_Record):
    """What one kernel may use. A field that means nothing for the device's kind is left out (None).

    ``core`` is an SM or CU here. ``shared_memory_per_block_bytes`` is what a block gets without asking,
    the opt-in limit what it may ask for.
    """

    vector_bytes: Count | None = None
    vector_registers: Count | None = None
    threads_per_warp: Count | None = None
    threads_per_block: Count | None = None
    threads_per_core: Count | None = None
    blocks_per_core: Count | None = None
    registers_per_thread: Count | None = None
    registers_per_block: Count | None = None
    registers_per_core: Count | None = None
    register_allocation_unit: Count | None = None
    shared_memory_per_block_bytes: Count | None = None
    shared_memory_per_block_opt_in_bytes: Count | None = None
    shared_memory_per_core_bytes: Count | None = None
    shared_memory_allocation_unit_bytes: Count | None = None


#: Limits a profile of each kind must speak about, be it with null.
REQUIRED_LIMITS: Mapping[DeviceKind, tuple[str, ...]] = {
    DeviceKind.CPU: ("vector_bytes", "vector_registers"),
    DeviceKind.GPU: (
        "vector_bytes",
        "threads_per_warp",
        "threads_per_block",
        "threads_per_core",
        "registers_per_block",
        "shared_memory_per_block_bytes",
    ),
    DeviceKind.NPU: ("vector_bytes",),
}


class Calibration(_Record):
    """Exponents that fit a draft model's terms to this device, by term, and what they were fitted on."""

    exponents: Mapping[Name, float]
    source: Text


class HardwareProfile(_Record):
    """One device. ``core_count`` counts the cores (SMs, CUs) that a kernel may use.

    ``combine`` is how a model adds up compute and memory time: ``sum`` (no overlap), ``max`` (full overlap)
    or ``pipe`` (overlap along a pipeline). ``sources`` explains each source tag used in the profile.
    """

    schema_version: Literal[1]
    name: Name
    kind: DeviceKind
    description: str = ""
    aliases: tuple[Name, ...] = ()
    cpu_model_patterns: tuple[Text, ...] = ()
    compiler_cpu: str | None = None
    core_count: Count | None
    clock_hz: Rate | None
    memory: tuple[MemoryLevel, ...]
    compute: tuple[ComputeUnit, ...]
    limits: Limits
    transaction_bytes: Count | None
    launch_secs: Rate | None
    combine: Literal["sum", "max", "pipe"]
    calibration: Calibration | None = None
    sources: Mapping[str, Text]

    @field_validator("cpu_model_patterns")
    @classmethod
    def _patterns_compile(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
        return patterns

    @model_validator(mode="after")
    def _is_complete(self) -> HardwareProfile:
        missing = [f for f in REQUIRED_LIMITS[self.kind] if f not in self.limits.model_fields_set]
        if missing:
            raise ValueError(f"limits of a {self.kind.value} must give {', '.join(missing)} (null if unknown)")
        for what, names in (
            ("memory level", [m.name for m in self.memory]),
            ("compute unit", [c.name for c in self.compute]),
        ):
            if len(set(names)) < len(names):
                raise ValueError(f"two {what}s share a name: {', '.join(names)}")
        for path, quantity in quantities(self):
            if quantity.source not in self.sources:
                known = ", ".join(self.sources) or "none"
                raise ValueError(f"{path}: source {quantity.source!r} is not explained in sources ({known})")
        return self

    def level(self, name: str) -> MemoryLevel | None:
        """The memory level of that name, or None."""
        return next((m for m in self.memory if m.name == name), None)

    def unit(self, name: str) -> ComputeUnit | None:
        """The compute unit of that name, or None."""
        return next((c for c in self.compute if c.name == name), None)

    def value(self, path: str) -> int | float | None:
        """The number at a dotted path, such as ``limits.threads_per_block`` or ``memory.l2.capacity_bytes``.

        None means unknown, or a level or unit that this device does not have. Raises KeyError for a path
        that no profile can have.
        """
        node: object = self
        for part in path.split("."):
            if node is None:
                return None
            if isinstance(node, tuple):
                node = next((item for item in node if item.name == part), None)
            elif isinstance(node, Mapping):
                node = node.get(part)
            elif isinstance(node, BaseModel) and part in type(node).model_fields:
                node = getattr(node, part)
            else:
                raise KeyError(f"no profile has {path!r}")
        if node is None:
            return None
        if not isinstance(node, Count | Rate):
            raise KeyError(f"{path!r} is not a number of a profile")
        return node.value

    def digest(self) -> str:
        """Hash of what the profile says about the device: numbers and structure, not prose or sources.

        Unknown values do not count, so a field added to the schema later changes no digest.
        """
        prose = {"description", "aliases", "cpu_model_patterns", "sources"}
        content = _without_sources(self.model_dump(mode="json", exclude=prose, exclude_none=True))
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def quantities(profile: HardwareProfile) -> Iterator[tuple[str, Count | Rate]]:
    """Every known number of a profile with its dotted path."""
    yield from _walk(profile, "")


def _walk(node: object, path: str) -> Iterator[tuple[str, Count | Rate]]:
    if isinstance(node, Count | Rate):
        yield path, node
    elif isinstance(node, BaseModel):
        for field in type(node).model_fields:
            yield from _walk(getattr(node, field), f"{path}.{field}" if path else field)
    elif isinstance(node, Mapping):
        for key, item in node.items():
            yield from _walk(item, f"{path}.{key}")
    elif isinstance(node, tuple):
        for item in node:
            yield from _walk(item, f"{path}.{getattr(item, 'name', '')}")


def _without_sources(node: object) -> object:
    if isinstance(node, dict):
        return {k: _without_sources(v) for k, v in node.items() if k not in ("source", "origin")}
    if isinstance(node, list):
        return [_without_sources(item) for item in node]
    return node
