"""The symbols that every engine has: one table of names, units, meanings, bounds and sources.

docs/reference/symbols.md is this table; a test compares them. A change of meaning raises SYMBOLS_VERSION.
"""

from __future__ import annotations

from typing import Final

from prune_engine.symbols import cpu, gpu, kernel, npu, pruner
from prune_engine.symbols.structure import canonical_column, nest_symbol
from prune_engine.symbols.table import SymbolDef

_OWN: Final = "footprint rules of prune_engine.symbols"
_TVM: Final = "TVM's loop kinds and thread axes"
_PAPER: Final = "Pruner, arXiv 2402.02361, table 2"
_CPU: Final = "Pruner's table 2 carried over to caches and vector units"
_NPU: Final = "Pruner's table 2 carried over to scratchpads"

_KERNEL: Final = (
    nest_symbol(
        "flops_total",
        "operations",
        "arithmetic of all statements, padding and recomputation included",
        "TVM's per-store features",
        kernel.flops_total,
        bound=">= 0",
    ),
    nest_symbol(
        "traffic_dram_bytes",
        "bytes",
        "read and written off-chip if each chunk or block reads what it touches once",
        _OWN,
        kernel.traffic_dram_bytes,
        bound=">= 0; upper bound if chunks share a cache",
    ),
    nest_symbol(
        "working_set_l1_bytes",
        "bytes",
        "touched by the innermost tile with its reduction",
        _OWN,
        kernel.working_set_l1_bytes,
        bound=">= 1, <= working_set_l2_bytes",
    ),
    nest_symbol(
        "working_set_l2_bytes",
        "bytes",
        "touched by the whole reduction of a second-level tile",
        _OWN,
        kernel.working_set_l2_bytes,
        bound=">= working_set_l1_bytes",
    ),
    nest_symbol(
        "working_set_l3_bytes",
        "bytes",
        "touched by one turn of the parallel loops, or by one block",
        _OWN,
        kernel.working_set_l3_bytes,
        bound=">= 1",
    ),
    nest_symbol(
        "reuse_distance_bytes",
        "bytes",
        "touched between two uses of an element, of the operand for which that is most",
        _OWN,
        kernel.max_reuse_distance_bytes,
        bound=">= 0",
    ),
    nest_symbol(
        "contiguous_bytes",
        "bytes",
        "shortest run of consecutive bytes read from global memory in one step",
        _OWN,
        kernel.contiguous_bytes,
        bound=">= 1",
    ),
    nest_symbol(
        "parallel_extent",
        "turns",
        "of the parallel loops around the main statement",
        _TVM,
        kernel.parallel_extent,
        bound=">= 1",
    ),
    nest_symbol(
        "vector_lanes",
        "lanes",
        "of the vectorised loops around the main statement",
        _TVM,
        kernel.vector_lanes_main,
        bound=">= 1",
    ),
    nest_symbol(
        "max_vector_bytes",
        "bytes",
        "widest vector access of any statement",
        _TVM,
        kernel.max_vector_bytes,
        bound=">= 1",
    ),
    nest_symbol(
        "unroll_steps",
        "steps",
        "limit of the unroll pragma over the main statement, 0 without one",
        "TVM's pragma_auto_unroll_max_step",
        kernel.unroll_steps,
        bound=">= 0",
    ),
    nest_symbol(
        "unrolled_body_instances",
        "instances",
        "copies of the main statement's body in the generated code",
        "TVM's UnrollLoop pass",
        kernel.unrolled_body_instances,
        bound=">= 1; upper bound where other statements share the unrolled loops",
    ),
    nest_symbol(
        "tile_m",
        "rows",
        "of the innermost tile: spatial iterators that index the other operand than n does",
        _OWN,
        kernel.tile_m,
        bound=">= 1",
    ),
    nest_symbol(
        "tile_n",
        "columns",
        "of the innermost tile: spatial iterators with the operand of the output's last dimension",
        _OWN,
        kernel.tile_n,
        bound=">= 1",
    ),
    nest_symbol("tile_k", "steps", "of the innermost tile's reduction", _OWN, kernel.tile_k, bound=">= 1"),
    nest_symbol(
        "allocated_global_bytes",
        "bytes",
        "of all buffers that the kernel allocates in global memory",
        _TVM,
        lambda nest: kernel.allocated_bytes(nest, "global"),
        bound=">= 0",
    ),
    nest_symbol(
        "allocated_shared_bytes",
        "bytes",
        "of all buffers that the kernel allocates in shared memory",
        _TVM,
        lambda nest: kernel.allocated_bytes(nest, "shared"),
        bound=">= 0",
    ),
    nest_symbol(
        "allocated_local_bytes",
        "bytes",
        "of all buffers that the kernel allocates per thread",
        _TVM,
        lambda nest: kernel.allocated_bytes(nest, "local"),
        bound=">= 0",
    ),
    nest_symbol(
        "is_refused",
        "0 or 1",
        "whether TVM refuses the candidate before it makes code",
        _TVM,
        lambda nest: nest.is_refused,
        bound="0 or 1",
    ),
    nest_symbol(
        "is_unsure",
        "0 or 1",
        "whether TVM may refuse it although `is_refused` is 0, so that it has to be asked",
        _TVM,
        lambda nest: nest.is_unsure,
        bound="0 or 1",
    ),
    SymbolDef(
        "is_canonical",
        "0 or 1",
        "whether the decisions are those that run, not such as are repaired to others",
        _TVM,
        canonical_column,
        "0 or 1",
    ),
)

