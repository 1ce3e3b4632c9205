"""What a GPU candidate's kernels do, as expressions over the loop nest: launch, work, unrolled code, accesses.

A kernel is one loop tree at the root of the nest, launched by itself. Each has a *main statement*: the reduction
step with most operations, or else the statement with most instances.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from prune_engine.symbols.bands import domain_flops, possible_kinds, reduction_loops
from prune_engine.symbols.expr import Expr, as_expr, both, ceildiv, maximum, minimum, product, total, where
from prune_engine.symbols.footprint import contiguous_elements, indexing_loops, span, values
from prune_engine.symbols.kernel import staging_copies, staging_loops
from prune_engine.symbols.loop_nest import (
    BLOCK_KINDS,
    THREAD_KINDS,
    Access,
    LoopKind,
    LoopNest,
    Role,
    Statement,
)
from prune_engine.symbols.statement import axis_extent, executed_instances, extent_of, flops, per_thread_loops

#: Lanes that issue one instruction together.
WARP: Final = 32
#: Copies of a body up to which nvcc unrolls a loop whose extent is known, although TVM left it a loop: of 1 800
#: recorded kernels 90 % keep their results in registers, or do not, as this says.
COMPILER_UNROLLS: Final = 256
#: Memory scopes of TVM that are a matrix unit's registers; the last part tells which operand.
FRAGMENT_SCOPES: Final = ("wmma", "m16n8k8")
SUM_SCOPES: Final = ("wmma.accumulator", "m16n8k8.matrixC")
#: Digits of the thread index that an access is looked at by: the fastest two tell how a warp's lanes lie.
N_DIGITS: Final = 2


def kernel_formulas(nest: LoopNest, kernel: range) -> dict[str, Expr]:
    """Everything that the draft wants to know of one kernel, by name. See the functions below."""
    found = {**launch(nest, kernel), **code(nest, kernel)}
    for prefix, accesses in (("g", global_accesses(nest, kernel)), ("s", shared_accesses(nest, kernel))):
        for number, access in enumerate(accesses):
            found.update((f"{prefix}{number}.{name}", expr) for name, expr in access.items())
    return found


def launch(nest: LoopNest, kernel: range) -> dict[str, Expr]:
    """Blocks, threads, virtual threads, bytes in each kind of memory, operations and calls of one kernel.

    ``tensor_bytes``: all tensors in global memory once. ``matrix_flops`` are those of matrix instructions, of which
    ``useful_flops`` are not for padding; ``flops`` all others. ``fragment_bytes_loaded``: what warps move between
    shared memory and fragments. ``instances``: of all statements that are no matrix instructions.
    """
    statements = [nest.statements[number] for number in kernel]
    vthreads = _axes(statements, (LoopKind.VTHREAD,))
    matrix = total(flops(s) for s in statements if s.tile is not None)
    return {
        "is_launched": as_expr(1),
        "tensor_bytes": _tensor_bytes(nest, statements),
        "blocks": _axes(statements, BLOCK_KINDS),
        "threads": _axes(statements, THREAD_KINDS),
        "vthreads": vthreads,
        "shared_bytes": _allocated(nest, statements, ("shared",)),
        "local_bytes": _allocated(nest, statements, ("local",)) * vthreads,
        "fragment_bytes": _allocated(nest, statements, FRAGMENT_SCOPES),
        "matrix_flops": matrix,
        "useful_flops": _without_padding(nest, statements, matrix),
        "fragment_bytes_loaded": _fragment_loads(nest, statements),
        "flops": total(flops(statement) for statement in statements if statement.tile is None),
        "calls": total(executed_instances(s) * s.call_count for s in statements if s.call_count),
        "instances": total(executed_instances(s) for s in statements if s.tile is None),
    }


def code(nest: LoopNest, kernel: range) -> dict[str, Expr]:
    """How the main statement of a kernel is compiled.

    ``bodies``: copies of it in the code. ``serial``: its instances per thread. ``tile``: elements of the output
    that a thread keeps. ``needed``: copies that keep them in registers (every loop over them must be unrolled).
    ``steps``: how often a block stages operands in shared memory and waits for them.
    """
    main = main_of(nest, kernel)
    _, bodies = _unrolled(nest, main)
    return {
        "bodies": bodies,
        "serial": product(main.loops[n].extent for n in sorted(per_thread_loops(main))),
        "needed": _needed(nest, main),
        "limit": main.unroll_steps,
        "steps": _steps(nest, kernel),
    }


def global_accesses(nest: LoopNest, kernel: range) -> list[dict[str, Expr]]:
    """Accesses of a kernel to global memory.

    ``count``: elements over all threads; ``run``: consecutive elements that the lanes of a warp touch together;
    ``vector``: elements of one instruction; ``own``: consecutive elements that one thread touches; ``item_bytes``;
    ``is_padded``: whether each value is chosen between the element and something else; ``is_write``.
    """
    found = []
    for number in kernel:
        statement = nest.statements[number]
        known = set()
        for access in statement.accesses:
            buffer = nest.buffers[access.buffer]
            if buffer.scope != "global" or (access.buffer, access.is_write) in known:
                continue
            known.add((access.buffer, access.is_write))
            found.append(
                {
                    "count": _moved(statement, access),
                    "run": contiguous_elements(nest, statement, access, _lanes_of(nest, statement)),
                    "vector": _vector(statement),
                    "own": contiguous_elements(nest, statement, access, _own_loops(nest, statement)),
                    "item_bytes": as_expr(buffer.item_bytes),
                    "is_padded": as_expr(int(statement.role is Role.COMPUTE and not access.is_write)),
                    "is_write": as_expr(int(access.is_write)),
                }
            )
    return found


def shared_accesses(nest: LoopNest, kernel: range) -> list[dict[str, Expr]]:
    """Accesses of a kernel's main statement to shared memory.

    ``loads``: elements that one thread loads, each again for every turn of the loops that the access follows or
    that are not unrolled. ``run``: consecutive elements of those in unrolled code. For each of the fastest digits
    of the thread index that move it: ``distinct``, places that a warp's lanes touch, ``stride`` elements apart.
    """
    main = main_of(nest, kernel)
    unrolled, _ = _unrolled(nest, main)
    found, known = [], set()
    for access in main.accesses:
        buffer = nest.buffers[access.buffer]
        if buffer.scope.split(".")[0] != "shared" or access.is_write or access.buffer in known:
            continue
        known.add(access.buffer)
        one = {
            "loads": _loads(main, access, unrolled),
            "run": _unrolled_run(main, access, unrolled),
            "item_bytes": as_expr(buffer.item_bytes),
        }
        digits = list(_warp_digits(nest, main, access))[-N_DIGITS:]
        digits += [(as_expr(1), as_expr(1))] * (N_DIGITS - len(digits))
        for place, (distinct, stride) in enumerate(digits):
            one[f"distinct{place}"], one[f"stride{place}"] = distinct, stride
        found.append(one)
    return found


def main_of(nest: LoopNest, kernel: range) -> Statement:
    """The statement that a kernel is about."""
    updates = [nest.statements[n] for n in kernel if nest.statements[n].role is Role.UPDATE]
    if updates:
        return max(updates, key=domain_flops)
    return max((nest.statements[n] for n in kernel), key=domain_flops)


def _axes(statements: list[Statement], kinds: tuple[LoopKind, ...]) -> Expr:
    extents = []
    for kind in kinds:
        extent = as_expr(1)
        for statement in statements:
            extent = _larger(extent, axis_extent(statement, kind))
        extents.append(extent)
    return product(extents)


def _used(statements: list[Statement]) -> list[str]:
    return sorted({access.buffer for statement in statements for access in statement.accesses})


def _allocated(nest: LoopNest, statements: list[Statement], scopes: tuple[str, ...]) -> Expr:
    buffers = [nest.buffers[name] for name in _used(statements)]
    return total(b.stored_elements * b.item_bytes for b in buffers if b.scope.split(".")[0] in scopes)


def _tensor_bytes(nest: LoopNest, statements: list[Statement]) -> Expr:
    buffers = [nest.buffers[name] for name in _used(statements)]
    return as_expr(sum(math.prod(b.shape) * b.item_bytes for b in buffers if b.scope == "global"))


def _without_padding(nest: LoopNest, statements: list[Statement], matrix_flops: Expr) -> Expr:
    """Operations on rows and columns of results that there are; the reduction's padding is not told apart."""
    buffers = {name: nest.buffers[name] for name in _used(statements)}
    written = {a.buffer for s in statements for a in s.accesses if a.is_write}
    results = [math.prod(b.shape) for name, b in buffers.items() if b.is_argument and name in written]
    sums = [math.prod(b.shape) for b in buffers.values() if b.scope in SUM_SCOPES]
    if not results or not sums or results[0] >= sums[0]:
        return matrix_flops
    return matrix_flops * results[0] // sums[0]


