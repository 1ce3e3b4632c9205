from __future__ import annotations

import pytest
from pydantic import ValidationError

from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError


def test_defaults_are_valid_and_need_no_budget() -> None:
    config = EngineConfig()
    assert config == EngineConfig.of()
    assert config.n_trials is None
    assert config.budget_secs is None


@pytest.mark.parametrize(
    "options",
    [
        {"n_trials": -1},
        {"n_trials": 1.5},
        {"n_trials": "many"},
        {"budget_secs": 0},
        {"budget_secs": float("nan")},
        {"budget_secs": float("inf")},
        {"plateau_gain": float("inf")},
        {"batch_size": 0},
        {"batch_size": 4097},
        {"explore_size": 0},
        {"draft_size": 0},
        {"epsilon": 1.1},
        {"audit_fraction": -0.1},
        {"plateau_trials": 0},
        {"n_finalists": 0},
        {"n_finalists": 33},
        {"seed": -1},
        {"seed": 2**31},
        {"unknown": 1},
    ],
    ids=str,
)
def test_wrong_options_are_named_with_their_value(options: dict[str, object]) -> None:
    ((name, value),) = options.items()
    with pytest.raises(ConfigError) as caught:
        EngineConfig.of(**options)
    assert f"{name}: " in str(caught.value)
    assert f"got {value!r}" in str(caught.value)


def test_all_wrong_options_are_named_at_once() -> None:
    with pytest.raises(ConfigError, match=r"n_trials.*epsilon"):
        EngineConfig.of(n_trials=-1, epsilon=2)


@pytest.mark.parametrize(
    "options", [{"n_trials": 0}, {"batch_size": 4096}, {"epsilon": 0}, {"audit_fraction": 1}, {"seed": 2**31 - 1}]
)
def test_limits_are_allowed(options: dict[str, int]) -> None:
    ((name, value),) = options.items()
    assert getattr(EngineConfig.of(**options), name) == value


def test_a_config_does_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        EngineConfig().seed = 5  # type: ignore[misc]


def test_a_config_goes_into_a_manifest() -> None:
    options = {"n_trials": 5, "disabled_rules": ("a.b",)}
    dumped = EngineConfig.of(**options).model_dump(mode="json")
    assert EngineConfig.of(**dumped) == EngineConfig.of(**options)
