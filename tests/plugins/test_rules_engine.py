"""The rules in the engine: their order, their reasons in the store, leaving one out by name."""

from __future__ import annotations

import prune_engine_rules
import pytest
from kits.engine import RunEngine
from kits.pipeline import pipeline, run
from kits.rules import batch_of, gemm_space

from prune_engine.errors import ConfigError
from prune_engine.funnel import Funnel
from prune_engine.hardware.levels import DeviceKind
from prune_engine.testing import make_profile, make_task
from prune_engine.verdicts import Outcome, RuleKind

GPU_SYMBOLS = {
    "is_refused": [0, 1, 1, 0, 0, 0],
    "is_canonical": [1, 0, 1, 1, 1, 1],
    "threads_per_block": [256, 4096, 256, 2048, 256, 256],
    "shared_bytes_per_block": [1024] * 6,
    "max_vector_bytes": [16, 64, 16, 16, 16, 16],
    "registers_per_thread": [32, 999, 32, 32, 32, 400],
    "grid_blocks": [64, 1, 64, 64, 1, 64],
}


def on(profile, **options):
    return pipeline(*prune_engine_rules.register_rules(), audit_fraction=0, profile=profile, **options)


def test_each_candidate_is_dropped_by_the_first_rule_that_objects() -> None:
    # The second candidate breaks six of them.
    batch = batch_of(task=make_task(shape=(1024, 1024, 64)), **GPU_SYMBOLS)
    made = on(make_profile(DeviceKind.GPU, cores=16))
    result = run(made, [batch], k=6)
    dropped = {v.strategy: (v.count, v.reason) for v in result.verdicts if v.outcome is Outcome.DROPPED}
    assert {name: count for name, (count, _) in dropped.items()} == {
        "rules.refused": 1,
        "rules.duplicate": 1,
        "rules.threads-per-block": 1,
        "rules.register-pressure": 1,
        "rules.device-fill": 1,
    }
    assert "2048" in dropped["rules.threads-per-block"][1]
    assert "400 registers" in dropped["rules.register-pressure"][1]
    assert not made[1], "no rule failed"
    (kept,) = result.candidates
    assert kept.decisions == ((0,),)


def test_sound_rules_come_first_and_all_have_a_step() -> None:
    batch = batch_of(task=make_task(shape=(1024, 1024, 64)), **GPU_SYMBOLS)
    steps = [s for s in run(on(make_profile(DeviceKind.GPU, cores=16)), [batch]).funnel if s.kind]
    kinds = [s.kind for s in steps]
    assert kinds == sorted(kinds, key=lambda k: k is RuleKind.HEURISTIC)
    names = [s.strategy for s in steps]
    assert names[:6] == [
        "rules.duplicate",
        "rules.refused",
        "rules.threads-per-block",
        "rules.shared-memory",
        "rules.vector-bytes",
        "rules.scratchpads",
    ]


def test_a_rule_is_left_out_by_name() -> None:
    batch = batch_of(task=make_task(shape=(1024, 1024, 64)), **GPU_SYMBOLS)
    result = run(on(make_profile(DeviceKind.GPU, cores=16), disabled_rules=("rules.device-fill",)), [batch], k=6)
    assert "rules.device-fill" not in {s.strategy for s in result.funnel}
    assert len(result.candidates) == 2


def test_a_space_after_all_rules_of_the_task_space() -> None:
    funnel = Funnel()
    space = gemm_space(512, 512, 512)
    smaller, verdicts = on(make_profile(DeviceKind.CPU))[0].restrict(space, funnel)
    assert {v.strategy for v in verdicts} == {"rules.unit-reduction", "rules.vector-length"}
    assert 0 < smaller.size < space.size
    assert funnel.steps[0].n_in == space.size
    assert funnel.steps[-1].n_out == smaller.size
    assert all(v.reason != v.strategy for v in verdicts)


def test_an_engine_with_all_rules_runs_on_spaces_it_cannot_read(run_engine: RunEngine) -> None:
    plugins = {"rules-here": prune_engine_rules}
    run_ = run_engine([make_task()], plugins=plugins, n_trials=8, blocked_plugins=("rules",))
    assert not run_.failures
    assert len(run_.asked) == 8


def test_an_unknown_rule_is_an_error(run_engine: RunEngine) -> None:
    plugins = {"rules-here": prune_engine_rules}
    with pytest.raises(ConfigError, match=r"rules\.vector-length"):
        run_engine([make_task()], plugins=plugins, disabled_rules=("rules.nope",), blocked_plugins=("rules",))
