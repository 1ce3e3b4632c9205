"""`prune-engine prune`, as a user types it."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise

import pytest

Inside = Callable[..., "tuple[int, str, str]"]


def task_of(inside: Inside, *arguments: object) -> dict:
    code, out, err = inside("prune", *arguments, "--json")
    assert code == 0, err
    (task,) = json.loads(out)["tasks"]
    return task


def test_small_space_is_counted(inside: Inside) -> None:
    task = task_of(inside, "gemm:64x64x64", "--profile", "xeon-8272cl")
    assert task["is_complete"]
    assert task["n_judged"] == task["size_after_space_rules"] < task["size"]
    assert task["n_legal"] == task["n_judged"]  # on a processor nothing is refused
    share = task["kept_share"]
    assert share["low"] == share["value"] == share["high"] == task["n_kept"] / task["n_judged"]
    steps = task["rules"]
    assert steps[0]["n_in"] == task["n_judged"]
    assert all(a["n_out"] == b["n_in"] for a, b in pairwise(steps))
    assert steps[-1]["n_out"] == task["n_kept"] < task["n_judged"]
    kinds = [step["kind"] for step in steps]
    assert kinds == sorted(kinds, reverse=True)  # legality before heuristics


def test_large_space_is_sampled(inside: Inside) -> None:
    options = ["gemm:512x512x512", "--profile", "a100", "--samples", 20_000]
    task = task_of(inside, *options)
    assert not task["is_complete"]
    assert task["size"] == 9_219_840_000
    assert task["n_judged"] == 20_000
    share = task["legal_share"]
    # 60 of 681 random candidates of TVM's own sampling were legal, and 11.3 % of 1500.
    assert 0.05 < share["low"] < share["value"] < share["high"] < 0.2
    assert share["high"] - share["low"] < 0.02
    again = task_of(inside, *options)
    other = task_of(inside, *options, "--seed", 1)
    assert again["n_legal"] == task["n_legal"] != other["n_legal"]


def test_tables(inside: Inside) -> None:
    code, out, _ = inside("prune", "gemm:64x64x64", "--target", "cuda/a100", "--samples", 5000)
    assert code == 0
    for text in (
        "target: cuda sm_80",
        "profile: nvidia-a100-sxm-80gb",
        "a random sample of",
        "rules.refused",
        "rules.unit-reduction",
        "with 95 % confidence",
        "candidates/s",
    ):
        assert text in out


def test_nothing_is_claimed_of_sketches_nobody_reads(inside: Inside) -> None:
    options = ["gemm:64x64x64", "--profile", "mi250x", "--samples", 100]
    task = task_of(inside, *options)
    assert (task["n_judged"], task["n_opaque"], task["legal_share"]) == (0, 100, None)
    assert task["opaque_reasons"] == ["schedules for rocm are not read"]
    _, out, _ = inside("prune", *options)
    assert "legal: nothing could be judged" in out


def test_profile_without_a_target_judges_this_machines_spaces(inside: Inside) -> None:
    code, out, err = inside("prune", "gemm:64x64x64", "--profile", "ascend-910b")
    assert code == 0
    assert "no target for profile huawei-ascend-910b2" in err
    assert "rules.matrix-alignment" in out


@pytest.mark.parametrize("arguments", [["--samples", 0], ["--seed", -1], ["--target", "cuda/none"]])
def test_bad_input(inside: Inside, arguments: list[object]) -> None:
    code, out, err = inside("prune", "gemm:64x64x64", *arguments)
    assert (code, out) == (2, "")
    assert err
