"""The draft for GPUs: seconds per cause of each kernel that a candidate launches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.symbols.bands import kernels
from prune_engine.symbols.expr import Expr, as_expr
from prune_engine.symbols.loop_nest import LoopNest
from prune_engine.symbols.structure import group_columns
from prune_engine_draft.gpu_device import GpuDevice
from prune_engine_draft.gpu_kernel import PENALTIES, TERMS, kernel_cost
from prune_engine_draft.gpu_nest import kernel_formulas
from prune_engine_draft.terms import DraftTerms

#: Candidates at a time: what is made of their columns should stay in a core's cache.
_CHUNK_ROWS = 4096
#: Columns that are told beside the latency, summed over the kernels but for the launch itself.
_SYMBOLS = ("blocks", "threads", "vthreads", "shared_bytes", "local_bytes", "steps", "needed")


def gpu_terms(batch: CandidateBatch, profile: HardwareProfile) -> DraftTerms:
    """Latency of each candidate on a GPU. Raises SpaceError for a batch whose sketch could not be read.

    Terms (seconds, summed over kernels): ``compute`` and ``matrix`` (arithmetic and matrix units), ``issue`` (all
    instructions), ``shared`` (passes over the banks), ``l1``, ``l2``, ``dram``, ``chain`` (what one warp waits for
    itself), ``latency`` (staging), ``launch``. The first eight overlap. Penalties are those of the kernel with most
    time: ``lanes``, ``wave``, ``busy``, ``reuse``, ``registers``, ``banks``, ``coalescing``, ``alignment``.
    """
    dtypes = batch.space.task.arg_dtypes
    device = GpuDevice.of(profile, dtypes[0] if dtypes else "float32")
    n = len(batch)
    latency, longest = np.zeros(n), np.zeros(n)
    terms = {name: np.zeros(n) for name in TERMS}
    penalties = {name: np.ones(n) for name in PENALTIES}
    symbols = {name: np.zeros(n) for name in _SYMBOLS}
    for group in group_columns(batch, _all_formulas, _CHUNK_ROWS):
        rows = np.arange(n) if group.rows is None else group.rows
        columns = iter(group.columns)
        for names in _names(group.nest):
            c = {name: next(columns).astype(np.float64) for name in names}
            cost = kernel_cost(c, device, profile.combine, is_pipelined=bool(group.nest.pipelines))
            latency[rows] += cost.secs
            for name, secs in cost.terms.items():
                terms[name][rows] += secs
            leads = cost.secs > longest[rows]
            longest[rows[leads]] = cost.secs[leads]
            for name, value in cost.penalties.items():
                penalties[name][rows[leads]] = value[leads]
            for name in _SYMBOLS:
                symbols[name][rows[leads]] = c[name][leads]
    return DraftTerms(latency, terms, penalties, symbols)


_KEY = "draft.gpu: "


def _all_formulas(nest: LoopNest) -> Sequence[Expr]:
    return [nest.formulas[_KEY + f"{kernel} {name}"] for kernel, names in enumerate(_names(nest)) for name in names]


def _names(nest: LoopNest) -> list[list[str]]:
    """The names of the columns of each kernel; their formulas are made once and kept in the nest."""
    found = []
    for kernel, statements in enumerate(kernels(nest)):
        prefix = _KEY + f"{kernel} "
        if prefix not in nest.formulas:
            nest.formulas.update((prefix + name, e) for name, e in kernel_formulas(nest, statements).items())
            nest.formulas[prefix] = as_expr(0)
        found.append(
            [key.removeprefix(prefix) for key in nest.formulas if key.startswith(prefix) and key != prefix]
        )
    return found
