"""Pruning without engine, compiler or store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prune_engine.candidates import CandidateBatch
from prune_engine.config import EngineConfig
from prune_engine.engine import Engine
from prune_engine.errors import ConfigError, PluginContractError, ProfileError, SpaceError
from prune_engine.hardware import DeviceKind
from prune_engine.own_kernels.own_spaces import batch_of, own_space, whole
from prune_engine.own_kernels.pruner import Pruner
from prune_engine.space import SpaceRestriction
from prune_engine.strategies import Rule
from prune_engine.testing import FakeWorkbench, make_profile
from prune_engine.verdicts import Outcome, RuleKind, Stage

GPU = make_profile(DeviceKind.GPU, cores=108)
PLAIN = {"verifier": None, "draft_scorer": None}
N = 4096


def tiled(**symbols: Any) -> Any:
    given = {
        "threads_per_block": lambda c: c["x"] * c["y"],
        "shared_bytes_per_block": lambda c: c["x"] * c["y"] * c["tile"] * 16,
        **symbols,
    }
    return own_space("tiled", {"x": [8, 32, 256], "y": [1, 4, 8], "tile": [1, 2, 8]}, given, n_results=N * N)


def drafted() -> Any:
    return tiled(
        grid_blocks=lambda c: N * N / (c["x"] * c["y"] * c["tile"]),
        flops_total=2 * N * N * 64,
        traffic_dram_bytes=lambda c: N * N * 4 * (1 + 64 / c["tile"]),
    )


class Odd(Rule):
    """Drops tiles of one."""

    name = "own.odd"

    def mask(self, batch: CandidateBatch, profile: Any) -> Any:
        return batch.symbol("tile") > 1

    def reason(self, symbols: Any, profile: Any) -> str:
        return f"a tile of {symbols['tile']:.0f}"


class CutX(Rule):
    """Cuts x of 8 out of the table."""

    name, kind = "own.cut-x", RuleKind.LEGALITY

    def restrict(self, space: Any, profile: Any) -> SpaceRestriction:
        return SpaceRestriction({(0, 0): space.sketches[0].variables[0].table[:, 0] != 8})


class Broken(Rule):
    """Raises."""

    name = "own.broken"

    def mask(self, batch: CandidateBatch, profile: Any) -> Any:
        raise RuntimeError("broken")


def test_each_candidate_is_judged_by_the_limits_of_the_device() -> None:
    space = tiled()
    batch = whole(space)
    threads, shared = batch.symbol("threads_per_block"), batch.symbol("shared_bytes_per_block")
    result = Pruner(GPU, options=PLAIN).prune(space)
    # The profile gives no opt-in size, so what a whole multiprocessor has is the limit.
    fits = (threads <= 1024) & (shared <= 167936)
    assert result.legal.tolist() == fits.tolist() == result.kept.tolist()
    assert result.n_kept == fits.sum() < len(result)
    assert result.dropped_by["rules.threads-per-block"].tolist() == (threads > 1024).tolist()
    assert {v.strategy: v.count for v in result.verdicts} == {n: int(m.sum()) for n, m in result.dropped_by.items()}
    assert sum(v.count for v in result.verdicts) + result.n_kept == len(result) == len(batch)


def test_the_limit_itself_is_kept_and_one_past_it_is_not() -> None:
    space = own_space("k", {"t": [1024, 1025]}, {"threads_per_block": "t"})
    assert Pruner(GPU, options=PLAIN).prune(space).kept.tolist() == [True, False]


def test_registers_of_a_block_and_of_a_thread_count() -> None:
    given = {"threads_per_block": "t", "registers_per_thread": "r"}
    space = own_space("k", {"t": [128, 1024], "r": [64, 255, 256]}, given)
    result = Pruner(GPU, options=PLAIN).prune(space)
    assert result.kept.tolist() == [True, True, False, True, False, False]
    assert result.legal.all(), "registers are a guess: a compiler may spill"
    only_registers = own_space("k", {"r": [255, 256]}, {"registers_per_thread": "r"})
    assert Pruner(GPU, options=PLAIN).prune(only_registers).kept.tolist() == [True, False]


def test_too_few_blocks_for_the_device_are_dropped_if_there_could_be_more() -> None:
    given = {"grid_blocks": "b"}
    space = own_space("k", {"b": [27, 28]}, given, n_results=1 << 20)
    assert Pruner(GPU, options=PLAIN).prune(space).kept.tolist() == [False, True]
    unknown = own_space("k", {"b": [27, 28]}, given)
    assert Pruner(GPU, options=PLAIN).prune(unknown).kept.all()


def test_a_verdict_says_what_decided() -> None:
    space = tiled()
    result = Pruner(GPU, options=PLAIN).prune(space)
    row = int(result.dropped_by["rules.threads-per-block"].argmax())
    verdict = result.verdict(row)
    assert verdict.outcome is Outcome.DROPPED
    assert verdict.stage is Stage.RULE
    assert verdict.evidence == {"threads_per_block": 2048.0}
    assert "2048, more than 1024 (testing, limits.threads_per_block)" in verdict.reason
    assert result.verdict(int(result.kept.argmax())).outcome is Outcome.KEPT


def test_rows_are_those_of_the_batch_whatever_their_order_and_number() -> None:
    space = drafted()
    pruner = Pruner(GPU, options={"verifier": None})
    everything = pruner.prune(space)
    rows = np.array([5, 26, 5, 0, 13])
    some = pruner.prune(space, whole(space).take(rows))
    assert some.kept.tolist() == everything.kept[rows].tolist()
    assert np.allclose(some.scores, everything.scores[rows])
    one = pruner.prune(space, {"x": [256], "y": [8], "tile": [1]})
    assert one.kept.tolist() == [False]


def test_order_is_the_drafts_best_first() -> None:
    result = Pruner(GPU, options={"verifier": None}).prune(drafted())
    assert result.ranked_by == "draft.symbols"
    assert sorted(result.order.tolist()) == np.flatnonzero(result.kept).tolist()
    assert result.latency_secs is not None
    ordered = result.latency_secs[result.order]
    assert (np.diff(ordered) >= 0).all()
    assert ordered[0] < ordered[-1]
    assert np.isnan(result.latency_secs[~result.kept]).all()
    assert (result.scores[~result.kept] == 0).all()
    assert result.unread == ()


def test_without_enough_to_draft_the_order_is_the_given_one() -> None:
    result = Pruner(GPU).prune(tiled(flops_total=5))
    assert result.ranked_by is None
    assert result.latency_secs is None
    assert result.order.tolist() == np.flatnonzero(result.kept).tolist()
    assert result.unread == ("flops_total",)


def test_a_misspelt_symbol_is_unread() -> None:
    space = own_space("k", {"t": [2048]}, {"thread_per_block": "t"})
    result = Pruner(GPU).prune(space)
    assert result.kept.all()
    assert result.unread == ("thread_per_block",)


def test_own_rules_are_asked_and_blamed() -> None:
    space = tiled(tile="tile")
    result = Pruner(GPU, rules=[Odd(), CutX()], options=PLAIN).prune(space)
    batch = whole(space)
    assert (~result.kept[batch.column(0)[:, 0] == 8]).all()
    assert (~result.kept[batch.column(2)[:, 0] == 1]).all()
    by = {v.strategy: v for v in result.verdicts}
    assert by["own.cut-x"].count == 9
    assert by["own.cut-x"].stage is Stage.TASK_SPACE
    assert by["own.odd"].reason == "a tile of 1"
    assert sum(v.count for v in result.verdicts) + result.n_kept == len(result)
    assert result.legal[result.dropped_by["own.odd"]].all()
    assert not result.legal[result.dropped_by["own.cut-x"]].any()


def test_what_a_guess_cuts_is_still_legal() -> None:
    class Guess(CutX):
        name, kind = "own.guess", RuleKind.HEURISTIC

    result = Pruner(GPU, rules=[Guess()], options=PLAIN).prune(tiled())
    cut = result.dropped_by["own.guess"]
    assert cut.sum() == 9
    assert result.legal[cut].all()


def test_a_rule_that_raises_is_done_without_and_told_of() -> None:
    space = tiled()
    result = Pruner(GPU, rules=[Broken()], options=PLAIN).prune(space)
    assert "RuntimeError: broken" in result.failures["own.broken"]
    assert result.kept.tolist() == Pruner(GPU, options=PLAIN).prune(space).kept.tolist()
    with pytest.raises(PluginContractError, match=r"own\.broken"):
        Pruner(GPU, rules=[Broken()], options={**PLAIN, "strict": True}).prune(space)


def test_what_is_wrong_with_a_symbol_is_its_owners_error() -> None:
    with pytest.raises(ConfigError, match="symbol 'threads_per_block': its function failed"):
        Pruner(GPU, options=PLAIN).prune(tiled(threads_per_block=lambda c: 1 / 0))


def test_large_batches_are_judged_in_parts_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    space = drafted()
    at_once = Pruner(GPU, options={"verifier": None}).prune(space)
    monkeypatch.setattr("prune_engine.own_kernels.pruning._CHUNK", 4)
    in_parts = Pruner(GPU, options={"verifier": None}).prune(space)
    assert in_parts.kept.tolist() == at_once.kept.tolist()
    assert in_parts.order.tolist() == at_once.order.tolist()
    assert in_parts.verdicts == at_once.verdicts


def planted_secs(space: Any) -> Any:
    """Times that the draft does not foresee: y is all that counts."""
    return 1e-3 * (1 + whole(space).column(1)[:, 0].astype(float))


def wide() -> Any:
    given = {"threads_per_block": 128, "grid_blocks": 4096, "flops_total": lambda c: 1e9 * (2 + c["x"])}
    return own_space("wide", {"x": list(range(12)), "y": list(range(12))}, given)


def test_what_is_learnt_orders_anew() -> None:
    space, pruner = wide(), Pruner(GPU)
    secs = planted_secs(space)
    rows = np.random.default_rng(0).permutation(len(secs))[:64]
    before = pruner.prune(space)
    pruner.learn(space, whole(space).take(rows), secs[rows])
    after = pruner.prune(space)
    assert (before.ranked_by, after.ranked_by) == ("draft.symbols", "lightgbm.residual")
    others = np.setdiff1d(np.arange(len(secs)), rows)

    def agreement(scores: Any) -> float:
        return float(np.corrcoef(scores[others].argsort().argsort(), (-secs[others]).argsort().argsort())[0, 1])

    assert agreement(after.scores) > 0.9 > 0.5 > agreement(before.scores)


def test_failures_are_learnt_from_as_failures() -> None:
    space, pruner = wide(), Pruner(GPU)
    secs = planted_secs(space)
    secs[whole(space).column(0)[:, 0] > 5] = np.nan
    pruner.learn(space, None, secs)
    scores = pruner.prune(space).scores
    assert scores[~np.isnan(secs)].mean() > 2 * scores[np.isnan(secs)].mean()


def test_a_model_of_another_device_is_where_the_order_starts(tmp_path: Path) -> None:
    space, there = wide(), Pruner(make_profile(DeviceKind.GPU, name="other", cores=40))
    assert not there.save(tmp_path / "nothing")
    there.learn(space, None, planted_secs(space))
    assert there.save(tmp_path / "model")
    here = Pruner(GPU, options={"prior": str(tmp_path / "model")}).prune(space)
    assert here.ranked_by == "lightgbm.residual"
    assert planted_secs(space)[here.order[0]] == planted_secs(space).min()
    (tmp_path / "model").write_text("no model")
    with pytest.raises(ConfigError, match="not a model of this verifier"):
        Pruner(GPU, options={"prior": str(tmp_path / "model")}).prune(space)


def test_what_is_chosen_was_not_measured_and_is_kept() -> None:
    space = drafted()
    pruner = Pruner(GPU, options={"audit_fraction": 0.0})
    result = pruner.prune(space)
    measured = result.order[:3]
    chosen = pruner.choose(space, None, 8, measured=measured)
    assert 0 < len(chosen) <= 8
    assert len(set(chosen.tolist())) == len(chosen)
    assert not set(chosen.tolist()) & set(measured.tolist())
    assert result.legal[chosen].all()
    everything = pruner.choose(space, None, 100)
    assert set(np.flatnonzero(result.kept)) <= set(everything.tolist())
    assert len(pruner.choose(space, None, 8, measured=np.arange(len(result)))) == 0


@pytest.mark.parametrize("secs", [[1.0], [1.0, 0.0], [1.0, -1.0]], ids=["too few", "zero", "negative"])
def test_times_that_mean_nothing_are_refused(secs: list[float]) -> None:
    space = own_space("k", {"t": [1, 2]})
    with pytest.raises(ConfigError, match=r"run times of 'k': cannot be learnt from.*\(2,\)"):
        Pruner(GPU).learn(space, None, secs)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda space: Pruner(None), "profile: is of the wrong type; got NoneType"),
        (lambda space: Pruner(GPU, options=[1]), "options: are of the wrong type"),
        (lambda space: Pruner(GPU, options={"blocked_plugins": ("rulez",)}), "blocked_plugins: no plugin.*'rulez'"),
        (lambda space: Pruner(GPU, rules=[5]), "rules: is no rule; got 5"),
        (lambda space: Pruner(GPU).prune(5), "space: is no space; got 5"),
        (lambda space: Pruner(GPU).prune(space, 5), "of the wrong type; got int 5"),
        (lambda space: Pruner(GPU).learn(space, None, ["a", "b"]), "cannot be learnt from; got could not convert"),
        (lambda space: Pruner(GPU).choose(space, None, -1), "k: is no number of candidates; got -1"),
        (lambda space: Pruner(GPU).choose(space, None, 1.5), "k: is no number of candidates; got 1.5"),
        (lambda space: Pruner(GPU).choose(space, None, 1, measured=[2]), r"measured: are no rows.*0 to 1"),
        (lambda space: Pruner(GPU).choose(space, None, 1, measured=[-1]), r"measured: are no rows.*0 to 1"),
        (lambda space: Pruner(GPU).choose(space, None, 1, measured=[0.5]), r"measured: are no rows.*0 to 1"),
    ],
    ids=[
        *("profile", "options", "blocked", "rules", "space", "candidates", "times", "negative", "part"),
        *("row", "negative row", "no row"),
    ],
)
def test_wrong_arguments_are_told(call: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call(own_space("k", {"t": [1, 2]}))


def test_candidates_of_another_space_are_refused(store: Any) -> None:
    space, other = own_space("k", {"t": [1, 2]}), own_space("q", {"u": [1, 2, 3]})
    with pytest.raises(ConfigError, match="candidates of 'q': are of another space"):
        Pruner(GPU).prune(space, whole(other))
    engine = Engine(EngineConfig.of(verifier=None), FakeWorkbench(), store, GPU)
    with pytest.raises(ConfigError, match="candidates of 'q': are of another space"):
        engine.prune(space, whole(other))


def test_an_engine_reads_the_columns_that_come_with_a_batch(store: Any) -> None:
    space = own_space("k", {"t": [256, 512]}, {"threads_per_block": "t"})
    batch = whole(space, {"registers_per_thread": [96, 160]})
    engine = Engine(EngineConfig.of(verifier=None), FakeWorkbench(), store, GPU)
    assert (
        engine.prune(space, batch).kept.tolist() == Pruner(GPU).prune(space, batch).kept.tolist() == [True, False]
    )


def test_a_profile_is_found_by_what_others_call_the_device() -> None:
    assert Pruner("a100", options=PLAIN).profile.name == "nvidia-a100-sxm-80gb"
    assert Pruner("NVIDIA A100-SXM4-40GB", options=PLAIN).profile.name == "nvidia-a100-sxm-40gb"
    with pytest.raises(ProfileError, match="unknown hardware profile"):
        Pruner("NVIDIA A100-PCIE-40GB", options=PLAIN)


def test_a_wrong_option_is_refused() -> None:
    with pytest.raises(ConfigError, match="n_trails"):
        Pruner(GPU, options={"n_trails": 5})


def test_a_cpu_is_drafted_as_a_roofline() -> None:
    given = {"parallel_extent": "chunks", "flops_total": 1e9, "traffic_dram_bytes": 1e6, "vector_lanes": "lanes"}
    space = own_space("k", {"chunks": [1, 2, 3], "lanes": [1, 16]}, given)
    result = Pruner(
        make_profile(cores=2), options={"verifier": None, "disabled_rules": ("rules.device-fill",)}
    ).prune(space)
    assert result.latency_secs is not None
    secs = result.latency_secs.reshape(3, 2)
    assert (secs[:, 0] > secs[:, 1]).all(), "short vectors use less of the unit"
    assert secs[1, 1] < secs[2, 1] < secs[0, 1], "two cores run two chunks best, one of three waits"


def test_engine_prunes_a_batch_the_same_way(store: Any) -> None:
    space = drafted()
    engine = Engine(EngineConfig.of(verifier=None, build_aversion=0.0), FakeWorkbench(), store, GPU)
    result, alone = engine.prune(space, whole(space)), Pruner(GPU, options={"verifier": None}).prune(space)
    assert result.kept.tolist() == alone.kept.tolist()
    assert result.order.tolist() == alone.order.tolist()
    with pytest.raises(TypeError, match="needs k"):
        engine.prune(space, [whole(space)])  # type: ignore[call-overload]


def test_an_empty_batch_is_no_error() -> None:
    space = drafted()
    result = Pruner(GPU).prune(space, whole(space).take(np.empty(0, dtype=np.int64)))
    assert len(result) == 0
    assert result.order.tolist() == []


def test_a_space_too_large_is_pruned_in_part_only() -> None:
    space = own_space("k", {name: list(range(1000)) for name in "xyz"}, {"threads_per_block": "x"})
    with pytest.raises(SpaceError, match="too many candidates"):
        Pruner(GPU, options=PLAIN).prune(space)
    assert Pruner(GPU, options=PLAIN).prune(space, batch_of(space, {n: [1, 2] for n in "xyz"})).kept.all()


def test_no_compiler_is_imported() -> None:
    program = """
import sys
from prune_engine.own_kernels.own_spaces import own_space
from prune_engine.own_kernels.pruner import Pruner
space = own_space("k", {"t": [1024, 2048]}, {"threads_per_block": "t", "grid_blocks": 9, "flops_total": 1e9})
print(Pruner("a100").prune(space).kept.tolist())
print([m for m in ("tvm", "kernel_tuner", "triton", "sqlalchemy", "onnx") if m in sys.modules])
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.splitlines() == ["[True, False]", "[]"]
