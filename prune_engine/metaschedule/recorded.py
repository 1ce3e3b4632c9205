"""Recorded spaces: a MetaSchedule JSON database as batches of candidates with their run times."""

from __future__ import annotations

import base64
import json
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from prune_engine.bounded_files import json_of
from prune_engine.candidates import CandidateBatch
from prune_engine.errors import ConfigError, PruneEngineError, SpaceError
from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.database import RECORDS_FILE, WORKLOADS_FILE
from prune_engine.metaschedule.forked import crash_of
from prune_engine.metaschedule.materialise import Materialiser, last_line
from prune_engine.metaschedule.record_rows import (
    UNREADABLE,
    RecordRow,
    Structure,
    numbered_lines,
    read_rows,
    structure_of,
)
from prune_engine.metaschedule.relax_tasks import block_names, task_of
from prune_engine.metaschedule.targets import resolve_target
from prune_engine.metaschedule.traces import plain
from prune_engine.metaschedule.workloads.survival import try_space
from prune_engine.recorded.spaces import RecordedSpace, Recording
from prune_engine.result_folder import DATABASE_FOLDER
from prune_engine.space import DesignSpace, Sketch, Variable, VariableKind
from prune_engine.symbols.builtin import BUILTIN_SYMBOLS
from prune_engine.symbols.table import SymbolDef, symbol_table
from prune_engine.task import TuningTask

#: Bytes in front of the JSON that TVM encodes in base64: its length.
_LENGTH_PREFIX = 8
#: What a target may say of its cores.
_MAX_CORES = 1 << 16
#: What a module is read for to see whether the compiler survives that.
_ANY_TARGET = '{"kind":"llvm"}'


def load_recorded(folder: Path, *, symbols: Mapping[str, SymbolDef] | None = None) -> list[RecordedSpace]:
    """The recorded spaces of a database, one per workload and target. Raises as ``read_recorded``."""
    return list(read_recorded(folder, symbols=symbols).spaces)


def read_recorded(folder: Path, *, symbols: Mapping[str, SymbolDef] | None = None) -> Recording:
    """Read a database that TVM 0.27 wrote, ours or anyone's.

    ``symbols`` are those that the batches can be asked for; the built-in ones if None. Each space is made
    anew for the target in the records, and a record belongs to the sketch whose instructions it has, apart
    from post-processing and from what is dead in them.

    Raises:
        ConfigError: ``folder`` holds no database, its files cannot be read, or no row of them can be.
        SpaceError: not one of its workloads has a design space here.
    """
    folder = database_folder(folder)
    workloads = numbered_lines(folder / WORKLOADS_FILE)
    groups: dict[tuple[int, str], list[RecordRow]] = defaultdict(list)
    remarks: list[str] = []
    for row in read_rows(folder / RECORDS_FILE):
        if isinstance(row, str):
            remarks.append(row)
        else:
            groups[row.workload, json.dumps(row.target, sort_keys=True)].append(row)
    if not groups:
        raise ConfigError(
            "the database holds no tuning record that can be read",
            who=str(folder),
            got="; ".join(remarks[:3]) or "no record",
            expected="records of measured schedules",
        )
    table = symbol_table(BUILTIN_SYMBOLS) if symbols is None else symbols
    spaces: list[RecordedSpace] = []
    # A workload that is damaged can bring the process down: all of them are tried at once, and apart if one does.
    is_suspect = crash_of(partial(_try, workloads, groups)) is not None
    # `tune` calls the folder of every database alike.
    stem = folder.parent.name if folder.name == DATABASE_FOLDER else folder.name
    for (number, target), rows in sorted(groups.items()):
        name = f"{stem}/{number + 1}" if len(groups) > 1 else stem
        try:
            if is_suspect and (crash := crash_of(partial(_try, workloads, [(number, target)]))):
                raise ConfigError("the workload cannot be read", who=name, got=crash)
            task = _task(name, workloads, number, target)
            if len(groups) > 1:
                task = replace(task, name=f"{name} {'+'.join(_blocks(task))}")
            spaces.append(_recorded(task, rows, table))
        except PruneEngineError as error:
            remarks.append(f"{len(rows)} records of {name} are left out: {error}")
    if not spaces:
        raise SpaceError(
            "no workload of the database can be read here", who=str(folder), got="; ".join(remarks[:3])
        )
    return Recording(tuple(spaces), tuple(remarks))


def database_folder(path: Path) -> Path:
    """The folder of a database that is named by its folder or by one of its files."""
    folder = path.parent if path.is_file() else path
    missing = [name for name in (WORKLOADS_FILE, RECORDS_FILE) if not (folder / name).is_file()]
    if missing:
        raise ConfigError(
            "is no MetaSchedule database",
            who=str(path),
            got="no such folder" if not path.exists() else f"no {' and no '.join(missing)} in it",
            expected=f"a folder with {WORKLOADS_FILE} and {RECORDS_FILE}",
        )
    return folder.resolve()


def _try(workloads: Sequence[tuple[int, str]], groups: Iterable[tuple[int, str]]) -> None:
    """Do with some workloads, each for its target, all that the compiler does: to see whether it survives that."""
    for number, target in groups:
        try_space(partial(_task, "", workloads, number, target))