def _fragment_loads(nest: LoopNest, statements: list[Statement]) -> Expr:
    """Bytes that warps move between shared memory and the registers of the matrix unit."""
    found = []
    for statement in statements:
        if statement.tile is None or statement.role is not Role.COPY:
            continue
        rows, columns, _ = statement.tile
        item = max(nest.buffers[access.buffer].item_bytes for access in statement.accesses)
        found.append(executed_instances(statement) * (rows * columns * item))
    return total(found)


def _serial(statement: Statement) -> list[int]:
    """Loops that a thread runs one turn after the other, outermost first."""
    return [
        number
        for number in sorted(per_thread_loops(statement))
        if statement.loops[number].extent.constant != 1
        and not possible_kinds(statement.loops[number].kind) & {LoopKind.VTHREAD, LoopKind.VECTORIZED}
    ]


def _staged_depth(nest: LoopNest, main: Statement) -> int:
    """The loops from here inwards run on what was staged, or on a thread's own values."""
    number = next(n for n, known in enumerate(nest.statements) if known is main)
    copies = staging_copies(nest)
    is_staged = number > 0 and any(nest.statements[number - 1] is copy for copy in copies)
    if is_staged:
        return main.n_shared_with_previous
    kinds = {*BLOCK_KINDS, *THREAD_KINDS, LoopKind.VTHREAD}
    outer = [n for n, loop in enumerate(main.loops) if possible_kinds(loop.kind) & kinds]
    return outer[-1] + 1 if outer else 0


