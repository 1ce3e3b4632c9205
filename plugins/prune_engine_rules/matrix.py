"""Tiles against the shape of a matrix unit."""

from __future__ import annotations

from collections.abc import Mapping

from prune_engine.hardware.schema import DeviceKind, HardwareProfile
from prune_engine.space import DesignSpace, Sketch, SpaceRestriction, Subject, Variable
from prune_engine.strategies import Rule
from prune_engine.verdicts import RuleKind
from prune_engine_rules.tables import contraction_axes, inner_product, restrict_tiles, tensorized_tile


class MatrixAlignment(Rule):
    """A core's tile is no multiple of the matrix unit's m, n or k: the rest of the unit works on padding.

    It applies to sketches that use matrix instructions (WMMA, AMX, VNNI), and to every matrix product where
    the device has a matrix unit for its dtype and is an NPU, whose products run nowhere else. Only iterators
    that are m, n or k by themselves are looked at.
    """

    name, kind, order = "rules.matrix-alignment", RuleKind.HEURISTIC, 20
    # Unit and dtype are those of the device and the task.
    hardware_basis = ("compute.UNIT.tiles.DTYPE",)

    def restrict(self, space: DesignSpace, profile: HardwareProfile) -> SpaceRestriction | None:
        """Cut rows off the unit's shape, if there are aligned ones."""
        unit = _unit_tile(space, profile)
        if unit is None:
            return None

        def sizes(sketch: Sketch, variable: Variable, subject: Subject) -> tuple[int, int] | None:
            """Elements that one step of the table stands for, and what they must be multiples of."""
            instruction = tensorized_tile(space.task, sketch)
            if instruction is None and profile.kind is not DeviceKind.NPU:
                return None
            axes = contraction_axes(sketch, subject.statement)
            axis = axes.get(sketch.variables.index(variable))
            if axis is None or 2 not in axes.values():
                return None
            return instruction[axis] if instruction else 1, unit[axis]

        return restrict_tiles(space, sizes, lambda table, size: inner_product(table) * size[0] % size[1] == 0)

    def reason(self, symbols: Mapping[str, float], profile: HardwareProfile) -> str:  # noqa: ARG002
        """Name the units."""
        units = [u.name for u in profile.compute if u.tile is not None or u.tiles is not None]
        known = ", ".join(f"compute.{name}" for name in units) or "none known"
        return f"a tile that is no multiple of the matrix unit's m, n, k ({profile.name}, {known})"


def _unit_tile(space: DesignSpace, profile: HardwareProfile) -> tuple[int, int, int] | None:
    """The m, n, k of the device's matrix unit for the task's operands, if it has one."""
    if not space.task.arg_dtypes:
        return None
    tiles = (unit.tile_of(space.task.arg_dtypes[0]) for unit in profile.compute)
    return next((tile for tile in tiles if tile is not None), None)
