"""Re-fitted schedules against TVM: repair is what TVM does, and rewritten traces compute the right numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prune_engine_transfer.ceiling import Ceiled, ceiled
from prune_engine_transfer.matching import matches
from prune_engine_transfer.padded_trace import padded_trace
from prune_engine_transfer.padding import padded_tilings
from prune_engine_transfer.rows import extent_of, repaired

from prune_engine.candidates import Candidate, CandidateBatch
from prune_engine.library import LibraryEntry
from prune_engine.metaschedule import traces
from prune_engine.metaschedule.materialise import Materialised, Materialiser
from prune_engine.metaschedule.measure.builder import compile_module, link
from prune_engine.metaschedule.targets import make_target
from prune_engine.metaschedule.workloads.loading import load_tasks
from prune_engine.space import DesignSpace, Sketch, VariableKind
from prune_engine.testing import make_entries

GEMM, CONV = "gemm:64x64x64", "conv2d:1x8x16x16,16x3x3,s1,p1"
#: Prime, odd and awkward extents, each with a kernel of the same class that divides well.
MOVES = [(GEMM, "gemm:127x197x1000"), (CONV, "conv2d:1x12x35x35,20x3x3,s1,p1")]

Made = tuple[Materialiser, DesignSpace]


@pytest.fixture(scope="module")
def made(tvm: Any, target: str) -> Callable[..., Made]:
    @lru_cache
    def make(text: str, target_text: str = target) -> Made:
        materialiser = Materialiser(load_tasks(text, target_text)[0], seed=0)
        return materialiser, materialiser.design_space()

    return make


def drawn(made: Made, sketch: Sketch, rng: np.random.Generator) -> Materialised | None:
    materialiser, space = made
    row = np.array([[rng.choice(v.rows) for v in sketch.variables]], dtype=np.int32)
    result = materialiser.materialise(space, CandidateBatch(space, sketch, row).candidate(0))
    return result if isinstance(result, Materialised) else None


def entry_of(space: DesignSpace, found: Materialised) -> LibraryEntry:
    sketch = space.sketches[found.candidate.sketch_index]
    rows = [v.index_of(d) for v, d in zip(sketch.variables, found.candidate.decisions, strict=True)]
    batch = CandidateBatch(space, sketch, np.array([rows], dtype=np.int32))
    return make_entries(batch, [1e-3], trace_json=found.trace_json)[0]


@pytest.mark.parametrize(("source", "wanted"), MOVES)
def test_repair_is_what_tvm_does(made: Callable[..., Made], tvm: Any, source: str, wanted: str) -> None:
    (_, donor), (_, space) = made(source), made(wanted)
    rng = np.random.default_rng(0)
    n_changed = 0
    for number, sketch in enumerate(space.sketches):
        for _ in range(8):
            theirs = donor.sketches[number]
            decisions = [tuple(v.table[rng.choice(v.rows)].tolist()) for v in theirs.variables]
            schedule = tvm.s_tir.Schedule(space.task.mod, seed=1, debug_mask="none")
            traces.trace_with(sketch, decisions).apply_to_schedule(schedule, remove_postproc=True)
            for variable, asked, actual in zip(
                sketch.variables, decisions, traces.decisions_of(schedule.trace), strict=True
            ):
                if variable.kind is VariableKind.TILE:
                    foreseen = repaired(asked, extent_of(variable))
                    assert foreseen == actual
                    n_changed += foreseen[1:] != asked[1:]
    assert n_changed > 20


def rewritten(source: Made, wanted: Made, n: int) -> list[tuple[str, Ceiled]]:
    """Traces of ``n`` schedules of each sketch of a kernel, rewritten for another."""
    (_, donor), (_, space) = source, wanted
    rng = np.random.default_rng(0)
    found = []
    for sketch in donor.sketches:
        drawn_here = (d for d in (drawn(source, sketch, rng) for _ in range(40 * n)) if d is not None)
        for schedule, _ in zip(drawn_here, range(n), strict=False):
            entry = entry_of(donor, schedule)
            match = matches(entry, space.sketches, _kernel(space))[0]
            result = ceiled(entry, match.extents, {})
            assert isinstance(result, Ceiled)
            found.append((sketch.sketch_id, result))
    return found


def _kernel(space: DesignSpace) -> Any:
    from prune_engine.library import KernelClass

    return space.task.kernel_class or KernelClass("strict", "anchor", "")


def fixed(made: Made, trace_json: str) -> tuple[DesignSpace, Candidate]:
    materialiser, space = made
    sketch = materialiser.fixed_sketch(space, trace_json)
    wider = replace(space, sketches=(*space.sketches, sketch))
    row = np.array([[v.rows[0] for v in sketch.variables]], dtype=np.int32)
    return wider, CandidateBatch(wider, sketch, row).candidate(0)


@pytest.mark.parametrize(("source", "wanted"), MOVES)
def test_rewritten_traces_compute_the_right_numbers(
    made: Callable[..., Made], target: str, tmp_path: Path, source: str, wanted: str
) -> None:
    donor, (materialiser, space) = made(source), made(wanted)
    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in space.task.arg_shapes]
    expected = reference(wanted, inputs)
    for number, (_, result) in enumerate(rewritten(donor, (materialiser, space), n=1)):
        wider, candidate = fixed((materialiser, space), result.trace_json)
        built = materialiser.materialise(wider, candidate)
        assert isinstance(built, Materialised), built
        assert built.candidate == candidate
        actual = run(built, target, inputs, tmp_path / f"{number}")
        np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("epilogue", ["", "+bias+relu"])
def test_padded_traces_compute_the_right_numbers(
    made: Callable[..., Made], target: str, tmp_path: Path, epilogue: str
) -> None:
    text = f"gemm:61x97x67{epilogue}"
    donor, (materialiser, space) = made(f"gemm:64x96x64{epilogue}"), made(text)
    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in space.task.arg_shapes]
    expected = reference(text, inputs)
    n_padded = 0
    for number, sketch in enumerate(donor[1].sketches):
        schedules = (d for d in (drawn(donor, sketch, rng) for _ in range(200)) if d is not None)
        entries = (entry_of(donor[1], schedule) for schedule in schedules)
        found = (matches(entry, space.sketches, _kernel(space))[0] for entry in entries)
        match = next(match for match in found if padded_tilings(match))  # some have factors that fit nowhere
        entry, tilings = match.entry, padded_tilings(match)
        text_of = padded_trace(entry, tilings[0].factors, match.extents, {})
        assert text_of is not None
        wider, candidate = fixed((materialiser, space), text_of)
        built = materialiser.materialise(wider, candidate)
        assert isinstance(built, Materialised), built
        assert built.candidate == candidate
        assert "PadEinsum" in built.trace_json
        actual = run(built, target, inputs, tmp_path / f"{number}")
        np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-3)
        n_padded += 1
    assert n_padded >= 2


def reference(text: str, inputs: list[np.ndarray]) -> np.ndarray:
    if text.startswith("gemm"):
        product = inputs[0] @ inputs[1]
        return np.asarray(np.maximum(product + inputs[2], 0) if text.endswith("+bias+relu") else product)
    data, weight = inputs[:2]
    height, width = data.shape[2:]
    padded = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.stack([padded[:, :, y : y + height, x : x + width] for y in range(3) for x in range(3)], axis=2)
    return np.einsum("nckhw,fck->nfhw", windows, weight.reshape(*weight.shape[:2], 9))


def run(built: Materialised, target: str, inputs: list[np.ndarray], folder: Path) -> np.ndarray:
    import tvm

    folder.mkdir()
    compile_module(built.module_json, make_target(target), checks_arguments=True).write_to_file(str(folder / "k.o"))
    link(folder / "k.o", folder / "k.so")
    arguments = [tvm.runtime.tensor(array) for array in inputs]
    tvm.runtime.load_module(str(folder / "k.so"))["main"](*arguments)
    return np.asarray(arguments[-1].numpy())


def test_rewritten_traces_are_legal_on_a_gpu(made: Callable[..., Made]) -> None:
    """Threads and shared memory are those of the source: the constants are its factors."""
    from prune_engine.metaschedule.targets import resolve_target

    cuda = resolve_target("nvidia/nvidia-a100", 1)
    donor, wanted = made("gemm:256x256x256", cuda), made("gemm:127x127x127", cuda)
    for _, result in rewritten(donor, wanted, n=1):
        wider, candidate = fixed(wanted, result.trace_json)
        assert isinstance(wanted[0].materialise(wider, candidate), Materialised)
