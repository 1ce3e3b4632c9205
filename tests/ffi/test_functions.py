"""The functions through tvm-ffi, as a host that runs Python calls them; C++ is in tests/embedding_cpp."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm_ffi

import prune_engine.ffi
from prune_engine.errors import ConfigError, PluginContractError, ProfileError, SpaceError
from prune_engine.ffi.abi import AbiError
from prune_engine.ffi.functions import FUNCTIONS
from prune_engine.ffi.registering import error_kinds, register_all

SPACE = {
    "name": "saxpy",
    "sketches": [
        {"variables": [{"name": "threads", "values": [64, 1024, 2048]}, {"name": "each", "values": [1, 8]}]}
    ],
    "symbols": {
        "threads_per_block": "threads",
        "grid_blocks": "ceil_div(1048576, threads * each)",
        "flops_total": "2 * 1048576",
        "traffic_dram_bytes": "12 * 1048576",
    },
}
DEVICE = "nvidia-a100-sxm-40gb"


def call(name: str, *arguments: object) -> Any:
    return tvm_ffi.get_global_func(f"prune_engine.{name}")(*arguments)


def tensor(values: object) -> tvm_ffi.Tensor:
    return tvm_ffi.from_dlpack(np.array(values, dtype=np.int32))


@pytest.fixture(scope="module")
def profile() -> Any:
    return call("LoadProfile", DEVICE)


@pytest.fixture
def space() -> Any:
    return call("LoadSpace", json.dumps(SPACE))


def test_importing_needs_no_compiler() -> None:
    program = "import sys, prune_engine.ffi; print('tvm' in sys.modules, 'tvm_ffi' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout.split() == ["False", "True"]


def test_all_are_registered_and_may_be_again() -> None:
    register_all()
    assert prune_engine.ffi is not None
    assert all(tvm_ffi.get_global_func(name, allow_missing=True) is not None for name in FUNCTIONS)


def test_errors_come_back_as_ours() -> None:
    with pytest.raises(ProfileError, match="'nowhere'"):
        call("LoadProfile", "nowhere")
    with pytest.raises(AbiError):
        call("CheckAbi", 2000)
    assert len(set(error_kinds().values())) == len(error_kinds())


def test_what_a_search_finds_is_the_best_by_score(profile: Any, space: Any) -> None:
    rows = [[i, j] for i in range(3) for j in range(2)]
    flags = np.from_dlpack(call("MaskCandidates", space, tensor(rows), profile))
    scores = np.from_dlpack(call("ScoreCandidates", space, tensor(rows), profile))
    assert flags.dtype == np.uint8
    assert [bool(flag & 1) for flag in flags] == [True] * 4 + [False] * 2
    assert ((scores > 0) == (flags & 2 > 0)).all()
    found = json.loads(call("PruneSearchSpace", space, profile, '{"count": 6}'))
    assert [one["score"] for one in found["kept"]] == sorted(scores[scores > 0], reverse=True)
    best = found["kept"][0]
    assert best["score"] == scores.max()
    assert best["latency_secs"] == pytest.approx(1 / best["score"])
    assert best["decisions"] == {
        "threads": [[64], [1024], [2048]][best["rows"][0]],
        "each": [[1], [8]][best["rows"][1]],
    }
    dropped = [one for one in found["verdicts"] if one["outcome"] == "dropped"]
    assert [(one["strategy"], one["count"]) for one in dropped] == [("rules.threads-per-block", 2)]
    assert "2048" in dropped[0]["reason"]


def test_a_space_that_nothing_tells_apart_is_no_success(profile: Any) -> None:
    bare = call("LoadSpace", json.dumps({"sketches": [{"variables": [{"name": "x", "values": [1, 2]}]}]}))
    with pytest.raises(SpaceError, match="cannot tell its candidates apart"):
        call("ScoreCandidates", bare, tensor([[0], [1]]), profile)
    assert np.from_dlpack(call("MaskCandidates", bare, tensor([[0], [1]]), profile)).tolist() == [3, 3]


def test_disabled_rules_and_no_draft(space: Any) -> None:
    options = {"disabled_rules": ["rules.threads-per-block"], "draft_scorer": None}
    lax = call("LoadProfile", DEVICE, json.dumps(options))
    assert np.from_dlpack(call("ScoreCandidates", space, tensor([[2, 0]]), lax)).tolist() == [1.0]
    assert json.loads(call("DescribeProfile", lax))["draft_scorer"] is None


def test_a_plugin_that_there_is_not_cannot_be_blocked() -> None:
    with pytest.raises(ConfigError, match=r"LoadProfile, blocked_plugins: no plugin of this name.*'rulez'"):
        call("LoadProfile", DEVICE, json.dumps({"blocked_plugins": ["rulez"]}))


_PLUGIN = """\
import numpy as np
from prune_engine.hookspecs import hookimpl
from prune_engine.strategies import DraftScorer, Rule
from prune_engine.verdicts import DraftScores


