"""The rule keeps the contract of all rules, and drops what it says."""

from __future__ import annotations

import pytest
from prune_engine.testing import (
    PluginContract,
    RuleContract,
    make_batch,
    make_profile,
    make_space,
)

import prune_engine_hello
from prune_engine_hello.rule import MAX_STEPS, UnrollLimit


class TestUnrollLimit(RuleContract):
    """Shape, dtype, purity, no loop over candidates, and more: all that the engine relies on."""

    @pytest.fixture
    def rule(self):
        return UnrollLimit()

    @pytest.fixture
    def space(self):
        return make_space(symbols={"unroll_steps": [0, 16, 64, 512]})


class TestPlugin(PluginContract):
    """What it registers, and what its hooks do with strange input."""

    @pytest.fixture
    def plugin(self):
        return prune_engine_hello


def test_the_limit_is_kept_and_one_more_is_dropped():
    batch = make_batch(symbols={"unroll_steps": [MAX_STEPS, MAX_STEPS + 1]})
    assert UnrollLimit().mask(batch, make_profile()).tolist() == [True, False]
