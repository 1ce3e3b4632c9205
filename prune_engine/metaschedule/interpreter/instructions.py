"""One trace applied to a loop tree, instruction by instruction, with expressions in place of sampled numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from prune_engine.metaschedule.interpreter import inlining
from prune_engine.metaschedule.interpreter.compute_at import compute_at
from prune_engine.metaschedule.interpreter.copying import Copier
from prune_engine.metaschedule.interpreter.layouts import (
    reindex,
    transform_block_layout,
    transform_layout,
)
from prune_engine.metaschedule.interpreter.locations import INLINE, ROOT, effective, locations
from prune_engine.metaschedule.interpreter.loops import fuse_loops, reorder_loops, split_loop
from prune_engine.metaschedule.interpreter.stages import cache_read, cache_write, rfactor
from prune_engine.metaschedule.interpreter.tensorize import blockize
from prune_engine.metaschedule.interpreter.trace_reading import Instruction, Variable
from prune_engine.metaschedule.interpreter.tree import (
    BlockNode,
    IndexNode,
    LoopNode,
    Node,
    NotInterpretedError,
    Tree,
    blocks_under,
    loops_of,
)
from prune_engine.space import Subject
from prune_engine.symbols.expr import Expr, as_expr, ceildiv, part, product
from prune_engine.symbols.loop_nest import LoopKind

#: Thread axes as TVM names them.
THREAD_AXES: Final[Mapping[str, LoopKind]] = {
    "blockIdx.x": LoopKind.BLOCK_X,
    "blockIdx.y": LoopKind.BLOCK_Y,
    "blockIdx.z": LoopKind.BLOCK_Z,
    "vthread.x": LoopKind.VTHREAD,
    "threadIdx.x": LoopKind.THREAD_X,
    "threadIdx.y": LoopKind.THREAD_Y,
    "threadIdx.z": LoopKind.THREAD_Z,
}
#: A sampled location: the loop, or one of these.
_AT_ROOT, _INLINED = "root", "inline"
#: TVM's BufferIndexType of a buffer that is written.
_WRITE = 1


class LocationNeededError(Exception):
    """A compute location is to be decided: the options there are, and the one taken under each decision."""

    def __init__(self, variable: int, options: Mapping[int, Expr], taken: Expr) -> None:
        super().__init__(f"variable {variable}")
        self.variable, self.options, self.taken = variable, options, taken


class TraceRunner:
    """Applies a trace's instructions to a tree.

    ``taken`` are the locations that TVM takes, for the location variables in order; when there are fewer
    than the trace asks for, LocationNeededError tells what the next one depends on. ``known`` are the
    expressions of those, where they were worked out before.
    """

    def __init__(self, tree: Tree, taken: tuple[int, ...], known: tuple[Expr, ...] = ()) -> None:
        self.tree = tree
        #: Annotations of the root block.
        self.root_annotations: dict[str, Any] = {}
        #: Expressions of location variables: what is taken under each decision.
        self.locations: list[tuple[int, Expr]] = []
        #: Cooperative fetches in trace order: block, lanes, and the thread extents bound before it.
        self.fetches: list[tuple[BlockNode, Expr, Expr | None, Expr | None]] = []
        #: What each tile variable splits, and the name of the block each location variable is about.
        self.subjects: dict[int, Subject] = {}
        self.moved: dict[int, str] = {}
        self._taken, self._known = taken, known
        #: Instructions applied so far.
        self._n_applied = 0
        self._values: dict[int, Any] = {}
        self._n_variables = 0
        self._tile_of: dict[Expr, tuple[LoopNode, int]] = {}
        self._threads: dict[LoopKind, LoopNode | Expr] = {}

    def run(self, instructions: Sequence[Instruction]) -> None:
        """Apply all instructions that were not applied yet. Raises NotInterpretedError, LocationNeededError."""
        for inst in instructions[self._n_applied :]:
            handler = _HANDLERS.get(inst.kind)
            if handler is None:
                raise NotInterpretedError(f"instruction {inst.kind}")
            outputs = handler(self, inst, [self._value(x) for x in inst.inputs]) or []
            if len(outputs) != len(inst.outputs):
                raise NotInterpretedError(
                    f"{inst.kind} gives {len(inst.outputs)} results where {len(outputs)} are seen"
                )
            self._values.update(zip(inst.outputs, outputs, strict=True))
            self._n_applied += 1

    @property
    def n_taken(self) -> int:
        """How many locations are decided."""
        return len(self._taken)

    def forked(self, location: int, taken: Expr) -> TraceRunner:
        """A runner that goes on from here, where a location was needed, on a tree of its own.

        ``location`` is the one that TVM takes, ``taken`` what the error said of it.
        """
        copier = Copier()
        known = (*(expr for _, expr in self.locations), taken)
        other = TraceRunner(copier.tree(self.tree), (*self._taken, location), known)
        other.root_annotations = dict(self.root_annotations)
        other.locations = list(self.locations)
        other.fetches = copier.value(self.fetches)
        other.subjects, other.moved = dict(self.subjects), dict(self.moved)
        other._n_applied, other._n_variables = self._n_applied, self._n_variables
        other._values = {key: copier.value(value) for key, value in self._values.items()}
        other._tile_of = {factor: copier.value(tile) for factor, tile in self._tile_of.items()}
        other._threads = {kind: copier.value(axis) for kind, axis in self._threads.items()}
        return other

    def _value(self, item: Any) -> Any:
        if isinstance(item, Variable):
            return self._values[item.key]
        return [self._value(x) for x in item] if isinstance(item, list) else item

    # Reading the tree

    def _get_sblock(self, inst: Instruction, inputs: list[Any]) -> list[Any]:
        name = str(inst.attrs[0])
        return ["root" if name == "root" else self.tree.block(name)]

    def _get_loops(self, inst: Instruction, inputs: list[Any]) -> list[Any]:
        return [] if inputs[0] == "root" else list(loops_of(inputs[0]))

    def _get_consumers(self, inst: Instruction, inputs: list[Any]) -> list[Any]:
        return list(self.tree.consumers(inputs[0]))

    def _get_producers(self, inst: Instruction, inputs: list[Any]) -> list[Any]:
        return list(self.tree.producers(inputs[0]))

    # Sampling

    def _sample_tile(self, inst: Instruction, inputs: list[Any]) -> list[Any]:
        variable, loop = self._next_variable(), inputs[0]
        parts = [part(variable, k) for k in range(int(inst.attrs[0]))]
        self._tile_of.update((expr, (loop, k)) for k, expr in enumerate(parts))
        subject = _subject(blocks_under(loop)[0], loop, len(parts))
        if subject is not None:
            self.subjects[variable] = subject
        return parts

    def _sample_categorical(self, inst: Instruction, inputs: list[Any]) -> list[Any]:
        return [part(self._next_variable(), 0)]

    def _sample_location(self, inst: Instruction, inputs: list[Any]) -> list[Any]:
        variable, block = self._n_variables, inputs[0]
        number = len(self.locations)
        options: Mapping[int, Expr] = {}
        if number < len(self._known):
            taken = self._known[number]
        else:
            options = locations(self.tree, block)
            taken = effective(options, part(variable, 0))
        if number >= len(self._taken):  # nothing is changed yet, so that one can go on from here
            raise LocationNeededError(variable, options, taken)
        self._next_variable()
        self.moved[variable] = block.name
        self.locations.append((variable, taken))
        location = self._taken[number]
        if location == INLINE:
            return [_INLINED]
        if location == ROOT:
            return [_AT_ROOT]
        return [loops_of(self.tree.consumers(block)[0])[location]]

    def _next_variable(self) -> int:
        self._n_variables += 1
        return self._n_variables - 1

    # Loops

    def _split(self, inst: Instruction, inputs: list[Any]) -> list[Any]:
        loop, factors = inputs[0], inputs[1:]
        known = product(f for f in factors if f is not None)
        is_perfect = self._is_perfect(loop, factors)
        extents = [ceildiv(loop.extent, known) if f is None else as_expr(f) for f in factors]
        return list(split_loop(self.tree, loop, extents, is_perfect=is_perfect))

    def _is_perfect(self, loop: LoopNode, factors: list[Any]) -> bool:
        tiles = [self._tile_of.get(f) if isinstance(f, Expr) else None for f in factors]
        if all(tile is not None and tile[0] is loop and tile[1] == k for k, tile in enumerate(tiles)):
            return True
        extent, numbers = loop.extent.constant, [f if isinstance(f, int) else None for f in factors]
        missing = numbers.count(None)
        known = 1
        for number in numbers:
            known *= number or 1
        if missing == 1 and (loop.extent % known).constant == 0:
            return True
        if extent is None or missing > 1:
            return False
        return extent % known == 0 if missing else known == extent

    def _fuse(self, inst: Instruction, inputs: list[Any]) -> list[Any]:
        return [fuse_loops(self.tree, inputs)]

    def _reorder(self, inst: Instruction, inputs: list[Any]) -> None:
        reorder_loops(self.tree, inputs)

    def _bind(self, inst: Instruction, inputs: list[Any]) -> None:
        axis = str(inst.attrs[0])
        if axis not in THREAD_AXES:
            raise NotInterpretedError(f"thread axis {axis}")
        inputs[0].kind = THREAD_AXES[axis]
        self._threads[inputs[0].kind] = inputs[0]

    def _add_unit_loop(self, inst: Instruction, inputs: list[Any]) -> list[Any]:
        node: Node = inputs[0]
        loop = LoopNode("u", as_expr(1))
        self.tree.replace(node, loop)
        loop.children.append(node)
        node.parent = loop
        return [loop]

    # Blocks

    def _cache_write(self, inst: Instruction, inputs: list[Any]) -> list[Any]:
        return [cache_write(self.tree, inputs[0], int(inst.attrs[0]), str(inst.attrs[1]))]

    def _cache_read(self, inst: Instruction, inputs: list[Any]) -> list[Any]:
        consumers = inputs[1] if len(inputs) > 1 and isinstance(inputs[1], list) else inputs[1:]
        return [cache_read(self.tree, inputs[0], int(inst.attrs[0]), str(inst.attrs[1]), consumers)]

    def _compute_at(self, inst: Instruction, inputs: list[Any]) -> None:
        block, loop = inputs
        if loop == _INLINED:
            inlining.compute_inline(self.tree, block)
        elif loop != _AT_ROOT:
            compute_at(self.tree, block, loop, is_reverse=False, index=int(inst.attrs[1]))

    def _reverse_compute_at(self, inst: Instruction, inputs: list[Any]) -> None:
        block, loop = inputs
        if loop == _INLINED:
            inlining.reverse_compute_inline(self.tree, block)
        elif loop != _AT_ROOT:
            compute_at(self.tree, block, loop, is_reverse=True, index=int(inst.attrs[1]))

    def _compute_inline(self, inst: Instruction, inputs: list[Any]) -> None:
        inlining.compute_inline(self.tree, inputs[0])

    def _reverse_compute_inline(self, inst: Instruction, inputs: list[Any]) -> None:
        inlining.reverse_compute_inline(self.tree, inputs[0])

    def _rfactor(self, inst: Instruction, inputs: list[Any]) -> list[Any]:
        return [rfactor(self.tree, inputs[0], int(inst.attrs[0]))]

    def _blockize(self, inst: Instruction, inputs: list[Any]) -> list[Any]:
        if not isinstance(inputs[0], LoopNode):
            raise NotInterpretedError("blocks are made into one block")
        return [blockize(self.tree, inputs[0])]

    def _reindex(self, inst: Instruction, inputs: list[Any]) -> list[Any]:
        return [reindex(self.tree, inputs[0], int(inst.attrs[0]), is_write=int(inst.attrs[1]) == _WRITE)]

    def _transform_layout(self, inst: Instruction, inputs: list[Any]) -> None:
        block, index_map = inputs
        number, is_write = int(inst.attrs[0]), int(inst.attrs[1]) == _WRITE
        transform_layout(self.tree, (block.writes if is_write else block.reads)[number].buffer, index_map)

    def _transform_block_layout(self, inst: Instruction, inputs: list[Any]) -> None:
        transform_block_layout(self.tree, inputs[0], self._value(inst.attrs[0]))

    def _set_scope(self, inst: Instruction, inputs: list[Any]) -> None:
        buffer = inputs[0].writes[int(inst.attrs[0])].buffer
        buffer.scope = str(inst.attrs[1])
        buffer.name = f"{buffer.name}_{buffer.scope.replace('.', '_')}"

    def _storage_align(self, inst: Instruction, inputs: list[Any]) -> None:
        index, axis, factor, offset = (int(a) for a in inst.attrs)
        inputs[0].writes[index].buffer.alignment = (axis, factor, offset)

    def _annotate(self, inst: Instruction, inputs: list[Any]) -> None:
        target, value, key = inputs[0], inputs[1], str(inst.attrs[0])
        if target == "root":
            self.root_annotations[key] = value
            return
        target.annotations[key] = value
        if key == "meta_schedule.cooperative_fetch":
            x, y = self._threads.get(LoopKind.THREAD_X), self._threads.get(LoopKind.THREAD_Y)
            self.fetches.append((target, as_expr(value), _extent(x), _extent(y)))
        elif key == "warp_execution":
            self._threads[LoopKind.THREAD_X] = as_expr(32)

    def _unannotate(self, inst: Instruction, inputs: list[Any]) -> None:
        annotations = self.root_annotations if inputs[0] == "root" else inputs[0].annotations
        annotations.pop(str(inst.attrs[0]), None)


def _subject(block: BlockNode, loop: LoopNode, n_parts: int) -> Subject | None:
    it = next((it for it in block.real_iters if any(t.plain_loop is loop for t in it.terms)), None)
    if it is None:
        return None
    index = block.writes[0].indices[-1] if block.writes and block.writes[0].indices else IndexNode(None)
    last, width = index.coefficients, index.width
    is_contiguous = any(other is it and c == width for other, c in last or ())
    letter = "R" if it.is_reduction else "S"
    return Subject(
        block.name, it.name, it.is_reduction, is_contiguous, tuple(f"{letter}{k}" for k in range(n_parts))
    )


def _extent(loop: LoopNode | Expr | None) -> Expr | None:
    return loop.extent if isinstance(loop, LoopNode) else loop


_Handler = Callable[[TraceRunner, Instruction, list[Any]], list[Any] | None]

_HANDLERS: Final[Mapping[str, _Handler]] = {
    "GetSBlock": TraceRunner._get_sblock,
    "GetLoops": TraceRunner._get_loops,
    "GetConsumers": TraceRunner._get_consumers,
    "GetProducers": TraceRunner._get_producers,
    "SamplePerfectTile": TraceRunner._sample_tile,
    "SampleCategorical": TraceRunner._sample_categorical,
    "SampleComputeLocation": TraceRunner._sample_location,
    "Split": TraceRunner._split,
    "Fuse": TraceRunner._fuse,
    "Reorder": TraceRunner._reorder,
    "Bind": TraceRunner._bind,
    "AddUnitLoop": TraceRunner._add_unit_loop,
    "CacheWrite": TraceRunner._cache_write,
    "CacheRead": TraceRunner._cache_read,
    "ComputeAt": TraceRunner._compute_at,
    "ReverseComputeAt": TraceRunner._reverse_compute_at,
    "ComputeInline": TraceRunner._compute_inline,
    "ReverseComputeInline": TraceRunner._reverse_compute_inline,
    "RFactor": TraceRunner._rfactor,
    "Blockize": TraceRunner._blockize,
    "ReIndex": TraceRunner._reindex,
    "TransformLayout": TraceRunner._transform_layout,
    "TransformBlockLayout": TraceRunner._transform_block_layout,
    "SetScope": TraceRunner._set_scope,
    "StorageAlign": TraceRunner._storage_align,
    "Annotate": TraceRunner._annotate,
    "Unannotate": TraceRunner._unannotate,
}
