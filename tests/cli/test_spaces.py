"""`prune-engine spaces`, as a user types it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import typer.main

from prune_engine.cli.app import make_app

Inside = Callable[..., "tuple[int, str, str]"]
SKYLAKE = "llvm -mcpu=skylake-avx512"


def record_of(inside: Inside, *arguments: object) -> dict:
    code, out, err = inside("spaces", *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def test_workload_in_full(inside: Inside) -> None:
    record = record_of(inside, "gemm:512x512x512", "--target", SKYLAKE, "--threads", 2, "--profile", "xeon-8272cl")
    assert record["target"]["num-cores"] == 2
    assert record["profile"] == "intel-xeon-8272cl"
    (task,) = record["tasks"]
    assert task["size"] == 3_704_400
    assert [len(task["sketches"]), record["totals"]["n_interpreted"]] == [3, 3]
    assert record["totals"]["interpreted_share"] == 1.0
    for sketch in task["sketches"]:
        assert sketch["is_interpreted"]
        assert sketch["size"] == math.prod(v["rows"] for v in sketch["variables"]) == 1_234_800
        assert sketch["size_after"] == math.prod(v["rows_after"] for v in sketch["variables"])
        tile = sketch["variables"][1]
        assert (tile["name"], tile["kind"], tile["rows"]) == ("1.matmul.1", "tile", 210)
        assert tile["subject"]["levels"] == ["S0", "S1", "S2", "S3"]
        assert tile["subject"]["is_contiguous"]
    rules = task["rules"]
    assert rules[0]["size_before"] == task["size"]
    assert rules[-1]["size_after"] == task["size_after"] == sum(s["size_after"] for s in task["sketches"])
    assert all(a["size_after"] == b["size_before"] for a, b in pairwise(rules))
    unit = next(rule for rule in rules if rule["rule"] == "rules.unit-reduction")
    assert unit["size_after"] == unit["size_before"] * 6 // 7  # one of seven ways to split 512 has a 1 inside
    code, out, _ = inside("spaces", "gemm:512x512x512", "--target", SKYLAKE, "--profile", "xeon-8272cl")
    assert code == 0
    for text in (
        "1,234,800 candidates, interpreted",
        "rules.unit-reduction",
        "1.matmul.1",
        "3 of 3 sketches (100 %)",
        "sketches 0, 1, 2: the same variables",
        "  tiled SSRSRS; cache write to global at S1\n",
        "  tiled SSRSRS; cache write to global at S0\n",
    ):
        assert text in out
    assert out.count("1.matmul.1") == 1, "one table for three sketches"
    assert not [line for line in out.splitlines() if line.endswith(" ")]


def test_structures_of_reductions(inside: Inside) -> None:
    (task,) = record_of(inside, "softmax:8x128", "--target", SKYLAKE)["tasks"]
    structures = [sketch["structure"] for sketch in task["sketches"]]
    assert structures[0] == []
    assert ["rfactor of T_softmax_maxelem.v_k (R0)"] in structures
    assert len({str(structure) for structure in structures}) == len(structures)


def test_rule_left_out(inside: Inside) -> None:
    options = ["gemm:64x64x64", "--target", SKYLAKE, "--disable-rule", "rules.unit-reduction"]
    rules = {rule["rule"] for rule in record_of(inside, *options)["tasks"][0]["rules"]}
    assert "rules.unit-reduction" not in rules
    assert "rules.vector-length" in rules


def test_model_has_a_row_a_task_and_one_in_full(inside: Inside, tiny_model: Path) -> None:
    options = [tiny_model, "--dim", "batch=4", "--target", SKYLAKE]
    record = record_of(inside, *options)
    assert [task["number"] for task in record["tasks"]] == [1, 2]
    assert record["totals"]["size"] == sum(task["size"] for task in record["tasks"])
    names = [task["name"] for task in record["tasks"]]
    _, table, _ = inside("spaces", *options)
    assert all(name in table for name in names)
    assert "variable" not in table
    for wanted in ("2", names[1], record["tasks"][1]["task_id"][:8]):
        code, out, _ = inside("spaces", *options, "--task", wanted)
        assert code == 0
        assert f"task 2: {names[1]}" in out
        assert names[0] not in out.replace(names[1], "")
        assert "variable" in out


def test_default_target_is_the_profiles(inside: Inside) -> None:
    record = record_of(inside, "gemm:64x64x64", "--profile", "h200")
    assert (record["target"]["kind"], record["target"]["arch"]) == ("cuda", "sm_90a")
    record = record_of(inside, "gemm:64x64x64", "--profile", "graviton2")
    assert (record["target"]["mcpu"], record["target"]["num-cores"]) == ("neoverse-n1", 64)
    record = record_of(inside, "gemm:64x64x64", "--profile", "ascend-910b")
    assert record["target"]["kind"] == "llvm"


def test_default_profile_is_the_targets(inside: Inside) -> None:
    assert record_of(inside, "gemm:64x64x64", "--target", "cuda/t4")["profile"] == "nvidia-t4"
    record = record_of(inside, "gemm:64x64x64", "--target", "cuda/rtx-3080")
    assert record["profile"] == "target"
    assert "no profile has its name" in record["profile_found"]


def test_sketches_nobody_reads_say_why(inside: Inside) -> None:
    record = record_of(inside, "gemm:64x64x64", "--profile", "mi250x")
    (sketch,) = record["tasks"][0]["sketches"]
    assert not sketch["is_interpreted"]
    assert sketch["opaque_reason"] == "schedules for rocm are not read"
    assert record["totals"]["interpreted_share"] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["gem:64x64x64"], 2, "gemm"),
        (["gemm:64x64"], 2, "expected gemm:MxNxK"),
        (["absent.onnx"], 3, "absent.onnx"),
        (["gemm:8x8x8", "--target", "cuda/a10000"], 2, "near it are .*cuda/a100"),
        (["gemm:8x8x8", "--profile", "a1000"], 2, "unknown hardware profile"),
        (["gemm:8x8x8", "--task", "7"], 2, "--task: no such task; got '7'; expected one of: 1 .gemm:8x8x8"),
        (["gemm:8x8x8", "--shape", "A=8x8"], 2, "fixed shapes"),
        (["gemm:8x8x8", "--disable-rule", "no"], 2, "error: --disable-rule: unknown rule"),
        (["gemm:8x8x8", "--block", "no"], 2, "error: --block: no plugin of this name.*'no'.*explore"),
        (["gemm:8x8x8", "--threads", 0], 2, "greater than or equal"),
    ],
)
def test_bad_input(inside: Inside, arguments: list[object], code: int, says: str) -> None:
    found, out, err = inside("spaces", *arguments)
    assert (found, out) == (code, "")
    assert re.search(says, " ".join(err.split()))


PLUGIN = """
from prune_engine.hookspecs import hookimpl
from prune_engine.strategies import Rule
print("a plugin that prints")
class Failing(Rule):
    name = "own.failing"
    def restrict(self, space, profile):
        raise RuntimeError("planted")