def _unrolled(nest: LoopNest, main: Statement) -> tuple[Mapping[int, Expr], Expr]:
    """Which of the loops inside the staging are unrolled, and to how many copies of the body.

    From inside out, as long as the copies stay within the pragma's limit, or the compiler's own. Virtual threads
    are copies from the start.
    """
    depth = _staged_depth(nest, main)
    bodies, is_open = extent_of(main, (LoopKind.VTHREAD,)), as_expr(1)
    limit = maximum(main.unroll_steps, COMPILER_UNROLLS)
    unrolled = {}
    for number in reversed([n for n in _serial(main) if n >= depth]):
        grown = bodies * main.loops[number].extent
        is_open = both(is_open, grown.le(limit))
        bodies = where(is_open, grown, bodies)
        unrolled[number] = is_open
    return unrolled, bodies


def _needed(nest: LoopNest, main: Statement) -> Expr:
    """Copies of the body that it takes to unroll every loop over a thread's own results."""
    depth = _staged_depth(nest, main)
    serial = [n for n in _serial(main) if n >= depth]
    spatial = [n for n in serial if n not in reduction_loops(main)]
    result, grown = as_expr(1), extent_of(main, (LoopKind.VTHREAD,))
    for number in reversed(serial):
        grown = grown * main.loops[number].extent
        if number in spatial:
            result = where(as_expr(1).lt(main.loops[number].extent), grown, result)
    return result


def _steps(nest: LoopNest, kernel: range) -> Expr:
    copies = [s for s in staging_copies(nest) if any(nest.statements[n] is s for n in kernel)]
    if not copies:
        return as_expr(0)
    first = copies[0]
    number = next(n for n in kernel if nest.statements[n] is first)
    following = nest.statements[number + 1 : number + 2]
    shared = max(first.n_shared_with_previous, *(s.n_shared_with_previous for s in following), 0)
    own = per_thread_loops(first)
    return product(
        first.loops[n].extent
        for n in range(min(shared, len(first.loops)))
        if n in own and first.loops[n].kind.constant != LoopKind.VTHREAD
    )