class Broken(Rule):
    name = "test.broken"

    def mask(self, batch, profile):
        raise RuntimeError("planted")


class Wild(DraftScorer):
    name = "test.wild"

    def score(self, batch, profile):
        return DraftScores(np.full(len(batch), np.nan))


@hookimpl
def register_rules():
    return [Broken()]


@hookimpl
def register_draft_scorers():
    return [Wild()]
"""


def test_plugins_that_fail_are_told_of(tmp_path: Path, space: Any) -> None:
    plugin = tmp_path / "broken_plugin.py"
    plugin.write_text(_PLUGIN, encoding="utf-8")
    with_rule = call("LoadProfile", DEVICE, json.dumps({"plugin_files": [str(plugin)]}))
    found = json.loads(call("PruneSearchSpace", space, with_rule))
    assert "planted" in found["left_out"]["test.broken"]
    assert found["kept"]
    options = {"plugin_files": [str(plugin)], "draft_scorer": "test.wild"}
    with pytest.raises(PluginContractError, match=r"test\.wild"):
        call("ScoreCandidates", space, tensor([[0, 0]]), call("LoadProfile", DEVICE, json.dumps(options)))


def test_no_timer_is_taken_of_the_host(profile: Any) -> None:
    assert profile.config.hook_limit_secs is None
    assert profile.config.strategy_limit_secs is None


def test_a_sessions_memory_goes_with_its_space(profile: Any) -> None:
    space = call("LoadSpace", json.dumps(SPACE))
    call("MaskCandidates", space, tensor([[0, 0]]), profile)
    left = weakref.ref(space), weakref.ref(profile.session(space))
    del space
    gc.collect()
    assert [what() for what in left] == [None, None]


def test_each_space_is_judged_by_itself(profile: Any, space: Any) -> None:
    # The same rows, which mean fewer threads here: legal all of them.
    small = json.loads(json.dumps(SPACE).replace("2048", "512"))
    other = call("LoadSpace", json.dumps(small))
    for _ in range(2):
        assert np.from_dlpack(call("MaskCandidates", space, tensor([[2, 0]]), profile)).tolist() == [0]
        assert np.from_dlpack(call("MaskCandidates", other, tensor([[2, 0]]), profile)).tolist() == [3]


def test_each_profile_judges_by_itself(profile: Any, space: Any) -> None:
    lax = call("LoadProfile", DEVICE, '{"disabled_rules": ["rules.threads-per-block"]}')
    for _ in range(2):
        assert np.from_dlpack(call("MaskCandidates", space, tensor([[2, 0]]), profile)).tolist() == [0]
        assert np.from_dlpack(call("MaskCandidates", space, tensor([[2, 0]]), lax)).tolist() == [3]


def test_a_damaged_module_does_not_end_the_process(tvm: Any) -> None:
    from prune_engine.metaschedule.embedding import workload_space
    from prune_engine.metaschedule.materialise import module_to_json

    text = module_to_json(workload_space("gemm:16x16x16", "llvm -num-cores=1").space.task.mod)
    for damaged in (
        text[: len(text) // 2],
        text.replace("PrimFunc", "PrimFunk"),
        "{}",
        '{"root_index": 9, "nodes": []}',
    ):
        with pytest.raises(ConfigError, match="cannot be read"):
            call("LoadSpace", json.dumps({"module": damaged, "target": "llvm -num-cores=1"}))
