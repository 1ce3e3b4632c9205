"""`prune-engine candidates`, as a user types it; its traces in stock TVM."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Inside = Callable[..., "tuple[int, str, str]"]


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def n_accepted(lines: list[dict[str, Any]], module: str) -> int:
    """How many of the traces stock TVM replays and all its post-processors accept."""
    from tvm.ir import load_json
    from tvm.s_tir import Schedule, meta_schedule
    from tvm.s_tir.schedule import Trace
    from tvm.target import Target

    mod = load_json(module)
    context = meta_schedule.TuneContext(
        mod=mod, target=Target(lines[0]["target"]), space_generator="post-order-apply", num_threads=1
    )
    accepted = 0
    for line in lines:
        schedule = Schedule(mod)
        Trace.apply_json_to_schedule(line["trace"], schedule)
        schedule.enter_postproc()
        accepted += all(postproc.apply(schedule) for postproc in context.space_generator.postprocs)
    return accepted


@pytest.mark.parametrize("workload", ["gemm:128x128x128", "conv2d:1x32x14x14,32x3x3,p1"])
def test_gpu_candidates_pass_in_stock_tvm(inside: Inside, tmp_path: Path, workload: str) -> None:
    code, out, err = inside(
        "candidates", workload, "--target", "cuda/a100", "-n", 30, "--out", "c.jsonl", "--modules", "modules"
    )
    assert (code, out) == (0, ""), err
    lines = lines_of((tmp_path / "c.jsonl").read_text())
    assert len(lines) == 30
    assert len({line["candidate_id"] for line in lines}) == 30
    assert {line["task"] for line in lines} == {workload}
    module = tmp_path / "modules" / f"{lines[0]['task_id']}.json"
    assert n_accepted(lines, module.read_text()) == 30
    for line in lines:
        assert line["symbols"]["threads_per_block"] <= 1024
        assert line["symbols"]["shared_bytes_per_block"] <= 49152
        chosen = [decision for _, decision in line["trace"][1]]
        tiles = [decision for decision in line["decisions"].values() if isinstance(decision, list)]
        assert [decision for decision in chosen if isinstance(decision, list)] == tiles


def test_check_would_see_what_is_not_legal(inside: Inside, tmp_path: Path) -> None:
    """Without the rule that knows what TVM refuses, most candidates are refused."""
    options = ["--disable-rule", "rules.refused", "--disable-rule", "rules.threads-per-block"]
    code, out, _ = inside(
        "candidates", "gemm:128x128x128", "--target", "cuda/a100", "-n", 20, "--modules", ".", *options
    )
    assert code == 0
    lines = lines_of(out)
    assert n_accepted(lines, (tmp_path / f"{lines[0]['task_id']}.json").read_text()) < 15


def test_a_heuristic_that_is_not_applied_need_not_be_left_out(inside: Inside) -> None:
    options = ["candidates", "gemm:64x64x64", "--target", "llvm -mcpu=skylake-avx512", "-n", 2]
    options += ["--disable-rule", "rules.unit-reduction"]
    code, out, err = inside(*options)
    assert (code, out) == (2, "")
    assert "error: --disable-rule: without effect without --heuristics: these rules are not applied anyway" in err
    assert "; got rules.unit-reduction. Leave it out." in err
    assert inside(*options, "--heuristics")[0] == 0


def test_seed_decides(inside: Inside) -> None:
    options = ["candidates", "gemm:64x64x64", "--target", "llvm -mcpu=skylake-avx512", "-n", 5]
    first, again, other = (inside(*options, "--seed", seed)[1] for seed in (3, 3, 4))
    assert len(lines_of(first)) == 5
    assert first == again
    assert first != other
    assert "vector_registers" not in first
    assert {"working_set_l1_bytes", "parallel_extent"} <= lines_of(first)[0]["symbols"].keys()


def test_heuristics_are_off_unless_wanted(inside: Inside) -> None:
    options = ["candidates", "gemm:64x64x64", "--profile", "xeon-8272cl", "-n", 200]
    lines = lines_of(inside(*options)[1])
    assert [64, 1] in [line["decisions"]["2.matmul.2"] for line in lines]  # what rules.unit-reduction cuts
    lines = lines_of(inside(*options, "--heuristics")[1])
    assert len(lines) == 200
    assert [64, 1] not in [line["decisions"]["2.matmul.2"] for line in lines]


def test_fewer_than_wanted(inside: Inside) -> None:
    code, out, err = inside("candidates", "gemm:2x2x2", "--target", "llvm -mcpu=skylake-avx512", "-n", 500)
    assert code == 0
    lines = lines_of(out)
    assert len(lines) == len({line["candidate_id"] for line in lines}) == 3 * 4 * 4 * 2 * 4
    assert "gemm:2x2x2: 384 of 500 candidates (the space has no more)" in err


def test_nothing_legal(inside: Inside, tmp_path: Path) -> None:
    """Inputs are staged in shared memory, of which there is a byte."""
    target = {
        "kind": "cuda",
        "arch": "sm_80",
        "max_threads_per_block": 1024,
        "max_shared_memory_per_block": 1,
        "thread_warp_size": 32,
    }
    code, out, err = inside("candidates", "gemm:4x4x4", "--target", json.dumps(target), "--out", "c.jsonl")
    assert (code, out) == (1, "")
    assert "gemm:4x4x4: no legal candidate was found" in err
    assert "prune-engine prune" in err
    assert not (tmp_path / "c.jsonl").exists()


def test_sketches_nobody_reads_are_checked_by_tvm(inside: Inside) -> None:
    code, out, err = inside("candidates", "gemm:64x64x64", "--profile", "mi250x", "-n", 2)
    assert code == 0
    assert len(lines_of(out)) == 2
    assert lines_of(out)[0]["symbols"] == {}
    assert "not interpreted (schedules for rocm are not read): TVM checks their candidates one by one" in err


def test_several_tasks(inside: Inside, tiny_model: Path) -> None:
    options = ["candidates", tiny_model, "--dim", "batch=4", "--target", "llvm -mcpu=skylake-avx512", "-n", 3]
    lines = lines_of(inside(*options)[1])
    assert len(lines) == 6
    assert len({line["task_id"] for line in lines}) == 2
    assert len(lines_of(inside(*options, "--task", 2)[1])) == 3


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["-n", 0], 2, "greater than or equal to 1"),
        (["--out", "absent/c.jsonl"], 5, "absent/c.jsonl: cannot be written"),
        (["--out", "."], 5, "it is a folder"),
        (["--modules", "file"], 5, "file: cannot be written"),
        (["--explorer", "none"], 2, "no such strategy"),
        (["--target", "cuda/none"], 2, "no such device"),
    ],
)
def test_bad_input(inside: Inside, tmp_path: Path, arguments: list[object], code: int, says: str) -> None:
    (tmp_path / "file").touch()
    before = sorted(tmp_path.iterdir())
    found, out, err = inside("candidates", "gemm:64x64x64", *arguments)
    assert (found, out) == (code, "")
    assert says in " ".join(err.replace("│", " ").split())
    assert sorted(tmp_path.iterdir()) == before


def test_old_file_stays_if_writing_fails(inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "c.jsonl").write_text('{"old": 1}')
    monkeypatch.setattr(os, "fsync", full)
    code, _, err = inside("candidates", "gemm:8x8x8", "-n", 2, "--out", "c.jsonl")
    assert code == 5
    assert "No space left" in err
    assert (tmp_path / "c.jsonl").read_text() == '{"old": 1}'
    assert not [*tmp_path.glob("*.tmp"), *tmp_path.glob(".*.tmp")]


def test_without_a_legality_rule_nothing_is_claimed(inside: Inside) -> None:
    options = ["candidates", "gemm:8x8x8", "--profile", "xeon-8272cl", "-n", 2]
    assert "LEGALITY" not in inside(*options)[2]
    code, out, err = inside(*options, "--block", "rules")
    assert (code, len(lines_of(out))) == (0, 2)
    assert "warning: no LEGALITY rule is loaded" in err


def test_progress_says_how_far_the_search_is(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prune_engine.cli.late_progress._PATIENCE_SECS", 0.0)
    _, _, err = inside("candidates", "gemm:8x8x8", "--profile", "xeon-8272cl", "-n", 2)
    assert "searching gemm:8x8x8: 2 of 2 so far\n" in err
