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
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from prune_engine.hardware.consistency import REQUIRED_LIMITS as REQUIRED_LIMITS
from prune_engine.hardware.consistency import inconsistencies
from prune_engine.hardware.levels import DeviceKind as DeviceKind
from prune_engine.hardware.levels import current_name, digest_name
from prune_engine.read_only import ReadOnlyDict

SCHEMA_VERSION: Final = 1

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=80)]
#: A type of elements as TVM names it, tfloat32 besides; float8 says its layout.
Dtype = Annotated[str, Field(pattern=r"^(u?int|b?float|tfloat)[0-9]+(_e[0-9]m[0-9][a-z0-9]*)?$", max_length=40)]
Text = Annotated[str, Field(min_length=1)]
#: Frozen as the records are: every strategy is shown the one profile of a run.
_READ_ONLY = AfterValidator(ReadOnlyDict)
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


class Scope(Enum):
    """Who shares one instance of a memory: one core (SM, CU), a cluster of cores, or the whole device."""

    CORE = "core"
    CLUSTER = "cluster"
    CHIP = "chip"


class Tile(_Record):
    """The m, n, k that a matrix instruction multiplies: (m, k) by (k, n). Smaller operands are padded to it."""

    m: Annotated[int, Field(gt=0)]
    n: Annotated[int, Field(gt=0)]
    k: Annotated[int, Field(gt=0)]
    source: Text
    origin: Origin = "declared"


class MemoryLevel(_Record):
    """One level of memory. Capacity and bandwidth are those of *one* instance.

    ``is_hard_limit`` says that a kernel asking for more than the capacity cannot run (a scratchpad), in
    contrast to a cache, which only gets slower. ``usable_bytes`` is what is left of the capacity after the
    runtime or compiler took its share, where that is published; ``alignment_bytes`` what the start and size
    of a buffer there must be multiples of; ``ways`` a cache's associativity.
    """

    name: Name
    scope: Scope
    instances: Count | None
    capacity_bytes: Count | None
    bandwidth_bytes_per_sec: Rate | None
    line_bytes: Count | None
    is_hard_limit: bool
    usable_bytes: Count | None = None
    alignment_bytes: Count | None = None
    ways: Count | None = None

    @model_validator(mode="after")
    def _part_is_not_more_than_all(self) -> MemoryLevel:
        if self.usable_bytes and self.capacity_bytes and self.usable_bytes.value > self.capacity_bytes.value:
            raise ValueError(
                f"usable_bytes {self.usable_bytes.value} is more than capacity_bytes {self.capacity_bytes.value}"
            )
        return self

    @property
    def limit_bytes(self) -> int | None:
        """Bytes that a kernel may have in one instance: what is usable of it, else all; None if unknown."""
        limit = self.usable_bytes or self.capacity_bytes
        return limit.value if limit else None


class ComputeUnit(_Record):
    """One kind of arithmetic unit.

    ``count`` is the number on the whole device; ``lanes`` the fp32 results of one unit per cycle, or
    ``tiles`` the shape of its matrix instruction by dtype of the operands; ``tile`` is one m, n, k for all
    dtypes that ``tiles`` does not name. ``peak_flop_per_sec`` is the whole device's dense peak by dtype; one
    fused multiply-add counts as two.
    """

    name: Name
    count: Count | None
    lanes: Count | None = None
    tile: tuple[Annotated[int, Field(gt=0)], Annotated[int, Field(gt=0)], Annotated[int, Field(gt=0)]] | None = None
    tiles: Annotated[Mapping[Dtype, Tile | None], _READ_ONLY] | None = None
    peak_flop_per_sec: Annotated[Mapping[Dtype, Rate | None], _READ_ONLY]

    def tile_of(self, dtype: str) -> tuple[int, int, int] | None:
        """The m, n, k that operands of this dtype are padded to; None if unknown or not a matrix unit."""
        if self.tiles is not None and dtype in self.tiles:
            tile = self.tiles[dtype]
            return (tile.m, tile.n, tile.k) if tile else None
        return self.tile


class Limits(_Record):
    """What one kernel may use. A field that means nothing for the device's kind is left out (None).

    ``core`` is an SM or CU here. ``vector_bytes`` is the widest vector access, ``vector_alignment_bytes``
    what its address and length must be multiples of. ``shared_memory_per_block_bytes`` is what a block gets
    without asking, the opt-in limit what it may ask for.
    """

    vector_bytes: Count | None = None
    vector_alignment_bytes: Count | None = None
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


class Calibration(_Record):
    """Exponents that fit a draft model's terms to this device, by term, and what they were fitted on."""

    exponents: Annotated[Mapping[Name, float], _READ_ONLY]
    source: Text


class Probe(_Record):
    """Where and when the numbers of a profile were measured.

    ``others_share`` is the part of all processors' time that other programs used meanwhile, 0 to 1.
    """

    cpu_model: Text
    n_threads: Annotated[int, Field(gt=0)]
    measured_at: Text
    version: Text
    others_share: Annotated[float, Field(ge=0, le=1)] | None = None


class HardwareProfile(_Record):
    """One device. ``core_count`` counts the cores (SMs, CUs) that a kernel may use; ``clock_hz`` is the clock
    that the peaks are meant at.

    ``launch_secs`` is the cost of starting a kernel; on a CPU that of one parallel region: waking the
    threads and waiting for the last. ``transaction_bytes`` is the unit in which off-chip memory is read.
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
    probe: Probe | None = None
    sources: Annotated[Mapping[str, Text], _READ_ONLY]

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
        found = list(inconsistencies(self.model_dump(mode="json", exclude_unset=True)))
        if found:
            told = (f"{'.'.join(map(str, it.path))}: {it.text}. {it.remedy}" for it in found)
            raise ValueError(" ".join(told).rstrip("."))
        return self

    def level(self, name: str) -> MemoryLevel | None:
        """The memory level of that name, or None."""
        wanted = current_name(self.kind, name)
        return next((m for m in self.memory if current_name(self.kind, m.name) == wanted), None)

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
            if node is self.memory:
                node = self.level(part)
            elif isinstance(node, tuple):
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
        prose = {"description", "aliases", "cpu_model_patterns", "sources", "probe"}
        content = _without_sources(self.model_dump(mode="json", exclude=prose, exclude_none=True))
        for level in content["memory"]:
            level["name"] = digest_name(self.kind, level["name"])
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


Quantity = Count | Rate | Tile


def quantities(profile: HardwareProfile) -> Iterator[tuple[str, Quantity]]:
    """Every known number (and matrix shape) of a profile with its dotted path."""
    yield from _walk(profile, "")


def _walk(node: object, path: str) -> Iterator[tuple[str, Quantity]]:
    if isinstance(node, Quantity):
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


def _without_sources(node: Any) -> Any:
    if isinstance(node, dict):
        return {k: _without_sources(v) for k, v in node.items() if k not in ("source", "origin")}
    if isinstance(node, list):
        return [_without_sources(item) for item in node]
    return node
