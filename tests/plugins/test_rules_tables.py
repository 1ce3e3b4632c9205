"""Rules of the task space: which rows of which tables they cut, and that they never close a space."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kits.rules import gemm_space, nothing_in_it, space_of, tile, with_nests
from prune_engine_rules.matrix import MatrixAlignment
from prune_engine_rules.reductions import UnitReduction
from prune_engine_rules.tables import contraction_axes, item_bytes
from prune_engine_rules.vectors import InnermostTile, VectorLength

from prune_engine.hardware.levels import DeviceKind
from prune_engine.hardware.schema import ComputeUnit, HardwareProfile, Tile
from prune_engine.space import DesignSpace, Variable
from prune_engine.strategies import Rule
from prune_engine.symbols.expr import as_expr
from prune_engine.symbols.loop_nest import LoopNest, Role, Statement
from prune_engine.testing import make_profile, make_space, make_task

CPU, GPU, NPU = DeviceKind.CPU, DeviceKind.GPU, DeviceKind.NPU
AVX512 = make_profile(CPU, vector_bytes=64, vector_registers=32)
TASK_SPACE_RULES = [UnitReduction(), MatrixAlignment(), VectorLength(), InnermostTile()]


def matrix_profile(kind: DeviceKind = NPU, dtype: str = "float16", mnk: tuple[int, int, int] | None = (16, 16, 16)):
    tiles = {dtype: None if mnk is None else Tile(m=mnk[0], n=mnk[1], k=mnk[2], source="invented")}
    unit = ComputeUnit(name="cube", count=None, tiles=tiles, peak_flop_per_sec={})
    profile = make_profile(kind)
    return profile.model_copy(update={"compute": (*profile.compute, unit)})


def cut_of(rule: Rule, space: DesignSpace, profile: HardwareProfile) -> dict[str, Variable]:
    """The variables of sketch 0 that the rule cut, by name, as it leaves them."""
    restriction = rule.restrict(space, profile)
    if restriction is None:
        return {}
    left = space.restrict(restriction).sketches[0].variables
    return {left[v].name: left[v] for s, v in restriction.keep if s == 0}


def rows(variable: Variable) -> np.ndarray:
    return variable.table[variable.rows]


def tensorized(m: int, n: int, k: int) -> LoopNest:
    statement = Statement("matmul_o", Role.UPDATE, (), (), (), 2 * m * n * k, as_expr(0), tile=(m, n, k))
    return replace(nothing_in_it(), statements=(statement,))


class TestUnitReduction:
    def test_matrix_instructions_are_tiles_of_their_own(self) -> None:
        plain, tensor = gemm_space(64, 64, 64), gemm_space(64, 64, 64, nest=tensorized(16, 16, 16))
        half = replace(plain.task, arg_dtypes=("float16",) * 3)  # such instructions take narrow types
        plain, tensor = replace(plain, task=half), replace(tensor, task=half)
        assert cut_of(UnitReduction(), plain, AVX512)
        assert not cut_of(UnitReduction(), tensor, AVX512)

    def test_single_steps_inside_go(self) -> None:
        cut = cut_of(UnitReduction(), gemm_space(k=64), AVX512)
        assert set(cut) == {"k"}
        assert rows(cut["k"])[:, 1].tolist() == [64, 32, 16, 8, 4, 2]

    def test_what_counts_are_all_inner_parts(self) -> None:
        space = space_of(tile("k", 64, "R0 R1 R2"))
        left = rows(cut_of(UnitReduction(), space, make_profile(GPU))["k"])
        assert [64, 1, 1] not in left.tolist()
        assert [4, 16, 1] in left.tolist()

    @pytest.mark.parametrize(("extent", "is_cut"), [(7, False), (8, True), (1, False)])
    def test_windows_are_left_alone(self, extent: int, is_cut: bool) -> None:
        assert bool(cut_of(UnitReduction(), gemm_space(k=extent), AVX512)) is is_cut

    def test_the_longest_reduction_counts(self) -> None:
        space = space_of(tile("c", 64, "R0 R1"), tile("h", 9, "R0 R1"), tile("w", 9, "R0 R1", statement="other"))
        assert set(cut_of(UnitReduction(), space, AVX512)) == {"c", "w"}

    def test_a_prime_that_no_tile_divides_is_kept(self) -> None:
        assert not cut_of(UnitReduction(), gemm_space(k=127), AVX512)


class TestVectorLength:
    @pytest.mark.parametrize(
        ("last_two", "is_kept"),
        [
            ((1, 16), True),
            ((1, 32), True),
            ((1, 4), True),
            ((1, 14), True),
            ((1, 8), True),
            ((1, 2), False),
            ((8, 1), True),
            ((2, 1), False),
            ((1, 7), False),
            ((1, 1), False),
        ],
        ids=str,
    )
    def test_runs(self, last_two: tuple[int, int], is_kept: bool) -> None:
        extent = 224 if 7 in last_two or 14 in last_two else 64
        left = rows(cut_of(VectorLength(), gemm_space(n=extent), AVX512)["j"])
        assert (list(last_two) in left[:, 2:].tolist()) is is_kept

    def test_lanes_follow_profile_and_dtype(self) -> None:
        def shortest(profile: HardwareProfile, dtype: str = "float32") -> int:
            cut = cut_of(VectorLength(), gemm_space(n=64, dtype=dtype), profile)
            return int(rows(cut["j"])[:, 2:].max(axis=1).min()) if cut else 1

        assert shortest(AVX512) == 4
        assert shortest(make_profile(CPU, vector_bytes=32)) == 2
        assert shortest(make_profile(CPU, vector_bytes=16)) == 1
        assert shortest(AVX512, "float16") == 8
        assert shortest(AVX512, "int8") == 16

    def test_an_odd_extent_keeps_what_there_is(self) -> None:
        assert not cut_of(VectorLength(), gemm_space(n=7), AVX512)

    def test_only_the_contiguous_iterator_is_cut(self) -> None:
        assert set(cut_of(VectorLength(), gemm_space(), AVX512)) == {"j"}

    @pytest.mark.parametrize(
        "profile",
        [make_profile(GPU, vector_bytes=64), make_profile(CPU, vector_bytes=None)],
        ids=["GPU", "unknown"],
    )
    def test_devices_that_say_nothing_of_it(self, profile: HardwareProfile) -> None:
        assert not cut_of(VectorLength(), gemm_space(), profile)

    def test_matrix_instructions_have_their_own_shape(self) -> None:
        space = gemm_space(dtype="int8", nest=tensorized(1, 16, 4))
        assert not cut_of(VectorLength(), space, AVX512)
        assert not cut_of(InnermostTile(), space, narrow(1))
        assert cut_of(VectorLength(), gemm_space(dtype="int8"), AVX512)
        assert cut_of(InnermostTile(), gemm_space(dtype="int8"), narrow(1))

    def test_no_nest_is_read_for_a_dtype_without_matrix_instructions(self) -> None:
        space = gemm_space()
        unread = replace(space, sketches=(replace(space.sketches[0], nests=object()),))  # type: ignore[arg-type]
        assert cut_of(VectorLength(), unread, AVX512)


def narrow(registers: int | None, vector_bytes: int | None = 16) -> HardwareProfile:
    return make_profile(CPU, vector_bytes=vector_bytes, vector_registers=registers)


class TestInnermostTile:
    @pytest.mark.parametrize(("registers", "longest"), [(2, 8), (4, 16), (8, 32)])
    def test_longer_than_all_registers_goes(self, registers: int, longest: int) -> None:
        cut = cut_of(InnermostTile(), gemm_space(n=64), narrow(registers))
        assert set(cut) == {"j"}
        assert rows(cut["j"])[:, -1].max() == longest

    @pytest.mark.parametrize("profile", [narrow(16), narrow(None), narrow(2, None), make_profile(GPU)])
    def test_nothing_to_cut(self, profile: HardwareProfile) -> None:
        assert not cut_of(InnermostTile(), gemm_space(n=64), profile)


class TestMatrixAlignment:
    def test_tiles_off_the_cube_go(self) -> None:
        cut = cut_of(MatrixAlignment(), gemm_space(64, 96, 128, dtype="float16"), matrix_profile())
        assert set(cut) == {"i", "j", "k"}
        for variable in cut.values():
            inner = variable.table[:, 1:].prod(axis=1)
            assert set(variable.rows) == set(np.flatnonzero(inner % 16 == 0))

    def test_each_axis_has_its_own_size(self) -> None:
        cut = cut_of(MatrixAlignment(), gemm_space(64, 64, 64, dtype="float16"), matrix_profile(mnk=(4, 8, 32)))
        smallest = {name: int(rows(v)[:, 1:].prod(axis=1).min()) for name, v in cut.items()}
        assert smallest == {"i": 4, "j": 8, "k": 32}

    def test_a_table_without_aligned_rows_is_kept(self) -> None:
        cut = cut_of(MatrixAlignment(), gemm_space(24, 64, 64, dtype="float16"), matrix_profile())
        assert set(cut) == {"j", "k"}

    @pytest.mark.parametrize(
        ("profile", "dtype"),
        [
            (matrix_profile(), "float32"),
            (matrix_profile(mnk=None), "float16"),
            (make_profile(NPU), "float16"),
            (matrix_profile(GPU), "float16"),
            (matrix_profile(CPU), "float16"),
        ],
        ids=["other dtype", "unknown shape", "no unit", "GPU without tensor instructions", "CPU without"],
    )
    def test_where_no_unit_is_used(self, profile: HardwareProfile, dtype: str) -> None:
        assert not cut_of(MatrixAlignment(), gemm_space(dtype=dtype), profile)

    def test_tables_of_matrix_instructions_count_instructions(self) -> None:
        aligned = gemm_space(8, 8, 8, dtype="float16", nest=tensorized(16, 16, 16))
        assert not cut_of(MatrixAlignment(), aligned, matrix_profile(GPU))
        halves = gemm_space(8, 8, 8, dtype="float16", nest=tensorized(8, 16, 16))
        cut = cut_of(MatrixAlignment(), halves, matrix_profile(GPU))
        assert set(cut) == {"i"}
        assert rows(cut["i"])[:, 1:].prod(axis=1).min() == 2

    def test_batches_and_windows_are_nobodys_axis(self) -> None:
        space = space_of(
            tile("b", 12, "S0 S1"),
            tile("i", 32, "S0 S1"),
            tile("j", 32, "S0 S1", is_contiguous=True),
            tile("c", 32, "R0 R1"),
            tile("one", 1, "R0 R1"),
            tile("c", 32, "R0 R1", statement="another"),
        )
        assert dict(contraction_axes(space.sketches[0], "matmul")) == {2: 1, 3: 2}

    def test_without_a_reduction_there_is_no_product(self) -> None:
        space = space_of(
            tile("i", 32, "S0 S1"),
            tile("j", 32, "S0 S1", is_contiguous=True),
            task=replace(make_task(), arg_dtypes=("float16",) * 3),
        )
        assert not cut_of(MatrixAlignment(), space, matrix_profile())


PROFILES = [AVX512, make_profile(GPU), matrix_profile(), narrow(1, 16)]


@pytest.mark.parametrize("rule", TASK_SPACE_RULES, ids=lambda r: r.name)
class TestAll:
    def test_no_table_is_ever_emptied(self, rule: Rule) -> None:
        for extents in [(1, 1, 1), (7, 7, 7), (13, 127, 31), (512, 512, 512), (3, 5, 1000)]:
            for profile in PROFILES:
                for variable in cut_of(rule, gemm_space(*extents, dtype="float16"), profile).values():
                    assert variable.size

    def test_what_others_left_is_never_emptied(self, rule: Rule) -> None:
        for profile in PROFILES:
            space = gemm_space(dtype="float16")
            restriction = rule.restrict(space, profile)
            if restriction is None:
                continue
            opposite = {key: ~keep for key, keep in restriction.keep.items()}
            leftover = space.restrict(type(restriction)(opposite))
            assert rule.restrict(leftover, profile) is None

    def test_tiles_of_nobody_knows_what_are_left_alone(self, rule: Rule) -> None:
        space, sketches = make_space(), []
        for sketch in space.sketches:
            unknown = tuple(replace(variable, subject=None) for variable in sketch.variables)
            sketches.append(with_nests(replace(sketch, variables=unknown)))
        for profile in PROFILES:
            assert rule.restrict(replace(space, sketches=tuple(sketches)), profile) is None

    def test_sketches_that_could_not_be_read_are_left_alone(self, rule: Rule) -> None:
        space = gemm_space(dtype="float16")
        opaque = replace(space, sketches=tuple(replace(s, nests=None) for s in space.sketches))
        for profile in PROFILES:
            assert rule.restrict(opaque, profile) is None


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("float32", 4), ("int8", 1), ("bfloat16", 2), ("bool", 1), ("int4", 1), ("float8_e4m3fn", 1)],
)
def test_bytes_of_a_dtype(dtype: str, size: int) -> None:
    assert item_bytes(dtype) == size
