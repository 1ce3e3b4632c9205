"""Profiles as rows: nothing is left out, units are right, unknown is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from prune_engine.hardware import DeviceKind, load_profile
from prune_engine.hardware.fields import differences, number_rows, unit_of
from prune_engine.hardware.schema import Tile, quantities
from prune_engine.testing import make_profile

FILES = sorted((Path(__file__).parents[2] / "hardware_profiles").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_number_has_its_row(path: Path) -> None:
    profile = load_profile(path)
    rows = {row.field: row for row in number_rows(profile)}
    for field, quantity in quantities(profile):
        if not isinstance(quantity, Tile):
            assert rows[field].value == quantity.value
        assert rows[field].source == profile.sources[quantity.source]
        assert rows[field].origin == quantity.origin


def test_units() -> None:
    assert unit_of("memory.l2.bandwidth_bytes_per_sec") == "bytes/s"
    assert unit_of("memory.l2.capacity_bytes") == "bytes"
    assert unit_of("compute.fma.peak_flop_per_sec.float32") == "flop/s"
    assert (unit_of("launch_secs"), unit_of("clock_hz"), unit_of("core_count")) == ("s", "Hz", "")


def test_unknown_is_a_row_and_what_does_not_apply_is_none() -> None:
    rows = {row.field: row.value for row in number_rows(make_profile(vector_bytes=None))}
    assert rows["limits.vector_bytes"] is None
    assert rows["launch_secs"] is None
    assert "limits.threads_per_block" not in rows, "a processor has no blocks"
    assert "memory.l2.ways" not in rows, "nobody asked"


def test_matrix_shapes_are_rows() -> None:
    ascend = load_profile(next(path for path in FILES if "ascend" in path.stem))
    rows = {row.field: (row.value, row.unit) for row in number_rows(ascend)}
    assert rows["compute.cube.tiles.int8"] == ("16×16×32", "m×n×k")


class TestDifferences:
    def test_none_between_equal_profiles(self) -> None:
        assert differences(make_profile(), make_profile(name="other")) == []

    def test_ratio_is_b_by_a(self) -> None:
        rows = {row.field: row for row in differences(make_profile(cores=2), make_profile(cores=8))}
        assert (rows["core_count"].a, rows["core_count"].b, rows["core_count"].ratio) == (2, 8, 4.0)
        assert rows["core_count"].only_in is None
        assert "clock_hz" not in rows

    def test_unknown_and_absent_are_told_apart(self) -> None:
        rows = {
            row.field: row for row in differences(make_profile(vector_bytes=None), make_profile(DeviceKind.GPU))
        }
        assert (rows["limits.vector_bytes"].a, rows["limits.vector_bytes"].only_in) == (None, None)
        assert rows["limits.vector_bytes"].ratio is None
        assert rows["limits.threads_per_block"].only_in == "b"
        assert rows["limits.vector_registers"].only_in == "a"
        assert (rows["kind"].a, rows["kind"].b, rows["kind"].ratio) == ("cpu", "gpu", None)
