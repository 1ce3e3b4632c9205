"""Small, valid records to test with: tasks, spaces, batches, measurements."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.library.entries import Choice, KernelClass, LibraryEntry, Origin
from prune_engine.measurement import MeasureError, MeasureErrorKind, Measurement
from prune_engine.space import DesignSpace, Sketch, Subject, Variable, VariableKind, perfect_tile_table
from prune_engine.symbols.table import SYMBOLS_VERSION
from prune_engine.task import TuningTask
from prune_engine.testing.planted import Planted, with_choices, with_columns


def make_task(
    name: str = "matmul",
    *,
    shape: tuple[int, int, int] = (64, 48, 32),
    weight: int = 1,
    target: str = "llvm -num-cores 2",
    mod: object = None,
) -> TuningTask:
    """Make the task of an fp32 matrix product of ``shape`` (m, n, k); its id is fixed by the arguments."""
    m, n, k = shape
    identity = hashlib.blake2b(f"{name}|{shape}|{target}".encode(), digest_size=12).hexdigest()
    return TuningTask(
        task_id=identity,
        name=name,
        target=target,
        weight=weight,
        flop_count=2 * m * n * k,
        arg_shapes=((m, k), (k, n), (m, n)),
        arg_dtypes=("float32",) * 3,
        mod=mod,
        kernel_class=KernelClass(
            "testing-matmul-strict", "testing-matmul", "matmul", (("matmul.i", m), ("matmul.j", n), ("matmul.k", k))
        ),
    )


def make_space(task: TuningTask | None = None, *, symbols: Planted | None = None) -> DesignSpace:
    """Make a space of two sketches with tile, categorical and location variables, for a `make_task` task.

    Sketch 0 tiles i, j and k and chooses an unroll limit; sketch 1 also chooses where a cached write is
    computed. Some variables have a prior that is not uniform.

    Without ``symbols`` the sketches are opaque. With them, ``{"threads_per_block": [32, 64, 2048]}``, they are
    not: each candidate has one of each symbol's values, which follows from its decisions; all of them occur.
    """
    task = task or make_task()
    (m, k), (_, n) = task.arg_shapes[0], task.arg_shapes[1]
    tiles = [
        Variable.of("i", VariableKind.TILE, perfect_tile_table(m, 3, 16), subject=_subject("i", "S0 S1 S2")),
        Variable.of("j", VariableKind.TILE, perfect_tile_table(n, 3, 16), subject=_subject("j", "S0 S1 S2")),
        Variable.of("k", VariableKind.TILE, perfect_tile_table(k, 2, 16), subject=_subject("k", "R0 R1")),
    ]
    unroll = Variable.of(
        "unroll", VariableKind.CATEGORICAL, np.array([[0], [16], [64], [512]], dtype=np.int32), (1, 1, 2, 4)
    )
    location = Variable.of(
        "cache_write", VariableKind.LOCATION, np.array([[-2], [-1], [0], [1], [2]], dtype=np.int32)
    )
    space = DesignSpace(
        task,
        (
            Sketch(0, "testing-plain", (*tiles, unroll)),
            Sketch(1, "testing-cached", (*tiles, unroll, location)),
        ),
    )
    return with_choices(space, symbols) if symbols else space


def _subject(iterator: str, levels: str) -> Subject:
    return Subject("matmul", iterator, levels.startswith("R"), iterator == "j", tuple(levels.split()))


def make_entries(batch: CandidateBatch, run_secs: Sequence[float], **changed: Any) -> list[LibraryEntry]:
    """Make library entries of the candidates of a batch: row i took ``run_secs[i]``, best first.

    ``changed`` replaces fields of all of them.
    """
    entries = []
    for rank, i in enumerate(np.argsort(run_secs, kind="stable")):
        decisions = batch.candidate(int(i)).decisions
        entry = LibraryEntry(
            kernel_class=batch.space.task.kernel_class or KernelClass("strict", "anchor", "a kernel"),
            target=batch.space.task.target,
            device_name="testing-device",
            n_threads=2,
            sketch_id=batch.sketch.sketch_id,
            choices=tuple(
                Choice(variable.name, variable.kind, decision, variable.subject)
                for variable, decision in zip(batch.sketch.variables, decisions, strict=True)
            ),
            trace_json="[[],[]]",
            run_secs=(float(run_secs[i]),),
            default_secs=10 * max(run_secs),
            flop_count=batch.space.task.flop_count,
            peak_flop_per_sec=1e11,
            n_trials=64,
            model="testing-model",
            task_name=batch.space.task.name,
            origin=Origin.TUNED,
            tvm_version="0.27.0",
            symbols_version=SYMBOLS_VERSION,
            measured_at=1_700_000_000.0,
            rank=rank,
        )
        entries.append(replace(entry, entry_id="", **changed))
    return entries


def make_batch(
    n: int | None = None,
    *,
    space: DesignSpace | None = None,
    sketch: int = 0,
    seed: int = 0,
    symbols: Planted | None = None,
) -> CandidateBatch:
    """Make a batch of ``n`` candidates drawn at random, with ``seed``, from what one sketch still allows.

    With ``n`` up to the sketch's size they are distinct, so fewer come back than asked for only if the
    sketch has fewer. ``symbols`` gives them columns, ``{"threads_per_block": [1024, 1025]}``: row i has value i,
    and ``n``, 8 by default, is the columns' length.

    Raises ValueError for columns that are not ``n`` long.
    """
    space = space or make_space()
    if symbols:
        lengths = {name: len(column) for name, column in symbols.items()}
        n = next(iter(lengths.values())) if n is None else n
        if set(lengths.values()) != {n} or n > space.sketches[sketch].size:
            raise ValueError(f"{n} distinct candidates need columns of that length, got {lengths}")
        return with_columns(make_batch(n, space=space, sketch=sketch, seed=seed), symbols)
    chosen = space.sketches[sketch]
    n = min(8 if n is None else n, chosen.size)
    if not chosen.variables:
        return CandidateBatch(space, chosen, np.empty((n, 0), dtype=np.int32))
    rng = np.random.default_rng(seed)
    picks = np.empty((0, len(chosen.variables)), dtype=np.int32)
    while len(picks) < n:
        drawn = [variable.rows[rng.integers(variable.size, size=2 * n)] for variable in chosen.variables]
        picks = np.concatenate([picks, np.column_stack(drawn)])
        _, first = np.unique(picks, axis=0, return_index=True)
        picks = picks[np.sort(first)]
    return CandidateBatch(space, chosen, np.ascontiguousarray(picks[:n]))


def make_measurement(
    candidate_id: str = "candidate",
    run_secs: Sequence[float] | float = (1e-3,),
    *,
    error: MeasureErrorKind | None = None,
    is_censored: bool = False,
    stage: int = 2,
) -> Measurement:
    """Make a measurement: latencies (one number is one repeat), or a failure of the given kind."""
    secs = (run_secs,) if isinstance(run_secs, float | int) else tuple(run_secs)
    return Measurement(
        candidate_id=candidate_id,
        run_secs=() if error else secs,
        error=MeasureError(error, f"planted {error.value}") if error else None,
        build_secs=0.01,
        device_name="testing-device",
        n_threads=2,
        profile_digest="testing-profile",
        measured_at=1.0e9,
        stage=stage,
        is_censored=is_censored,
    )