def _lanes_of(nest: LoopNest, statement: Statement) -> frozenset[int]:
    if any(statement is copy for copy in staging_copies(nest)):
        return frozenset(staging_loops(nest, statement))
    kinds = {*THREAD_KINDS, LoopKind.VECTORIZED}
    return frozenset(n for n, loop in enumerate(statement.loops) if possible_kinds(loop.kind) & kinds)


def _own_loops(nest: LoopNest, statement: Statement) -> frozenset[int]:
    """The loops that one thread runs inside what it shares with others, vector lanes included."""
    if any(statement is copy for copy in staging_copies(nest)):
        return frozenset(n for n, loop in enumerate(statement.loops) if loop.kind.constant == LoopKind.VECTORIZED)
    threads = [n for n, loop in enumerate(statement.loops) if possible_kinds(loop.kind) & set(THREAD_KINDS)]
    return frozenset(n for n in per_thread_loops(statement) if not threads or n > threads[-1])


def _vector(statement: Statement) -> Expr:
    """Lanes of the statement's vector accesses; a copy that pads decides lane by lane."""
    return extent_of(statement, (LoopKind.VECTORIZED,)) if statement.role is Role.COPY else as_expr(1)


def _moved(statement: Statement, access: Access) -> Expr:
    """Elements that all threads touch; what stands still in a thread's inner loops is kept in a register."""
    moving = indexing_loops(statement, access)
    serial = _serial(statement)
    while serial and serial[-1] not in moving:
        serial.pop()
    still = {n for n in _serial(statement) if n not in serial}
    instances = executed_instances(statement)
    kept = product(statement.loops[n].extent for n in still)
    return instances if kept.constant == 1 else instances // kept


def _loads(main: Statement, access: Access, unrolled: Mapping[int, Expr]) -> Expr:
    moving = indexing_loops(main, access)
    turns = []
    for number in _serial(main):
        extent = main.loops[number].extent
        if number in moving or number not in unrolled:
            turns.append(extent)
        else:
            turns.append(where(unrolled[number], 1, extent))
    virtual = frozenset(n for n, loop in enumerate(main.loops) if loop.kind.constant == LoopKind.VTHREAD)
    for it in _iterators_of(access):
        if virtual:
            turns.append(values(main, it, virtual))
    return product(turns)


def _unrolled_run(main: Statement, access: Access, unrolled: Mapping[int, Expr]) -> Expr:
    last = access.indices[-1]
    own = {
        loop
        for it, coefficient in last.coefficients or ()
        if abs(coefficient) == 1
        for term in main.iterators[it].terms
        for loop, _ in term.over
    }
    return product(where(is_open, main.loops[n].extent, 1) for n, is_open in unrolled.items() if n in own)


def _warp_digits(nest: LoopNest, main: Statement, access: Access) -> Iterator[tuple[Expr, Expr]]:
    """(places, elements between them) for each digit of the thread index that the access follows."""
    threads = [n for n, loop in enumerate(main.loops) if possible_kinds(loop.kind) & set(THREAD_KINDS)]
    inside = frozenset(n for n in range(len(main.loops)) if n >= _staged_depth(nest, main) or n in threads)
    virtual = frozenset(n for n, loop in enumerate(main.loops) if loop.kind.constant == LoopKind.VTHREAD)
    pitch = as_expr(1)
    found = []
    for index in reversed(access.indices):
        length = as_expr(index.width)
        for it, coefficient in index.coefficients or ():
            for term in main.iterators[it].terms:
                if any(loop in threads for loop, _ in term.over):
                    lanes = where(term.divisor.lt(WARP), ceildiv(WARP, maximum(term.divisor, 1)), 1)
                    found.append((minimum(lanes, term.modulus), term.stride * abs(coefficient) * pitch))
            length = length + (span(main, it, inside | virtual) - 1) * abs(coefficient)
        pitch = pitch * length
    # The last dimension's digits were found first; the fastest digit of the index is the last to come.
    yield from reversed(found)


def _iterators_of(access: Access) -> list[int]:
    return sorted({it for index in access.indices for it, c in index.coefficients or () if c})


def _larger(a: Expr, b: Expr) -> Expr:
    if a.constant in (0, 1):
        return b
    return a if b.constant in (0, 1) else maximum(a, b)