_GPU: Final = (
    nest_symbol(
        "threads_per_block",
        "threads",
        "of a block, in the launch with most",
        _TVM,
        gpu.threads_per_block,
        bound=">= 1",
    ),
    nest_symbol("grid_blocks", "blocks", "in the launch with most", _TVM, gpu.grid_blocks, bound=">= 1"),
    nest_symbol(
        "vthreads",
        "virtual threads",
        "that each thread works for, in the launch with most",
        _TVM,
        gpu.vthreads,
        bound=">= 1",
    ),
    nest_symbol(
        "shared_bytes_per_block",
        "bytes",
        "of shared memory, where buffers may lie over each other, in the launch with most",
        _TVM,
        gpu.shared_bytes_per_block,
        bound=">= 0",
    ),
    nest_symbol(
        "local_bytes_per_thread",
        "bytes",
        "of buffers that a thread has for itself, once per virtual thread, in the launch with most",
        _TVM,
        gpu.local_bytes_per_thread,
        bound=">= 0",
    ),
    nest_symbol(
        "registers_per_thread",
        "4-byte registers",
        "a thread's tile of output and operands, the reduction standing still; its share of a matrix instruction's",
        "Pruner's S1, by element width",
        gpu.registers_per_thread,
        bound=">= 1",
    ),
)

_PRUNER: Final = (
    nest_symbol(
        "pruner_s1_l0_mem_alloc",
        "elements",
        "a thread's tile: output and operands",
        _PAPER,
        pruner.s1_l0_mem_alloc,
        bound=">= 1",
    ),
    nest_symbol(
        "pruner_s2_l0_comp_count",
        "iterations",
        "of one thread, reduction included",
        _PAPER,
        pruner.s2_l0_comp_count,
        bound=">= 1",
    ),
    nest_symbol(
        "pruner_s3_l1_mem_alloc",
        "elements",
        "staged in shared memory for one outer reduction step",
        _PAPER,
        pruner.s3_l1_mem_alloc,
        bound=">= 0",
    ),
    nest_symbol("pruner_s4_l1_para_info", "threads", "of a block", _PAPER, pruner.s4_l1_para_info, bound=">= 1"),
    nest_symbol(
        "pruner_s5_l2_mem_footprint",
        "elements",
        "read from device memory by all blocks",
        _PAPER,
        pruner.s5_l2_mem_footprint,
        bound=">= 0",
    ),
    nest_symbol("pruner_s6_l2_para_info", "blocks", "of the grid", _PAPER, pruner.s6_l2_para_info, bound=">= 1"),
    nest_symbol(
        "pruner_s7_l2_trans_dim",
        "elements",
        "consecutive ones of an access to device memory",
        _PAPER,
        pruner.s7_l2_trans_dim,
        bound=">= 1",
    ),
    nest_symbol(
        "pruner_s8_l2_comp_count", "operations", "of all statements", _PAPER, pruner.s8_l2_comp_count, bound=">= 0"
    ),
)

