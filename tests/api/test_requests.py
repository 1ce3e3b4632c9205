"""From arguments to a request."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prune_engine.api import requests
from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError


def request(**options):
    given = {
        "out": None,
        "shape": None,
        "dim": None,
        "target": "native",
        "threads": 1,
        "profile": "auto",
        "store": None,
    }
    return requests.model_request("gemm:8x8x8", EngineConfig(), **{**given, **options})


def test_what_is_not_given_is_as_on_the_command_line() -> None:
    made = request()
    assert made.out_dir == Path("tuned/gemm_8x8x8")
    assert (made.store_url, made.memory_limit_bytes, made.decision_bytes) == (None, None, 64 * 2**20)


def test_sizes_may_be_numpys_and_bytes_numbers() -> None:
    made = request(shape={"x": np.array([1, 3])}, dim={"batch": np.int64(2)}, memory=2**30, decisions_size="1M")
    assert made.shapes == {"x": (1, 3)}
    assert made.dims == {"batch": 2}
    assert (made.memory_limit_bytes, made.decision_bytes) == (2**30, 2**20)
    assert request(decisions=False).decision_bytes == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"shape": "x=1x3"}, "shape: cannot be used"),
        ({"shape": {"x": "1x3"}}, "shape of 'x': cannot be used"),
        ({"shape": {"x": 3}}, "shape of 'x': cannot be used"),
        ({"shape": {"x": (1, 0)}}, "shape of 'x': cannot be used; got 0"),
        ({"shape": {"x": (1, 2**40)}}, "expected at most 2147483647"),
        ({"dim": {"n": 2.5}}, "dim 'n': cannot be used"),
        ({"threads": 0}, "threads: cannot be used; got 0"),
        ({"threads": True}, "threads: cannot be used; got True"),
        ({"build_timeout": -1.0}, "build_timeout: cannot be used"),
        ({"run_timeout": float("nan")}, "run_timeout: cannot be used"),
        ({"memory": "lots"}, "--memory: cannot be read"),
        ({"profile": None}, "profile: cannot be used; got None"),
        ({"store": 5}, "store: cannot be used; got 5"),
        ({"out": 5}, "out: cannot be used; got 5"),
        ({"policy": 5}, "policy: cannot be used; got 5"),
    ],
)
def test_what_cannot_be_used_is_named(options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        request(**options)


@pytest.mark.parametrize("option", ["disabled_rules", "blocked_plugins", "plugin_files"])
def test_one_name_in_place_of_several_is_a_mistake(option: str) -> None:
    """A text is a sequence too: of letters."""
    with pytest.raises(ConfigError, match=f"{option}: cannot be used; got 'abc'"):
        requests.search_config(seconds=None, **{option: "abc"})


def test_none_and_its_word_leave_a_strategy_out() -> None:
    for word in (None, "none"):
        config = requests.search_config(seconds=None, draft=word, verifier=word)
        assert (config.draft_scorer, config.verifier) == (None, None)