def _task(name: str, workloads: Sequence[tuple[int, str]], number: int, target: str) -> TuningTask:
    if number >= len(workloads):
        raise ConfigError("no such workload", who=name, got=f"number {number}", expected=f"below {len(workloads)}")
    line, content = workloads[number]
    mod = workload_module(name, line, content, is_suspect=False)
    config = json.loads(target)
    text = config if isinstance(config, str) else target
    n_cores = config.get("num-cores", 1) if isinstance(config, dict) else 1
    if not isinstance(n_cores, int) or n_cores >= _MAX_CORES:
        raise ConfigError("the target's num-cores is no number of cores", who=name, got=repr(n_cores)[:80])
    with warnings.catch_warnings():  # nothing runs here, so what the target says of its cores is right
        warnings.simplefilter("ignore")
        canonical = resolve_target(text, max(1, n_cores))
    try:
        made = task_of(name, 1, mod, canonical)
    except UNREADABLE as error:
        raise ConfigError(
            "the workload is no kernel",
            who=name,
            got=f"line {line} of {WORKLOADS_FILE}: {last_line(str(error))}",
            expected="a module whose `main` is a kernel",
        ) from error
    if made is None:
        raise SpaceError("has shapes that are not all numbers", who=name)
    return made


def _blocks(task: TuningTask) -> list[str]:
    """What a kernel is made of, for people."""
    return [name for name in block_names(task.mod) if name != "root"]


def workload_module(name: str, line: int, content: str, *, is_suspect: bool = True) -> Any:
    """The module in a line of a workload file; one that is suspect is read in a copy of this process first.

    Raises ConfigError.
    """
    import_tvm()
    from tvm.ir import load_json

    try:
        _, encoded = json_of(content)
        text = base64.b64decode(encoded)[_LENGTH_PREFIX:].decode()
        if is_suspect and (crash := crash_of(lambda: task_of(name, 1, load_json(text), _ANY_TARGET))):
            raise ValueError(crash)
        return load_json(text)
    except Exception as error:  # TVM's reader raises every kind
        raise ConfigError(
            "the workload cannot be read",
            who=name,
            got=f"line {line} of {WORKLOADS_FILE}: {last_line(str(error))}",
            expected="a module as TVM 0.27 writes it",
        ) from error


def _recorded(task: TuningTask, rows: Sequence[RecordRow], symbols: Mapping[str, SymbolDef]) -> RecordedSpace:
    made = Materialiser(task, 0).design_space()
    space = DesignSpace(made.task, made.sketches, symbols)
    matcher = SketchMatcher(space)
    unmatched: Counter[str] = Counter()
    untuned: list[float] = []
    found: dict[tuple[int, tuple[int, ...]], list[float]] = {}
    for row in rows:
        match = matcher.match(row)
        if match is None:
            untuned += [] if row.run_secs is None else [row.run_secs]
            continue
        if isinstance(match, str):
            unmatched[match] += 1
            continue
        secs = found.setdefault(match, [])
        if row.run_secs is not None:
            secs.append(row.run_secs)
    batches, run_secs = [], []
    for sketch in space.sketches:
        here = {indices: secs for (s, indices), secs in found.items() if s == sketch.index}
        table = np.array(list(here), dtype=np.int32).reshape(len(here), len(sketch.variables))
        batches.append(CandidateBatch(space, sketch, table))
        run_secs.append(np.array([np.median(secs) if secs else np.nan for secs in here.values()], dtype=np.float64))
    default_secs = float(np.median(untuned)) if untuned else None
    return RecordedSpace(task.name, task, space, tuple(batches), tuple(run_secs), dict(unmatched), default_secs)


class SketchMatcher:
    """Finds a record's candidate in a space: its sketch by structure, its rows by decision."""

    def __init__(self, space: DesignSpace) -> None:
        self._sketches: dict[str, tuple[Sketch, Structure]] = {}
        for sketch in space.sketches:
            trace: Any = sketch.payload
            structure = structure_of(plain(trace.as_json())[0])
            self._sketches[structure.key] = sketch, structure
        #: Text of the instructions -> their structure: a database repeats a few.
        self._known: dict[str, Structure] = {}

    def match(self, row: RecordRow) -> tuple[int, tuple[int, ...]] | str | None:
        """The candidate's sketch and choice indices, or why there is none; None for the untuned kernel."""
        try:
            structure = self._structure(row)
            if structure.key not in self._sketches:
                if structure.is_empty:
                    return None
                return "its structure is no sketch of the generated space"
            sketch, reference = self._sketches[structure.key]
            decided = {int(at): decision for at, decision in row.decisions}
            indices = [0] * len(sketch.variables)  # a variable that nothing uses decides nothing
            for position, number in zip(structure.samples, reference.numbers, strict=True):
                if position not in decided:
                    return "a decision is missing"
                index = _index_of(sketch.variables[number], row.instructions[position], decided[position])
                if index is None:
                    return f"a decision is in no choice table ({sketch.variables[number].kind.value})"
                indices[number] = index
        except UNREADABLE:
            return "its trace cannot be read"
        return sketch.index, tuple(indices)

    def _structure(self, row: RecordRow) -> Structure:
        text = json.dumps(row.instructions)
        if text not in self._known:
            self._known[text] = structure_of(row.instructions)
        return self._known[text]


def _index_of(variable: Variable, instruction: Any, decision: Any) -> int | None:
    if variable.kind is VariableKind.TILE:
        return variable.index_of(decision)
    if variable.kind is VariableKind.CATEGORICAL:
        return variable.index_of((instruction[2][0][decision],))
    return variable.index_of((decision,))
