"""How data moves in time: per buffer of the main statement, what each band holds of it and brings in.

Pruner's pattern-aware model describes a kernel by its accesses in program order (initialise C, read A, read B,
update C, write C back). The rows here are the same, one per access and band of the tiling, as formulas over the
loop nest instead of values read back from generated code.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from prune_engine.symbols.bands import inner_tile_depth, main_statement, reduction_depth
from prune_engine.symbols.expr import Expr, as_expr, total
from prune_engine.symbols.footprint import contiguous_elements, loops_from, regions
from prune_engine.symbols.loop_nest import Access, LoopNest, Role, Statement
from prune_engine.symbols.statement import (
    executed_instances,
    last_dimension_iterators,
    operand_accesses,
    output_access,
    vector_lanes,
)
from prune_engine.symbols.structure import Formula
from prune_engine.symbols.traffic import chunk_traffic_bytes, reuse_distance_bytes, turns

#: Rows by the part a buffer plays. ``a`` is an operand that does not follow the output's last dimension (it is
#: broadcast to the lanes), ``b`` one that does, ``c`` the output.
PARTS = ("a", "b", "c")
_BANDS = {"l1": inner_tile_depth, "l2": reduction_depth}


def dataflow_formulas() -> Mapping[str, Formula]:
    """Formulas of all rows, by column name; a part that a kernel lacks is 0."""
    found: dict[str, Formula] = {
        "flow.init.instances": partial(_instances, Role.INIT),
        "flow.init.lanes": partial(_lanes, Role.INIT),
        "flow.copy.instances": partial(_instances, Role.COPY),
        "flow.copy.lanes": partial(_lanes, Role.COPY),
        "flow.compute.instances": partial(_instances, Role.COMPUTE),
    }
    for part in PARTS:
        for band in _BANDS:
            found[f"flow.{part}.{band}_bytes"] = partial(_band_bytes, part, band)
            found[f"flow.{part}.{band}_traffic_bytes"] = partial(_band_traffic, part, band)
        found[f"flow.{part}.dram_traffic_bytes"] = partial(_chunk_traffic, part)
        found[f"flow.{part}.reuse_bytes"] = partial(_reuse, part)
        found[f"flow.{part}.run_bytes"] = partial(_run_bytes, part)
    return found


def _main(nest: LoopNest) -> Statement:
    return nest.statements[main_statement(nest)]


def _of_role(nest: LoopNest, role: Role) -> list[Statement]:
    main = _main(nest)
    return [s for s in nest.statements if s.role is role and s is not main]


def _instances(role: Role, nest: LoopNest) -> Expr:
    return total(executed_instances(statement) for statement in _of_role(nest, role))


def _lanes(role: Role, nest: LoopNest) -> Expr:
    """Lanes of the last statement of that role, 0 without one."""
    statements = _of_role(nest, role)
    return vector_lanes(statements[-1]) if statements else as_expr(0)


def _access(nest: LoopNest, part: str) -> Access | None:
    """The main statement's access of a part; of several operands of one part the first."""
    statement = _main(nest)
    if part == "c":
        return output_access(statement)
    along = set(last_dimension_iterators(nest, statement))
    for access in operand_accesses(statement).values():
        follows = any(n in along for index in access.indices for n, c in index.coefficients or () if c)
        if follows == (part == "b"):
            return access
    return None


def _band_bytes(part: str, band: str, nest: LoopNest) -> Expr:
    """Bytes of the buffer that one turn of a band touches."""
    access, statement = _access(nest, part), _main(nest)
    if access is None:
        return as_expr(0)
    found = regions(nest, statement, loops_from(statement, _BANDS[band](statement)))
    return next(r.bytes for r in found if r.buffer.name == access.buffer)


def _band_traffic(part: str, band: str, nest: LoopNest) -> Expr:
    """Bytes of the buffer that a memory holding the band brings in altogether."""
    access, statement = _access(nest, part), _main(nest)
    if access is None:
        return as_expr(0)
    return _band_bytes(part, band, nest) * turns(statement, access.buffer, _BANDS[band](statement))


def _chunk_traffic(part: str, nest: LoopNest) -> Expr:
    access = _access(nest, part)
    return as_expr(0) if access is None else chunk_traffic_bytes(nest, _main(nest), access.buffer)


def _reuse(part: str, nest: LoopNest) -> Expr:
    access = _access(nest, part)
    return as_expr(0) if access is None else reuse_distance_bytes(nest, main_statement(nest), access.buffer)


def _run_bytes(part: str, nest: LoopNest) -> Expr:
    """Consecutive bytes that the innermost tile with its reduction touches."""
    access, statement = _access(nest, part), _main(nest)
    if access is None:
        return as_expr(0)
    inner = loops_from(statement, inner_tile_depth(statement))
    return contiguous_elements(nest, statement, access, inner) * nest.buffers[access.buffer].item_bytes