@hookimpl
def register_rules():
    return [Failing()]
"""


def test_what_fails_for_every_task_is_told_once(inside: Inside, tmp_path: Path, tiny_model: Path) -> None:
    (tmp_path / "own.py").write_text(PLUGIN)
    options = [tiny_model, "--dim", "batch=4", "--target", SKYLAKE, "--plugin", "own.py", "--json"]
    code, out, err = inside("spaces", *options)
    assert code == 0
    failed = [rule["rule"] for task in json.loads(out)["tasks"] for rule in task["rules"] if rule["failed"]]
    assert failed == ["own.failing"] * 2
    assert err.count("planted") == 1


def test_failing_rule_is_told_and_left_out(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(PLUGIN)
    options = ["gemm:64x64x64", "--target", SKYLAKE, "--plugin", "own.py", "--json"]
    code, out, err = inside("spaces", *options)
    assert code == 0
    assert json.loads(out)["tasks"][0]["size"]
    assert err.count("warning: strategy own.failing: RuntimeError: planted; it is left out") == 1
    failed = {rule["rule"]: rule["failed"] for rule in json.loads(out)["tasks"][0]["rules"] if rule["failed"]}
    assert failed == {"own.failing": "RuntimeError: planted"}
    assert "a plugin that prints" in err
    code, _, err = inside("spaces", *options, "--strict")
    assert code == 1
    assert "plugin 'own': failed: strategy own.failing" in json.loads(err.splitlines()[-1])["message"]


def test_plugin_that_cannot_be_loaded_is_told_once(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("raise RuntimeError('planted')")
    code, out, err = inside("spaces", "gemm:64x64x64", "--target", SKYLAKE, "--plugin", "own.py", "--json")
    assert code == 0
    assert json.loads(out)["tasks"][0]["size"]
    assert err.count("planted") == 1


@pytest.mark.parametrize("verb", ["spaces", "prune", "candidates"])
def test_every_option_is_documented(verb: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "spaces.md").read_text(encoding="utf-8")
    command = typer.main.get_command(make_app()).commands[verb]
    options = [name for p in command.params if p.param_type_name == "option" for name in p.opts]
    assert "--target" in options
    assert [name for name in options if f"`{name}`" not in page and f"`{name} " not in page] == []
