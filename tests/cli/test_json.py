"""What verbs print with --json is as their schemas say: those that need no run. Others: see the verbs' own tests.

The fixtures that run the command line hold whatever is printed with --json against its schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from kits.schemas import check_printed, complaints, verb_of

from prune_engine.schemas.verbs import schema_name

Inside = Callable[..., "tuple[int, str, str]"]
GEMM = "gemm:16x16x16"


@pytest.mark.parametrize(
    "words",
    [
        ["plugins"],
        ["profiles", "list"],
        ["profiles", "show", "auto"],
        ["profiles", "show", "h100"],
        ["profiles", "check", "h100", "huawei-ascend-910b2"],
        ["profiles", "diff", "a100", "h100"],
        ["profiles", "new", "acme/x1", "--kind", "gpu"],
        ["plugins", "new", "acme"],
        ["policy", "show"],
        ["policy", "diff", "current", "current", "--disable-rule", "rules.unit-reduction"],
        ["policy", "pin", "policy.lock"],
        ["library", "list", "--builtin"],
        ["spaces", GEMM],
        ["prune", GEMM],
        ["candidates", GEMM, "-n", "4"],
        ["candidates", GEMM, "-n", "4", "--out", "found.jsonl"],
        ["explain", GEMM, "--why-not", "3.unroll_explicit=0"],
    ],
    ids=lambda words: "-".join(words[:3]),
)
def test_one_value_on_stdout(inside: Inside, words: list[str]) -> None:
    code, out, _ = inside(*words, "--json")
    assert code == 0
    assert complaints(schema_name(str(verb_of(words))), json.loads(out)) == []


def test_candidates_are_those_of_the_lines(inside: Inside) -> None:
    _, lines, _ = inside("candidates", GEMM, "-n", "3")
    _, out, _ = inside("candidates", GEMM, "-n", "3", "--json")
    record = json.loads(out)
    assert record["candidates"] == [json.loads(line) for line in lines.splitlines()]
    assert (record["n_candidates"], record["file"]) == (3, None)


class TestErrors:
    def test_is_one_object_with_its_parts(self, inside: Inside) -> None:
        code, out, err = inside("profiles", "show", "h101", "--json")
        assert (code, out) == (2, "")
        told = json.loads(err)
        assert told.pop("expected").startswith("'auto', the path of a YAML file, or one of: ")
        assert told.pop("message").startswith("hardware profile: unknown hardware profile; got 'h101'; expected ")
        assert told == {
            "event": "error",
            "error": "ProfileError",
            "problem": "unknown hardware profile",
            "who": "hardware profile",
            "got": "'h101'",
            "remedy": told["remedy"],
            "exit_code": 2,
        }

    def test_is_text_without_json(self, inside: Inside) -> None:
        code, _, err = inside("profiles", "show", "h101")
        assert code == 2
        assert err.startswith("error: hardware profile: unknown hardware profile; got 'h101'")

    def test_names_options_as_they_are_typed(self, inside: Inside, tmp_path: Path) -> None:
        _, _, text = inside("run", "absent")
        _, _, err = inside("run", "absent", "--json")
        assert f"error: {json.loads(err)['message']}\n" == text


class TestTheCheckItself:
    """The fixtures' check fails where it should."""

    def test_field_that_no_schema_names(self) -> None:
        value = {"file": "a", "run_id": "b", "headline": "c", "n_bytes": 1, "surprise": 1}
        with pytest.raises(AssertionError, match=r"report: .*surprise"):
            check_printed(["report", "--json"], 0, json.dumps(value), "")

    def test_event(self) -> None:
        with pytest.raises(AssertionError, match="event"):
            check_printed(["tune", "--json"], 0, "", '{"event": "error"}')

    def test_without_json_anything_goes(self) -> None:
        check_printed(["report"], 0, "words", "words")
