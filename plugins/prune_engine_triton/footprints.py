"""What a Triton kernel needs and does, by its meta-parameters: presets for two usual forms."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prune_engine.errors import ConfigError

#: Columns by name: meta-parameters, num_warps, num_stages, num_ctas, and the kernel's arguments that are numbers.
Columns = Mapping[str, NDArray[np.generic]]
#: A symbol of a configuration: a number, the name of a column, or a function of columns.
TritonSymbol = float | str | Callable[[Columns], ArrayLike]

#: Registers of 4 bytes that a thread needs beside its part of the accumulator: addresses, masks, operands.
_REGISTERS_BESIDE = 24
#: Rows that a group of four warps has to have for Hopper's asynchronous matrix instructions.
_WGMMA_ROWS, _WGMMA_WARPS = 64, 4


@dataclass(frozen=True, slots=True)
class Footprint:
    """Symbols of a kernel by name, and the type that it computes in; see `prune_engine.own_kernels.given`.

    ``needs`` are names of arguments without which nothing can be said of its time. Functions get columns: one
    value per configuration of each meta-parameter, of ``num_warps``, ``num_stages`` and ``num_ctas``, and of every
    argument that is a number.
    """

    symbols: Mapping[str, TritonSymbol]
    dtype: str = "float16"
    needs: tuple[str, ...] = ()

    def with_symbols(self, **symbols: TritonSymbol) -> Footprint:
        """The same with some symbols replaced or added."""
        return Footprint({**self.symbols, **symbols}, self.dtype, self.needs)


def matmul(
    *,
    block_m: str = "BLOCK_M",
    block_n: str = "BLOCK_N",
    block_k: str = "BLOCK_K",
    m: str = "M",
    n: str = "N",
    k: str = "K",
    dtype: str = "float16",
    uses_matrix_units: bool = True,
    has_async_products: bool = False,
    batch: str | None = None,
) -> Footprint:
    """A tiled matrix product: tiles of both operands go through shared memory, the sum stays in registers.

    The names are those of the kernel's meta-parameters and arguments; ``batch`` names one that counts products.
    ``dtype`` is the operands'. ``has_async_products`` is for Hopper and later (sm_90), whose matrix instructions
    read a tile while the next ones arrive.

    Shared memory is what the pipeline of loads holds: ``num_stages - 1`` tiles of each operand, or ``num_stages``
    with asynchronous products (of at least 64 rows for four warps), at least one. That is what Triton 3.9
    allocates for such loops, compiled for sm_80 and sm_90; a kernel that stages more has its own symbol.
    """
    item = item_bytes(dtype)

    def products(c: Columns) -> NDArray[np.float64]:
        return _f(c, batch) if batch else np.ones_like(_f(c, m))

    def blocks(c: Columns) -> NDArray[np.float64]:
        tiles = np.ceil(_f(c, m) / _f(c, block_m)) * np.ceil(_f(c, n) / _f(c, block_n))
        found: NDArray[np.float64] = tiles * products(c)
        return found

    def steps(c: Columns) -> NDArray[np.float64]:
        return np.ceil(_f(c, k) / _f(c, block_k))

    def tiles_bytes(c: Columns) -> NDArray[np.float64]:
        return (_f(c, block_m) + _f(c, block_n)) * _f(c, block_k) * item

    def staged(c: Columns) -> NDArray[np.float64]:
        stages = _f(c, "num_stages")
        is_async = np.zeros(len(stages), dtype=np.bool_)
        if has_async_products:
            is_async = (_f(c, block_m) >= _WGMMA_ROWS) & (_f(c, "num_warps") % _WGMMA_WARPS == 0)
        return np.maximum(np.where(is_async, stages, stages - 1), 1)

    def flops(c: Columns) -> NDArray[np.float64]:
        # Tiles are computed whole, also where they reach over the edge.
        return 2 * blocks(c) * _f(c, block_m) * _f(c, block_n) * steps(c) * _f(c, block_k)

    def accumulator(c: Columns) -> NDArray[np.float64]:
        return _f(c, block_m) * _f(c, block_n) / _threads(c)

    def operands_of_warps(c: Columns) -> NDArray[np.float64]:
        """Bytes that warps read from shared memory: each one its rows and columns of a tile, laid out as square."""
        across = np.exp2(np.floor(np.log2(_f(c, "num_warps")) / 2))
        down = _f(c, "num_warps") / across
        per_step: NDArray[np.float64] = (_f(c, block_m) * across + _f(c, block_n) * down) * _f(c, block_k) * item
        return per_step * steps(c) * blocks(c)

    symbols: dict[str, TritonSymbol] = {
        "threads_per_block": _threads,
        "shared_bytes_per_block": lambda c: tiles_bytes(c) * staged(c),
        "registers_per_thread": lambda c: accumulator(c) + _REGISTERS_BESIDE,
        "grid_blocks": blocks,
        "flops_total": flops,
        "traffic_dram_bytes": lambda c: (
            tiles_bytes(c) * steps(c) * blocks(c) + _f(c, block_m) * _f(c, block_n) * item * blocks(c)
        ),
        "tensor_bytes": lambda c: (
            (_f(c, m) * _f(c, k) + _f(c, k) * _f(c, n) + _f(c, m) * _f(c, n)) * item * products(c)
        ),
        "shared_traffic_bytes": operands_of_warps,
        # Stages in flight hide each other's waiting.
        "staging_steps": lambda c: steps(c) / np.maximum(_f(c, "num_stages") - 1, 1),
        "contiguous_bytes": lambda c: np.minimum(_f(c, block_k), _f(c, block_n)) * item,
    }
    if uses_matrix_units:
        symbols["matrix_flops"] = flops
    return Footprint(symbols, dtype, (m, n, k, *([batch] if batch else [])))


def elementwise(
    *, block: str = "BLOCK_SIZE", size: str = "n_elements", dtype: str = "float32", n_tensors: int = 3
) -> Footprint:
    """A kernel that reads and writes each element once: ``n_tensors`` in all, no shared memory."""
    item = item_bytes(dtype)

    def blocks(c: Columns) -> NDArray[np.float64]:
        return np.ceil(_f(c, size) / _f(c, block))

    def per_thread(c: Columns) -> NDArray[np.float64]:
        return np.maximum(_f(c, block) / _threads(c), 1)

    return Footprint(
        {
            "threads_per_block": _threads,
            "registers_per_thread": lambda c: n_tensors * per_thread(c) * max(item / 4, 1) + _REGISTERS_BESIDE / 2,
            "grid_blocks": blocks,
            "flops_total": lambda c: _f(c, size),
            "traffic_dram_bytes": lambda c: n_tensors * _f(c, size) * item,
            "max_vector_bytes": lambda c: np.minimum(per_thread(c) * item, 16),
        },
        dtype,
        (size,),
    )


def item_bytes(dtype: str) -> float:
    """Bytes of a value of a type such as ``bfloat16`` or ``fp8e5``: its first number is its bits.

    Raises ConfigError for a name without a number.
    """
    width = re.search(r"\d+", dtype) if isinstance(dtype, str) else None
    if width is None:
        raise ConfigError(
            "is no type whose size is known", who="dtype", got=repr(dtype), expected="a text such as 'float16'"
        )
    return max(int(width.group()) / 8, 0.5)


def _threads(c: Columns) -> NDArray[np.float64]:
    return _f(c, "num_warps") * 32


def _f(c: Columns, name: str) -> NDArray[np.float64]:
    return np.asarray(c[name], dtype=np.float64)
