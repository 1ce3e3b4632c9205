"""What levels are called, matrix shapes, and what renaming and new fields leave as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from prune_engine.hardware import Count, DeviceKind, HardwareProfile, Tile, level_names, load_profile
from prune_engine.hardware.loader import parse_profile
from prune_engine.testing import make_profile

FOLDER = Path(__file__).parents[2] / "hardware_profiles"
CPU, GPU = make_profile(), make_profile(DeviceKind.GPU)


def renamed(profile: HardwareProfile, index: int, name: str) -> HardwareProfile:
    levels = list(profile.memory)
    levels[index] = levels[index].model_copy(update={"name": name})
    fields = {field: getattr(profile, field) for field in profile.model_fields_set}
    return HardwareProfile(**{**fields, "memory": tuple(levels)})


class TestLevelNames:
    def test_former_name_of_the_data_cache_is_understood(self) -> None:
        """Profiles written before said l1; rules ask for l1d."""
        new = renamed(CPU, 0, "l1d")
        for profile in (CPU, new):
            for name in ("l1", "l1d"):
                level = profile.level(name)
                assert level is not None
                assert profile.value(f"memory.{name}.capacity_bytes") == 48 << 10
        assert new.digest() == CPU.digest(), "a renamed level is the same device"

    def test_l1_of_a_gpu_is_no_data_cache_of_a_cpu(self) -> None:
        assert GPU.level("l1") is None
        gpu = renamed(GPU, 1, "l1")
        assert gpu.level("l1") is gpu.memory[1]
        assert gpu.level("l1d") is None

    def test_both_names_of_one_level_are_one_too_many(self) -> None:
        with pytest.raises(ValidationError, match="two memory levels share a name"):
            HardwareProfile(
                **{
                    **{field: getattr(CPU, field) for field in CPU.model_fields_set},
                    "memory": (CPU.memory[0], *renamed(CPU, 0, "l1d").memory),
                }
            )

    @pytest.mark.parametrize(("profile", "name"), [(CPU, "shared"), (CPU, "l4"), (GPU, "l1d"), (GPU, "ub")])
    def test_other_names_are_refused(self, profile: HardwareProfile, name: str) -> None:
        """A level that no rule looks up would be silently without effect."""
        with pytest.raises(ValidationError, match=f"has no memory level {name}. It may have: "):
            renamed(profile, 0, name)

    def test_npus_have_their_vendors_names(self) -> None:
        assert level_names(DeviceKind.NPU) == ()
        assert load_profile(FOLDER / "huawei-ascend-910b2.yaml").level("l0a") is not None


class TestLimitOfALevel:
    def test_usable_bytes_before_capacity(self) -> None:
        ascend = load_profile(FOLDER / "huawei-ascend-910b2.yaml")
        limits = {m.name: m.limit_bytes for m in ascend.memory if m.is_hard_limit}
        assert limits["ub"] == (192 - 8) << 10, "the runtime takes 8 KiB"
        assert limits["l0c"] == 128 << 10, "all of it"

    def test_unknown_stays_unknown(self) -> None:
        kunlun = load_profile(FOLDER / "baidu-kunlun-k200.yaml")
        level = kunlun.memory[0].model_copy(update={"capacity_bytes": None})
        assert level.limit_bytes is None


class TestMatrixShapes:
    def test_by_dtype(self) -> None:
        cube = load_profile(FOLDER / "huawei-ascend-910b2.yaml").unit("cube")
        assert cube is not None
        # Published as m, k, n = 16, 32, 16.
        assert cube.tile_of("int8") == (16, 16, 32)
        assert cube.tile_of("float16") == (16, 16, 16)
        assert cube.tile_of("float64") is None

    def test_one_shape_for_all_dtypes(self) -> None:
        tensor = load_profile(FOLDER / "nvidia-a100-sxm-80gb.yaml").unit("tensor")
        assert tensor is not None
        assert tensor.tile_of("int8") == tensor.tile_of("float16") == (16, 16, 16)
        other = Tile(m=8, n=8, k=32, source="T6")
        mixed = tensor.model_copy(update={"tiles": {"int4": other, "int8": None}})
        assert mixed.tile_of("int4") == (8, 8, 32)
        assert mixed.tile_of("int8") is None, "said to be unknown"
        assert mixed.tile_of("float16") == (16, 16, 16)

    def test_source_must_be_explained(self) -> None:
        text = (
            (FOLDER / "huawei-ascend-910b2.yaml")
            .read_text()
            .replace("k: 32, source: INI", "k: 32, source: HEARSAY")
        )
        with pytest.raises(Exception, match=r"compute.0.tiles.int8.source: source 'HEARSAY' is not explained"):
            parse_profile(text, "x.yaml")


class TestDigestsOutliveTheSchema:
    def test_of_a_profile_written_before(self) -> None:
        """Taken from the first release of the schema, when these fields did not exist."""
        path = FOLDER / "nvidia-a100-sxm-80gb.yaml"
        assert load_profile(path).digest() == "4f07e958d228a3c3d8b9df54"

    def test_new_numbers_count(self) -> None:
        level = CPU.memory[0].model_copy(update={"ways": Count(value=8, source="invented")})
        more = CPU.model_copy(update={"memory": (level, *CPU.memory[1:])})
        assert more.digest() != CPU.digest()
