"""`prune-engine prune`, as a user types it."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

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
    assert "profile: huawei-ascend-910b2" in out


FAILING = """
import numpy as np
from prune_engine.hookspecs import hookimpl
from prune_engine.strategies import Rule

class Tired(Rule):
    name, order = "own.tired", 1
    n_asked = 0
    def mask(self, batch, profile):
        self.n_asked += 1
        if self.n_asked > 1:
            raise TypeError("planted")
        return np.arange(len(batch)) % 2 == 0

class Unable(Rule):
    name = "own.unable"
    def restrict(self, space, profile):
        raise RuntimeError("planted, too")

@hookimpl
def register_rules():
    return [Tired(), Unable()]
"""


def test_rules_that_fail_are_shown_and_the_funnel_adds_up(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(FAILING)
    options = ["gemm:64x64x64", "--profile", "xeon-8272cl", "--plugin", "own.py"]
    task = task_of(inside, *options)
    steps = {step["rule"]: step for step in (*task["space_rules"], *task["rules"])}
    assert (steps["own.tired"]["failed"], steps["own.unable"]["failed"]) == (
        "TypeError: planted",
        "RuntimeError: planted, too",
    )
    assert steps["own.unable"]["n_in"] == steps["own.unable"]["n_out"] == task["size_after_space_rules"]
    assert steps["rules.refused"]["failed"] is None
    assert 0 < steps["own.tired"]["n_cut"] < task["n_judged"] // 2  # it judged the first of several batches
    for rules, n_first in ((task["space_rules"], task["size"]), (task["rules"], task["n_judged"])):
        assert rules[0]["n_in"] == n_first
        assert all(a["n_out"] == b["n_in"] for a, b in pairwise(rules))
    assert task["rules"][-1]["n_out"] == task["n_kept"]
    code, out, err = inside("prune", *options)
    assert code == 0
    assert "own.tired (failed)" in out
    assert "own.unable (failed)" in out
    assert "warning: own.tired failed and was left out: TypeError: planted\n" in out
    assert "own.tired" in err


def test_shares_say_of_what(inside: Inside) -> None:
    options = ["gemm:64x64x64", "--profile", "xeon-8272cl"]
    task = task_of(inside, *options)
    assert task["kept_share_of_space"] == pytest.approx(task["n_kept"] / task["size"])
    _, out, _ = inside("prune", *options)
    share, of_all = (f"{100 * task['n_kept'] / n:.2f} %" for n in (task["n_judged"], task["size"]))
    of_judged = f"{task['n_kept']:,} of {task['n_judged']:,} judged ({share}); {of_all} of the whole space"
    assert f"kept by all rules: {of_judged}\n" in out
    assert f"legal: {task['n_judged']:,} of {task['n_judged']:,} judged (100 %)\n" in out
    n_idle = sum(not step["n_cut"] for step in task["rules"])
    assert n_idle > 1
    assert f"{n_idle} more trial-space rules cut nothing\n" in out


def test_nobody_judges_legality_without_a_rule(inside: Inside) -> None:
    options = ["gemm:8x8x8", "--profile", "xeon-8272cl", "--block", "rules"]
    task = task_of(inside, *options)
    assert (task["n_legal"], task["legal_share"], task["n_kept"]) == (None, None, task["size"])
    assert "legal: not judged (no LEGALITY rule is loaded)\n" in inside("prune", *options)[1]


def test_model_ends_with_a_row_a_task(inside: Inside, tiny_model: Path) -> None:
    options = [tiny_model, "--dim", "batch=4", "--profile", "xeon-8272cl", "--samples", 1000]
    code, out, err = inside("prune", *options)
    assert code == 0, err
    header, first, second, total = out.splitlines()[-4:]
    assert header.split() == ["no.", "task", "candidates", "legal", "kept", "kept", "of", "all"]
    assert (first.split()[0], second.split()[0]) == ("1", "2")
    assert total.endswith("in 2 tasks")
    assert "no.  task" not in inside("prune", *options, "--task", 1)[1]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ["--target", "cuda/a100", "--profile", "epyc-7452"],
            "got a processor; expected a GPU. Leave out",
        ),
        (["--target", "llvm", "--profile", "a100"], "got a GPU; expected a processor. Leave out --profile"),
        (["--target", "cuda/a100", "--threads", "4"], "--threads: without effect on target cuda. Leave it out."),
        (["--profile", "a100", "--threads", "4"], "--threads: without effect on target cuda. Leave it out."),
    ],
)
def test_what_does_not_fit_the_target_is_refused(inside: Inside, options: list[str], says: str) -> None:
    code, out, err = inside("spaces", "gemm:8x8x8", *options)
    assert (code, out) == (2, "")
    assert says in err


def test_target_and_profile_of_one_kind_need_no_word(inside: Inside) -> None:
    for options in (["--target", "cuda/a100"], ["--profile", "epyc-7452"], ["--profile", "ascend-910b"]):
        assert "warning" not in inside("spaces", "gemm:8x8x8", *options)[2]


def test_which_gpu(inside: Inside) -> None:
    code, _, err = inside("prune", "gemm:8x8x8", "--target", "cuda")
    assert code == 2
    assert "error: target cuda: which GPU? Name it, such as cuda/a100" in err


@pytest.mark.parametrize("arguments", [["--samples", 0], ["--seed", -1], ["--target", "cuda/none"]])
def test_bad_input(inside: Inside, arguments: list[object]) -> None:
    code, out, err = inside("prune", "gemm:64x64x64", *arguments)
    assert (code, out) == (2, "")
    assert err
