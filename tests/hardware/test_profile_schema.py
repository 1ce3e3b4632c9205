"""What a profile may say, how it is read, and what its digest depends on."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from prune_engine.hardware import Count, DeviceKind, HardwareProfile, Limits, Rate
from prune_engine.hardware.schema import REQUIRED_LIMITS, quantities
from prune_engine.testing import make_profile

CPU, GPU = make_profile(), make_profile(DeviceKind.GPU)


def changed(profile: HardwareProfile, **changes: object) -> HardwareProfile:
    """A validated copy (``model_copy`` would not validate)."""
    fields = {name: getattr(profile, name) for name in profile.model_fields_set}
    return HardwareProfile(**{**fields, **changes})


class TestNumbers:
    @pytest.mark.parametrize("value", [0, -1, 1.5, "32", True, None])
    def test_a_count_is_a_whole_number_above_zero(self, value: object) -> None:
        with pytest.raises(ValidationError):
            Count(value=value, source="x")

    @pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), "1e9", True, None])
    def test_a_rate_is_a_finite_number_above_zero(self, value: object) -> None:
        with pytest.raises(ValidationError):
            Rate(value=value, source="x")

    @pytest.mark.parametrize("kind", [Count, Rate])
    def test_a_number_has_a_source(self, kind: type) -> None:
        with pytest.raises(ValidationError, match="source"):
            kind(value=1)
        with pytest.raises(ValidationError, match="source"):
            kind(value=1, source="")

    def test_each_source_is_explained(self) -> None:
        with pytest.raises(ValidationError, match=r"core_count.source: source 'hearsay' is not explained"):
            changed(CPU, core_count=Count(value=1, source="hearsay"))


class TestProfile:
    def test_is_frozen(self) -> None:
        with pytest.raises(ValidationError, match="frozen"):
            CPU.name = "other"  # type: ignore[misc]

    def test_unknown_keys_are_refused(self) -> None:
        with pytest.raises(ValidationError, match="price"):
            changed(CPU, price=7)

    @pytest.mark.parametrize(("kind", "field"), [(k, f) for k, fields in REQUIRED_LIMITS.items() for f in fields])
    def test_limits_of_the_kind_are_spoken_about(self, kind: DeviceKind, field: str) -> None:
        given: dict[str, Count | None] = dict.fromkeys(REQUIRED_LIMITS[kind])
        assert changed(CPU, kind=kind, limits=Limits(**given)).kind is kind
        del given[field]
        with pytest.raises(ValidationError, match=f"limits.{field}: missing.* as null if it is unknown"):
            changed(CPU, kind=kind, limits=Limits(**given))

    def test_names_of_levels_and_units_are_distinct(self) -> None:
        with pytest.raises(ValidationError, match="two memory levels share a name"):
            changed(CPU, memory=(*CPU.memory, CPU.memory[0]))
        with pytest.raises(ValidationError, match="two compute units share a name"):
            changed(CPU, compute=CPU.compute * 2)

    def test_patterns_are_regular_expressions(self) -> None:
        with pytest.raises(ValidationError, match="not a regular expression"):
            changed(CPU, cpu_model_patterns=("EPYC (",))

    @pytest.mark.parametrize("name", ["A100", "", "a b", "../x"])
    def test_names_are_plain(self, name: str) -> None:
        with pytest.raises(ValidationError, match="name"):
            changed(CPU, name=name)


class TestValue:
    @pytest.mark.parametrize(
        ("path", "value"),
        [
            ("core_count", 2),
            ("limits.threads_per_block", 1024),
            ("memory.l2.capacity_bytes", 2 << 20),
            ("compute.fma.peak_flop_per_sec.float32", 2.0 * 2 * 2 * 16 * 2e9),
            ("compute.fma.peak_flop_per_sec.int4", None),
            ("memory.l7.capacity_bytes", None),
        ],
    )
    def test_dotted_paths(self, path: str, value: float | None) -> None:
        assert GPU.value(path) == value

    def test_unknown_is_none(self) -> None:
        assert make_profile(DeviceKind.GPU, threads_per_block=None).value("limits.threads_per_block") is None

    @pytest.mark.parametrize("path", ["limits.thread_per_block", "memroy.l2", "name", "limits", "combine"])
    def test_what_no_profile_has(self, path: str) -> None:
        with pytest.raises(KeyError, match=path):
            CPU.value(path)

    def test_every_number_is_at_its_path(self) -> None:
        paths = dict(quantities(GPU))
        assert len(paths) > 25
        assert all(GPU.value(path) == quantity.value for path, quantity in paths.items())

    def test_levels_and_units_by_name(self) -> None:
        assert CPU.level("dram") is CPU.memory[-1]
        assert CPU.unit("fma") is CPU.compute[0]
        assert CPU.level("l9") is CPU.unit("l9") is None


class TestDigest:
    def test_is_stable(self) -> None:
        """A stored measurement names its profile by this: it must not change with the schema or Python."""
        assert CPU.digest() == make_profile().digest() == "d1430d3e07e6a5ab890656cc"

    def test_prose_does_not_count(self) -> None:
        retold = changed(CPU, description="x", aliases=("y",), sources={**CPU.sources, "z": "z"})
        resourced = changed(retold, core_count=Count(value=2, source="z", origin="measured"))
        assert resourced.digest() == CPU.digest()

    @pytest.mark.parametrize(
        "other",
        [
            make_profile(cores=3),
            make_profile(name="other"),
            make_profile(vector_bytes=32),
            make_profile(vector_bytes=None),
            GPU,
            changed(CPU, combine="sum"),
            changed(CPU, memory=CPU.memory[1:]),
        ],
    )
    def test_numbers_and_structure_count(self, other: HardwareProfile) -> None:
        assert other.digest() != CPU.digest()

    def test_a_field_that_nobody_gave_does_not_count(self) -> None:
        assert changed(CPU, calibration=None, compiler_cpu=None).digest() == CPU.digest()
