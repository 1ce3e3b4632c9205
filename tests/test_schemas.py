"""Published JSON Schemas: they follow from the types, and every verb has one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main
import yaml
from jsonschema import Draft202012Validator
from kits.schemas import complaints

from prune_engine.cli.app import make_app
from prune_engine.errors import ConfigError
from prune_engine.schemas import decision_schema, reference, schema, schema_names
from prune_engine.schemas.verbs import PRINTED, made_schemas, schema_name
from prune_engine.schemas.writing import schema_text

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "prune_engine" / "schemas"
PROFILES = sorted((ROOT / "hardware_profiles").glob("*.yaml"))
A100 = yaml.safe_load((ROOT / "hardware_profiles" / "nvidia-a100-sxm-80gb.yaml").read_text())


def verbs(command: object, name: str = "") -> Iterator[tuple[str, set[str]]]:
    """Every verb with its options, groups that do something themselves too."""
    inner = getattr(command, "commands", {})
    options = {text for one in getattr(command, "params", ()) for text in one.opts}
    if name and (not inner or getattr(command, "invoke_without_command", False)):
        yield name, options
    for word, one in inner.items():
        yield from verbs(one, f"{name} {word}".strip())


VERBS = dict(verbs(typer.main.get_command(make_app())))


@pytest.mark.parametrize("name", sorted(made_schemas()))
def test_file_follows_from_the_types(name: str) -> None:
    text = (FOLDER / f"{name}.schema.json").read_text(encoding="utf-8")
    assert text == schema_text(made_schemas()[name]), "write it again: python -m prune_engine.schemas.writing"


@pytest.mark.parametrize("name", schema_names())
def test_is_a_schema_of_2020_12(name: str) -> None:
    found = schema(name)
    assert found["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert found["title"]
    Draft202012Validator.check_schema(found)


def test_there_are_no_others() -> None:
    assert set(schema_names()) == {*made_schemas(), "decision"}
    assert decision_schema() == schema("decision")
    with pytest.raises(ConfigError, match=r"no such schema; got 'nothing'; expected .*profiles-list"):
        schema("nothing")


def test_every_verb_prints_json_of_a_published_schema() -> None:
    assert set(PRINTED) == set(VERBS)
    assert [name for name, options in VERBS.items() if "--json" not in options] == []
    assert {schema_name(name) for name in VERBS} <= set(schema_names())


def test_page_is_written_from_the_types() -> None:
    page = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    hint = "write it again: python -m prune_engine.schemas.reference > docs/reference/json.md"
    assert page == reference.page(), hint


class TestProfile:
    """The schema of profiles takes what the loader takes, as far as a schema can tell."""

    @pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
    def test_shipped(self, path: Path) -> None:
        assert complaints("profile", yaml.safe_load(path.read_text())) == []

    @pytest.mark.parametrize(
        ("change", "where"),
        [
            ({"clock": 1}, "$"),
            ({"kind": "tpu"}, "$.kind"),
            ({"clock_hz": {"value": -1.0, "source": "XLA"}}, "$.clock_hz"),
            ({"clock_hz": {"value": 1.0e9}}, "$.clock_hz"),
            ({"core_count": 108}, "$.core_count"),
            ({"memory": None}, "$.memory"),
            ({"schema_version": 2}, "$.schema_version"),
        ],
    )
    def test_mistakes(self, change: dict[str, object], where: str) -> None:
        assert [line.partition(":")[0] for line in complaints("profile", {**A100, **change})] == [where]

    def test_is_of_the_dialect_that_editors_know(self) -> None:
        found = schema("profile")
        assert found["properties"]["launch_secs"]["description"].startswith("cost of starting a kernel")
        assert json.loads(json.dumps(found)) == found
