"""Templates: every field with unit and meaning; valid, or refused for want of sources alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from prune_engine.errors import ProfileError
from prune_engine.hardware import DeviceKind, load_profile, reference
from prune_engine.hardware.fields import number_rows
from prune_engine.hardware.loader import parse_profile
from prune_engine.hardware.meanings import MEANINGS, field_notes
from prune_engine.hardware.schema import REQUIRED_LIMITS
from prune_engine.hardware.template import template, template_like

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "hardware_profiles").glob("*.yaml"))


@pytest.mark.parametrize("kind", DeviceKind)
class TestEmpty:
    def test_is_a_profile_that_knows_nothing(self, kind: DeviceKind) -> None:
        profile = parse_profile(template("acme-x1", kind, "ACME X1"), "x")
        assert (profile.name, profile.kind, profile.description) == ("acme-x1", kind, "ACME X1")
        rows = number_rows(profile)
        assert rows
        assert all(row.value is None for row in rows)

    def test_explains_each_field_once(self, kind: DeviceKind) -> None:
        text = template("acme-x1", kind, "ACME X1")
        assert text.count("[bytes] of one instance") == 1
        for field in ("clock_hz", "capacity_bytes", "peak_flop_per_sec", *REQUIRED_LIMITS[kind]):
            line = next(line for line in text.splitlines() if line.strip().startswith(f"{field}:"))
            assert "  # [" in line or field in ("vector_registers",) or "threads" in field or "registers" in field


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_like_another_wants_sources_and_nothing_else(path: Path) -> None:
    other = load_profile(path)
    text = template_like("acme-x1", other, "ACME X1")
    with pytest.raises(ProfileError) as told:
        parse_profile(text, "x.yaml")
    problems = [problem for _, problem, _ in told.value.mistakes]
    assert problems == [f"sources.{tag}: no source is given" for tag in other.sources]
    filled = parse_profile(text.replace(": ''\n", ": ours\n"), "x.yaml")
    fields = [(row.field, row.value) for row in number_rows(filled)]
    assert fields == [
        (row.field, row.value) for row in number_rows(other) if not row.field.startswith("calibration")
    ]
    assert (filled.name, filled.aliases, filled.cpu_model_patterns) == ("acme-x1", (), ())


def records(model: type[BaseModel]) -> set[str]:
    return set(model.model_fields)


@pytest.mark.parametrize("record", MEANINGS, ids=lambda record: record.__name__)
def test_every_field_has_a_meaning(record: type[BaseModel]) -> None:
    assert set(MEANINGS[record]) == records(record)


def test_every_number_of_the_shipped_profiles_is_a_field_of_the_page() -> None:
    known = {note.path.rpartition(".")[2] for note in field_notes()}
    for path in SHIPPED:
        for row in number_rows(load_profile(path)):
            parts = row.field.split(".")
            assert known & {*parts[-2:]}, row.field


def test_page_is_written_from_the_schema() -> None:
    page = (ROOT / "docs" / "reference" / "profile.md").read_text(encoding="utf-8")
    hint = "write it again: python -m prune_engine.hardware.reference > docs/reference/profile.md"
    assert page == reference.page(), hint