_ON_CPU: Final = (
    nest_symbol(
        "cpu_s1_vector_registers",
        "registers of vector_lanes lanes",
        "accumulators, broadcasts and operand vectors of the innermost tile",
        _CPU,
        cpu.vector_registers,
        bound=">= 1",
    ),
    nest_symbol(
        "cpu_s2_fma_chains",
        "chains",
        "independent accumulators of the innermost tile",
        _CPU,
        cpu.fma_chains,
        bound=">= 0",
    ),
    nest_symbol(
        "cpu_s3a_l1_bytes", "bytes", "as working_set_l1_bytes", _CPU, kernel.working_set_l1_bytes, bound=">= 1"
    ),
    nest_symbol(
        "cpu_s3b_l2_bytes", "bytes", "as working_set_l2_bytes", _CPU, kernel.working_set_l2_bytes, bound=">= 1"
    ),
    nest_symbol(
        "cpu_s3c_l3_bytes", "bytes", "as working_set_l3_bytes", _CPU, kernel.working_set_l3_bytes, bound=">= 1"
    ),
    nest_symbol("cpu_s4_vector_lanes", "lanes", "as vector_lanes", _CPU, kernel.vector_lanes_main, bound=">= 1"),
    nest_symbol(
        "cpu_s5_dram_bytes", "bytes", "as traffic_dram_bytes", _CPU, kernel.traffic_dram_bytes, bound=">= 0"
    ),
    nest_symbol(
        "cpu_s6_parallel_chunks", "chunks", "as parallel_extent", _CPU, kernel.parallel_extent, bound=">= 1"
    ),
    nest_symbol(
        "cpu_s7_contiguous_bytes", "bytes", "as contiguous_bytes", _CPU, kernel.contiguous_bytes, bound=">= 1"
    ),
    nest_symbol("cpu_s8_flops", "operations", "as flops_total", _CPU, kernel.flops_total, bound=">= 0"),
)

_ON_NPU: Final = (
    nest_symbol(
        "npu_l0a_bytes",
        "bytes",
        "left operand of the innermost tile (Ascend L0A)",
        _NPU,
        npu.left_tile_bytes,
        bound=">= 0",
    ),
    nest_symbol(
        "npu_l0b_bytes",
        "bytes",
        "right operand of the innermost tile (Ascend L0B)",
        _NPU,
        npu.right_tile_bytes,
        bound=">= 0",
    ),
    nest_symbol(
        "npu_l0c_bytes",
        "bytes",
        "output of the innermost tile, in the output's dtype (Ascend L0C)",
        _NPU,
        npu.output_tile_bytes,
        bound=">= 0",
    ),
    nest_symbol(
        "npu_l1_bytes",
        "bytes",
        "operands of the tile with its whole reduction (Ascend L1)",
        _NPU,
        npu.operand_panel_bytes,
        bound=">= 0",
    ),
    nest_symbol(
        "npu_ub_bytes",
        "bytes",
        "innermost tile of the largest statement that is no matrix product (Ascend unified buffer)",
        _NPU,
        npu.vector_tile_bytes,
        bound=">= 0",
    ),
    nest_symbol(
        "npu_nram_bytes",
        "bytes",
        "inputs and output of the innermost tile, weights left out (MLU NRAM)",
        _NPU,
        npu.neuron_tile_bytes,
        bound=">= 0",
    ),
    nest_symbol(
        "npu_wram_bytes",
        "bytes",
        "weights of the innermost tile (MLU WRAM)",
        _NPU,
        npu.right_tile_bytes,
        bound=">= 0",
    ),
    nest_symbol(
        "npu_sram_bytes",
        "bytes",
        "operands and output of the tile with its whole reduction (MLU shared SRAM)",
        _NPU,
        npu.panel_bytes,
        bound=">= 1",
    ),
)

#: All of them, by group as in the documentation.
BUILTIN_GROUPS: Final = {
    "Any kernel": _KERNEL,
    "GPU kernels": _GPU,
    "Pruner's symbols": _PRUNER,
    "CPUs": _ON_CPU,
    "Accelerators with scratchpads": _ON_NPU,
}
BUILTIN_SYMBOLS: Final[tuple[SymbolDef, ...]] = tuple(s for group in BUILTIN_GROUPS.values() for s in group)
