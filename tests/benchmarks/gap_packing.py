"""A kernel in the layout that onnxruntime's kernels have: the same operator, its tensors in blocks of vector lanes.

Convolutions: activations NCHW become N[C/c]HWc, weights OIHW become [O/c][I/c]HW[c of I][c of O] (depthwise:
[C/c]1HWc), as in onnxruntime's NCHWc transformation; an input whose channels do not divide stays as it is, as
there. Products: a constant matrix K x N becomes panels [N/c][K][c]; activations stay. The loops are split in the
same way, so that the search sees a vector where the layout has one.

It is made out of the kernel's own TIR, so that what is fused to the operator comes along.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from prune_engine.metaschedule._compat import import_tvm

_CONVOLUTIONS = ("conv2d_nchw", "group_conv2d_nchw")
_PRODUCTS = ("matmul", "NT_matmul")


class NotPackedError(Exception):
    """There is no such layout of this kernel; the message says why."""


@dataclass(frozen=True)
class Packed:
    """A kernel in the packed layout; ``activations`` are the NCHW shapes that a plain neighbour would re-arrange.

    Each is (shape, whether it is read: otherwise it is written).
    """

    mod: Any
    what: str
    activations: tuple[tuple[tuple[int, ...], bool], ...]


def packed_kernel(mod: Any, lanes: int) -> Packed:
    """A kernel alone in a module, before any schedule, in blocks of ``lanes``. Raises NotPackedError."""
    tvm = import_tvm()
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    names = [str(schedule.get(block).name_hint) for block in schedule.get_child_blocks(_root(schedule))]
    params = {str(param.name) for param in mod["main"].params}
    packing = _Packing(schedule, names, lanes, params)
    if anchor := next((name for name in names if name in _CONVOLUTIONS), None):
        what = packing.convolution(anchor)
    elif anchor := next((name for name in names if name in _PRODUCTS), None):
        what = packing.product(anchor)
    else:
        raise NotPackedError("no other layout of it is known")
    return Packed(_simplified(schedule.mod), what, tuple(packing.activations))


def relayout_kernel(shape: Sequence[int], lanes: int, *, is_read: bool) -> Any:
    """A module that brings NCHW into blocks (``is_read``), or blocks into NCHW."""
    tvm = import_tvm()
    from tvm import te

    batch, channels, height, width = shape
    blocked = (batch, channels // lanes, height, width, lanes)
    if is_read:
        plain = te.placeholder(tuple(shape), name="plain")
        made = te.compute(blocked, lambda n, o, y, x, i: plain[n, o * lanes + i, y, x], name="packed")
        arguments = [plain, made]
    else:
        source = te.placeholder(blocked, name="packed")
        made = te.compute(tuple(shape), lambda n, c, y, x: source[n, c // lanes, y, x, c % lanes], name="plain")
        arguments = [source, made]
    func = te.create_prim_func(arguments).with_attr("global_symbol", "main")
    return tvm.IRModule({"main": func})


class _Packing:
    """Transforms buffers and blocks of one schedule, each buffer once."""

    def __init__(self, schedule: Any, names: Sequence[str], lanes: int, params: set[str]) -> None:
        self._schedule, self._names, self._lanes, self._params = schedule, names, lanes, params
        self._done: set[str] = set()
        self.activations: list[tuple[tuple[int, ...], bool]] = []

    def convolution(self, anchor: str) -> str:
        """Pack a convolution with all around it. Raises NotPackedError."""
        lanes = self._lanes
        _, channels, height, width, depth, *_ = self._extents(anchor)
        weights = self._shape(anchor, "reads", 1)
        is_grouped = anchor.startswith("group")
        if channels % lanes:
            raise NotPackedError(f"{channels} output channels are no multiple of {lanes}")
        if height * width == 1:
            raise NotPackedError("one pixel has the same layout either way")
        if is_grouped and weights[1] != 1:
            raise NotPackedError("groups of several channels")
        is_split = not is_grouped and depth % lanes == 0
        if is_grouped or not is_split:
            self._pack(anchor, "read", 1, lambda o, i, y, x: (o // lanes, i, y, x, o % lanes))
        else:
            self._pack(anchor, "read", 1, lambda o, i, y, x: (o // lanes, i // lanes, y, x, i % lanes, o % lanes))
        has_packed_input = is_grouped or is_split
        for name in self._names:
            self._pack_activations(name, has_packed_input=has_packed_input)
            if name != anchor and len(self._extents(name)) == 4 and self._writes_blocks(name):
                self._loops(name, self._channels_last)
        self._loops(anchor, self._window_loops(anchor, is_split=is_split))
        weights_as = "[C/c]1HWc" if is_grouped else "[O/c][I/c]HW[c][c]" if is_split else "[O/c]IHWc"
        data = "N[C/c]HWc" if has_packed_input else "NCHW in, N[C/c]HWc out"
        return f"{data}, weights {weights_as}, c = {lanes}"

    def product(self, anchor: str) -> str:
        """Pack the constant side of a product. Raises NotPackedError."""
        lanes = self._lanes
        shape = self._shape(anchor, "reads", 1)
        columns = self._extents(anchor)[-2]
        if len(shape) != 2 or self._buffer(anchor, "reads", 1) not in self._params:
            raise NotPackedError("both sides are computed: nothing can be packed beforehand")
        if columns % lanes:
            raise NotPackedError(f"{columns} columns are no multiple of {lanes}")
        if anchor.startswith("NT"):
            self._pack(anchor, "read", 1, lambda n, k: (n // lanes, k, n % lanes))
        else:
            self._pack(anchor, "read", 1, lambda k, n: (n // lanes, k, n % lanes))
        for name in self._names:
            if name == anchor:
                self._loops(name, lambda *i: (*i[:-2], i[-2] // lanes, i[-2] % lanes, i[-1]))
            elif self._extents(name)[-1] == columns:
                self._loops(name, lambda *i: (*i[:-1], i[-1] // lanes, i[-1] % lanes))
        return f"constant matrix in panels [N/c][K][c], c = {lanes}"

    def _pack_activations(self, name: str, *, has_packed_input: bool) -> None:
        """The tensors with pixels that a block reads and writes."""
        for access in ("reads", "writes"):
            for number in range(len(self._regions(name, access))):
                shape, buffer = self._shape(name, access, number), self._buffer(name, access, number)
                is_tensor = len(shape) == 4 and shape[1] % self._lanes == 0 and shape[2] * shape[3] > 1
                is_input = access == "reads" and buffer in self._params
                if not is_tensor or buffer in self._done or (is_input and not has_packed_input):
                    continue
                self._pack(name, access[:-1], number, self._channels_last)
                if buffer in self._params:
                    self.activations.append((shape, access == "reads"))

    def _channels_last(self, n: Any, c: Any, y: Any, x: Any) -> tuple[Any, ...]:
        return (n, c // self._lanes, y, x, c % self._lanes)

    def _window_loops(self, anchor: str, *, is_split: bool) -> Callable[..., tuple[Any, ...]]:
        """Loops of the convolution; those of one step in the window are left out."""
        lanes = self._lanes
        extents = self._extents(anchor)
        window = [number for number in (5, 6) if extents[number] > 1]

        def loops(n: Any, o: Any, y: Any, x: Any, i: Any, p: Any, q: Any) -> tuple[Any, ...]:
            kept = tuple((p, q)[number - 5] for number in window)
            spatial = (n, o // lanes, y, x, o % lanes)
            if is_split:
                return (*spatial, i // lanes, *kept, i % lanes)
            return (*spatial, i, *kept) if extents[4] > 1 else (*spatial, *kept)

        return loops

    def _writes_blocks(self, name: str) -> bool:
        return len(self._shape(name, "writes", 0)) == 5

    def _pack(self, name: str, access: str, number: int, layout: Callable[..., tuple[Any, ...]]) -> None:
        buffer = self._buffer(name, f"{access}s", number)
        self._schedule.transform_layout(self._block(name), (access, number), layout)
        self._done.add(buffer)

    def _loops(self, name: str, made: Callable[..., tuple[Any, ...]]) -> None:
        tvm = import_tvm()
        loops = tvm.tirx.IndexMap.from_func(made, ndim=len(self._extents(name)))
        self._schedule.transform_block_layout(self._block(name), loops)

    def _block(self, name: str) -> Any:
        return self._schedule.get_sblock(name)

    def _regions(self, name: str, access: str) -> Sequence[Any]:
        return list(getattr(self._schedule.get(self._block(name)), access))

    def _shape(self, name: str, access: str, number: int) -> tuple[int, ...]:
        return tuple(int(extent) for extent in self._regions(name, access)[number].source.ty.shape)

    def _buffer(self, name: str, access: str, number: int) -> str:
        return str(self._regions(name, access)[number].source.name)

    def _extents(self, name: str) -> list[int]:
        return [int(axis.dom.extent) for axis in self._schedule.get(self._block(name)).iter_vars]


def _root(schedule: Any) -> Any:
    return schedule.get_sblock("root")


def _simplified(mod: Any) -> Any:
    """The divisions that a split made and a layout takes back again, gone: the search reads simple indices."""
    tvm = import_tvm()
    import tvm_ffi
    from tvm import sym

    function = mod["main"]
    analyzer = sym.Analyzer()

    def bind(block: Any) -> None:
        for axis in block.iter_vars:
            analyzer.bind(axis.var, axis.dom)

    tvm_ffi.structural_walk(function.body, (tvm.s_tir.SBlock, bind), order="pre")
    divisions = ((tvm.tirx.FloorDiv, analyzer.simplify), (tvm.tirx.FloorMod, analyzer.simplify))
    body = tvm_ffi.structural_map(function.body, divisions)
    return tvm.IRModule({"main": function.with_body(body)})
