"""Kernel tables: every configuration of a hand-written kernel with its run time on several devices."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.errors import ConfigError
from prune_engine.recorded.spaces import RecordedSpace
from prune_engine.space import DesignSpace, Int32Array, Sketch, Variable, VariableKind
from prune_engine.symbols.builtin import BUILTIN_SYMBOLS
from prune_engine.symbols.table import SymbolDef, symbol_table
from prune_engine.task import TuningTask
from prune_engine.verdicts import BoolArray, Float64Array

_OPAQUE = "a kernel written by hand has no loop nest to read"


@dataclass(frozen=True, slots=True, eq=False)
class KernelTable:
    """One kernel's configurations on several devices.

    ``names`` are the parameters, ``choices[p]`` the distinct values of each as text, numbers ascending.
    ``indices``, int32 (n, p), are the configurations. ``run_secs`` has, by device, float64 (n,), NaN where it
    failed, and ``tried``, bool (n,), says what was run there at all.
    """

    name: str
    names: tuple[str, ...]
    choices: tuple[tuple[str, ...], ...]
    indices: Int32Array
    run_secs: Mapping[str, Float64Array]
    tried: Mapping[str, BoolArray]
    remarks: tuple[str, ...] = ()

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices' names as the table has them."""
        return tuple(self.run_secs)

    def device(self, wanted: str) -> str:
        """The table's own name of a device, however case, blanks and dashes are written. Raises ConfigError."""
        for name in self.devices:
            if plain_device_name(name) == plain_device_name(wanted):
                return name
        raise ConfigError(
            "the table has no such device",
            who=self.name,
            got=repr(wanted),
            expected=f"one of: {', '.join(self.devices)}",
        )

    def recorded(self, device: str, symbols: Mapping[str, SymbolDef] | None = None) -> RecordedSpace:
        """The space of one device: one opaque sketch whose variables are the parameters. Raises ConfigError.

        Values that are whole numbers stand for themselves in the choice tables, others for their positions.
        """
        device = self.device(device)
        task = TuningTask(
            task_id=hashlib.blake2b(f"{self.name}|{self.names}|{device}".encode(), digest_size=12).hexdigest(),
            name=self.name,
            target=f"device:{device}",
            weight=1,
            flop_count=0,
            arg_shapes=(),
            arg_dtypes=(),
        )
        variables = tuple(
            Variable.of(name, VariableKind.CATEGORICAL, np.array(_numbers(values), dtype=np.int32)[:, None])
            for name, values in zip(self.names, self.choices, strict=True)
        )
        sketch_id = hashlib.blake2b("|".join(self.names).encode(), digest_size=8).hexdigest()
        sketch = Sketch(0, sketch_id, variables, opaque_reason=_OPAQUE)
        space = DesignSpace(task, (sketch,), symbol_table(BUILTIN_SYMBOLS) if symbols is None else symbols)
        rows = np.flatnonzero(self.tried[device])
        batch = CandidateBatch(space, sketch, np.ascontiguousarray(self.indices[rows]))
        return RecordedSpace(self.name, task, space, (batch,), (self.run_secs[device][rows],))


def plain_device_name(name: str) -> str:
    """A device's name as profiles write theirs: ``RTX_2080_Ti`` is ``rtx-2080-ti``."""
    return "-".join(name.lower().replace("_", " ").replace("-", " ").split())


def _numbers(values: Sequence[str]) -> list[int]:
    """A number for each value: itself where all are whole numbers, else its position."""
    try:
        numbers = [int(value) for value in values]
    except ValueError:
        return list(range(len(values)))
    return numbers if all(abs(number) < 2**31 for number in numbers) else list(range(len(values)))
