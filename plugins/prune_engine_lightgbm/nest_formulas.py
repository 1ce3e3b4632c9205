"""What is read of a loop nest: integer formulas, evaluated together for a batch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial

from prune_engine.symbols import cpu, gpu, kernel, npu, pruner
from prune_engine.symbols.bands import inner_tile_depth, main_statement, reduction_depth
from prune_engine.symbols.expr import Expr, as_expr, product
from prune_engine.symbols.footprint import footprint_bytes
from prune_engine.symbols.loop_nest import LoopNest
from prune_engine.symbols.statement import executed_instances
from prune_engine.symbols.structure import Formula
from prune_engine.symbols.traffic import traffic_bytes
from prune_engine_lightgbm.dataflow import dataflow_formulas

#: Points of the curve of arithmetic intensity, from the whole statement (0) to one instance (9), as Ansor has them.
N_CURVE_POINTS = 10

_BASE: Mapping[str, Formula] = {
    "flops": kernel.flops_total,
    "set_l1_bytes": kernel.working_set_l1_bytes,
    "set_l2_bytes": kernel.working_set_l2_bytes,
    "set_l3_bytes": kernel.working_set_l3_bytes,
    "reuse_bytes": kernel.max_reuse_distance_bytes,
    "contiguous_bytes": kernel.contiguous_bytes,
    "vector_bytes": kernel.max_vector_bytes,
    "unroll_steps": kernel.unroll_steps,
    "unrolled_instances": kernel.unrolled_body_instances,
    "tile_m": kernel.tile_m,
    "tile_n": kernel.tile_n,
    "tile_k": kernel.tile_k,
}
_ON_CPU: Mapping[str, Formula] = {
    "chunks": kernel.parallel_extent,
    "lanes": kernel.vector_lanes_main,
    "registers": cpu.vector_registers,
    "chains": cpu.fma_chains,
    "allocated_bytes": lambda nest: kernel.allocated_bytes(nest, "global"),
}
_ON_GPU: Mapping[str, Formula] = {
    "chunks": gpu.grid_blocks,
    "threads": gpu.threads_per_block,
    "vthreads": gpu.vthreads,
    "shared_bytes": gpu.shared_bytes_per_block,
    "local_bytes": gpu.local_bytes_per_thread,
    "registers": gpu.registers_per_thread,
    "thread_instances": pruner.s2_l0_comp_count,
    "lanes": kernel.vector_lanes_main,
}
_ON_NPU: Mapping[str, Formula] = {
    "chunks": kernel.parallel_extent,
    "l0a_bytes": npu.left_tile_bytes,
    "l0b_bytes": npu.right_tile_bytes,
    "l0c_bytes": npu.output_tile_bytes,
    "panel_bytes": npu.operand_panel_bytes,
    "lanes": kernel.vector_lanes_main,
}


@cache
def formulas_of(kind: str) -> Mapping[str, Formula]:
    """All formulas for a kind of device (``cpu``, ``gpu``, ``npu``), by a name that is ours alone."""
    own = {"cpu": _ON_CPU, "gpu": _ON_GPU, "npu": _ON_NPU}[kind]
    curve: dict[str, Formula] = {
        f"intensity{point}": partial(_curve_bytes, point) for point in range(N_CURVE_POINTS)
    }
    curve |= {f"intensity_work{point}": partial(_curve_instances, point) for point in range(N_CURVE_POINTS)}
    fills: Mapping[str, Formula] = {
        "instances": lambda nest: executed_instances(nest.statements[main_statement(nest)]),
        "fill_l1_bytes": _fill_l1_bytes,
        "fill_l2_bytes": _fill_l2_bytes,
    }
    found: dict[str, Formula] = {**_BASE, **own, **fills, **curve, **dataflow_formulas()}
    return {f"lightgbm.{name}": formula for name, formula in found.items()}


def _curve_depth(point: int, nest: LoopNest) -> int:
    return round(point * len(nest.statements[main_statement(nest)].loops) / (N_CURVE_POINTS - 1))


def _curve_bytes(point: int, nest: LoopNest) -> Expr:
    """Bytes that the main statement touches from a depth inwards."""
    return footprint_bytes(nest, nest.statements[main_statement(nest)], _curve_depth(point, nest))


def _curve_instances(point: int, nest: LoopNest) -> Expr:
    """Instances of the main statement from that depth inwards."""
    loops = nest.statements[main_statement(nest)].loops[_curve_depth(point, nest) :]
    return product(loop.extent for loop in loops) if loops else as_expr(1)


def _fill_l1_bytes(nest: LoopNest) -> Expr:
    """Bytes into and out of a memory that holds the innermost tile."""
    statement = nest.statements[main_statement(nest)]
    return traffic_bytes(nest, statement, inner_tile_depth(statement))


def _fill_l2_bytes(nest: LoopNest) -> Expr:
    """Bytes into and out of a memory that holds a second-level tile with its whole reduction."""
    statement = nest.statements[main_statement(nest)]
    return traffic_bytes(nest, statement, reduction_depth(statement))
