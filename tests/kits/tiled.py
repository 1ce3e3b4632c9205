"""Accesses of a buffer that a schedule cut into tiles of an intrinsic, as accesses of what it was before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kits.touches import Dimension, Touch

#: A tiled buffer has this many dimensions in place of its last two: tiles, tiles in a group, elements of one.
_N_TILED = 6


def untiled(touches: Iterable[Touch], shapes: Mapping[str, tuple[int, ...]]) -> Iterator[Touch]:
    """The same touches, those of buffers with tiles by row and column. ``shapes`` are as TVM declares them."""
    for buffer, is_write, where in touches:
        if len(where) < _N_TILED:
            yield buffer, is_write, where
            continue
        kept, tiles, sizes = where[:-_N_TILED], where[-_N_TILED:], shapes[buffer][-_N_TILED:]
        yield buffer, is_write, (*kept, _joined(tiles[::2], sizes[::2]), _joined(tiles[1::2], sizes[1::2]))


def _joined(parts: tuple[Dimension, ...], sizes: tuple[int, ...]) -> Dimension:
    start = 0
    for (first, _), size in zip(parts, sizes, strict=True):
        if first is None:
            return None, parts[-1][1]
        start = start * size + first
    return start, parts[-1][1]
