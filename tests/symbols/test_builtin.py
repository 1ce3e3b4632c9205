"""The table of built-in symbols: documented, int64, there for every batch of a readable sketch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kits import nests

from prune_engine.errors import SpaceError
from prune_engine.symbols.builtin import BUILTIN_GROUPS, BUILTIN_SYMBOLS
from prune_engine.symbols.reference import reference_page
from prune_engine.symbols.table import symbol_table
from prune_engine.testing import make_batch, make_space

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "symbols.md"
#: What rules and scorers of other packages ask for; a name may be added, none may go.
PROMISED = [
    "threads_per_block",
    "grid_blocks",
    "vthreads",
    "shared_bytes_per_block",
    "local_bytes_per_thread",
    "registers_per_thread",
    "max_vector_bytes",
    "vector_lanes",
    "parallel_extent",
    "unroll_steps",
    "unrolled_body_instances",
    "flops_total",
    "traffic_dram_bytes",
    "working_set_l1_bytes",
    "working_set_l2_bytes",
    "working_set_l3_bytes",
    "contiguous_bytes",
    "tile_m",
    "tile_n",
    "tile_k",
    "allocated_shared_bytes",
    "allocated_local_bytes",
    "allocated_global_bytes",
    "is_refused",
    "is_canonical",
    "pruner_s1_l0_mem_alloc",
    "pruner_s2_l0_comp_count",
    "pruner_s3_l1_mem_alloc",
    "pruner_s4_l1_para_info",
    "pruner_s5_l2_mem_footprint",
    "pruner_s6_l2_para_info",
    "pruner_s7_l2_trans_dim",
    "pruner_s8_l2_comp_count",
    "cpu_s1_vector_registers",
    "cpu_s2_fma_chains",
    "cpu_s3a_l1_bytes",
    "cpu_s3b_l2_bytes",
    "cpu_s3c_l3_bytes",
    "cpu_s4_vector_lanes",
    "cpu_s5_dram_bytes",
    "cpu_s6_parallel_chunks",
    "cpu_s7_contiguous_bytes",
    "cpu_s8_flops",
    "npu_l0a_bytes",
    "npu_l0b_bytes",
    "npu_l0c_bytes",
    "npu_l1_bytes",
    "npu_ub_bytes",
    "npu_nram_bytes",
    "npu_wram_bytes",
    "npu_sram_bytes",
]


def test_promised_names_are_there() -> None:
    assert set(PROMISED) <= set(symbol_table(BUILTIN_SYMBOLS))


def test_the_page_is_written_from_the_table() -> None:
    hint = "write it again: python -m prune_engine.symbols.reference > docs/reference/symbols.md"
    assert PAGE.read_text(encoding="utf-8") == reference_page(), hint


def test_every_symbol_says_what_it_is() -> None:
    assert sum(map(len, BUILTIN_GROUPS.values())) == len(BUILTIN_SYMBOLS)
    for symbol in BUILTIN_SYMBOLS:
        assert symbol.unit, symbol.name
        assert symbol.meaning, symbol.name
        assert symbol.bound, symbol.name
        assert symbol.source, symbol.name
        assert "|" not in symbol.meaning + symbol.bound, symbol.name


@pytest.mark.parametrize("name", nests.SMALL)
def test_columns_are_integers_within_their_bounds(name: str) -> None:
    sketch = nests.SMALL[name]()
    batch = nests.batch_of(sketch, nests.random_rows(sketch, 50))
    columns = {symbol.name: batch.symbol(symbol.name) for symbol in BUILTIN_SYMBOLS}
    for symbol in BUILTIN_SYMBOLS:
        column = columns[symbol.name]
        assert column.dtype == np.int64
        assert column.shape == (50,)
        least = 1 if symbol.bound.startswith(">= 1") else 0
        assert column.min() >= least, symbol.name
        if symbol.bound == "0 or 1":
            assert column.max() <= 1
    assert (columns["working_set_l1_bytes"] <= columns["working_set_l2_bytes"]).all()
    assert (columns["working_set_l2_bytes"] <= columns["working_set_l3_bytes"]).all()


def test_a_sketch_that_could_not_be_read_has_no_symbols() -> None:
    space = make_space()
    batch = make_batch(space=type(space)(space.task, space.sketches, symbol_table(BUILTIN_SYMBOLS)))
    assert batch.is_opaque
    with pytest.raises(SpaceError, match="'tile_m'"):
        batch.symbol("tile_m")
