"""What is written reads back as the same profile, and nothing is left half-written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from prune_engine.errors import OutputError
from prune_engine.hardware import Rate, host_profile, load_profile
from prune_engine.hardware.loader import parse_profile
from prune_engine.hardware.writer import profile_text, write_profile
from prune_engine.testing import make_profile

FILES = sorted((Path(__file__).parents[2] / "hardware_profiles").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_shipped_profiles_survive(path: Path) -> None:
    profile = load_profile(path)
    assert parse_profile(profile_text(profile), "x") == profile


def test_host_profile_survives() -> None:
    profile = host_profile(2)
    again = parse_profile(profile_text(profile, "one\ntwo"), "x")
    assert again == profile
    assert profile_text(profile, "one\ntwo").startswith("# one\n# two\nschema_version: 1\n")


@pytest.mark.parametrize("value", [1.0, 2e9, 3.514e11, 8.155e-07, 1 / 3, 1e22, 5e-324, 1.7e308, 123456.789])
def test_numbers_are_numbers_to_yaml(value: float) -> None:
    """PyYAML takes 2e9 and 1e22 for text."""
    profile = make_profile().model_copy(update={"clock_hz": Rate(value=value, source="invented")})
    text = profile_text(profile)
    assert parse_profile(text, "x").value("clock_hz") == value
    assert "!!float" not in text, "plain, as a person would write it"


def test_default_origin_is_not_repeated() -> None:
    assert re.search(r"origin", profile_text(make_profile())) is None


def test_file_is_whole_and_readable_by_all(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "x.yaml"
    write_profile(make_profile(), path)
    assert load_profile(path) == make_profile()
    assert path.stat().st_mode & 0o777 == 0o644
    write_profile(make_profile(cores=4), path)
    assert load_profile(path).value("core_count") == 4
    assert [p.name for p in path.parent.iterdir()] == ["x.yaml"]


def test_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"x.yaml: the profile cannot be written: .*--out"):
        write_profile(make_profile(), tmp_path / "file" / "x.yaml")


def test_failure_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.mkdir()  # a folder of that name: the last step, the renaming, fails
    with pytest.raises(OutputError):
        write_profile(make_profile(), path)
    assert [p.name for p in tmp_path.iterdir()] == ["x.yaml"]
