"""Policies: what is in them, what changes their hash, and how they are pinned."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError, OutputError
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.hookspecs import hookimpl
from prune_engine.plugin_host.digests import _digest, plugin_digest
from prune_engine.plugins import PluginHost
from prune_engine.provenance.policy import NOT_STEERING, Policy, PolicyChange, change_lines, diff, policy_of
from prune_engine.provenance.policy_files import check_pinned, read_lock, write_lock
from prune_engine.strategies import Rule
from prune_engine.strategy_set import load_strategies
from prune_engine.testing import make_profile

#: A value of each option that is in a policy, other than its default.
OTHER: dict[str, Any] = {
    "draft_size": 99,
    "epsilon": 0.5,
    "audit_fraction": 0.5,
    "transfer": False,
    "source_form": "linear",
    "prior": "none",
    "explorer": "explore.uniform",
    "verifier": None,
    "disabled_rules": ("rules.l1-residency",),
    "blocked_plugins": ("transfer",),
}
#: The same of those that steer nothing.
INERT: dict[str, Any] = {"n_trials": 9, "budget_secs": 9.0, "seed": 9, "strict": True, "harvest": False}


class AnyRule(Rule):
    name = "other.any"


class WithRule:
    @hookimpl
    def register_rules(self) -> list[Rule]:
        return [AnyRule()]


class Watcher:
    @hookimpl
    def task_finished(self) -> None:
        """Sees, and changes nothing."""


def policy(
    profile: HardwareProfile | None = None, plugins: dict[str, object] | None = None, **options: Any
) -> Policy:
    config = EngineConfig.of(**options)
    host = PluginHost(config)
    host.load()
    for name, plugin in (plugins or {}).items():
        host.register(plugin, name)
    return policy_of(host, load_strategies(host, config), config, profile or make_profile())


def test_a_policy_is_the_same_every_time() -> None:
    assert policy().canonical() == policy().canonical()
    assert policy().hash == policy().hash
    assert policy().hash.startswith(policy().short_hash)
    assert (len(policy().hash), len(policy().short_hash)) == (64, 12)


def test_the_order_of_keys_does_not_count() -> None:
    one = policy()
    backwards = {name: one.content[name] for name in reversed(list(one.content))}
    assert Policy(backwards).hash == one.hash


@pytest.mark.parametrize("option", OTHER)
def test_what_steers_is_in_the_hash(option: str) -> None:
    other = policy(**{option: OTHER[option]})
    assert other.hash != policy().hash
    assert diff(policy(), other)


@pytest.mark.parametrize("option", INERT)
def test_what_does_not_steer_is_not(option: str) -> None:
    assert policy(**{option: INERT[option]}).hash == policy().hash


def test_every_option_is_in_a_policy_or_known_not_to_steer() -> None:
    content = policy().content
    told = {*content["thresholds"], *content["strategies"], *NOT_STEERING}
    others = {"prior", "disabled_rules", "blocked_plugins", "plugin_files"}
    assert set(EngineConfig.model_fields) - told == others


def test_the_profile_counts_by_its_numbers_not_its_prose() -> None:
    profile = make_profile()
    reworded = profile.model_copy(update={"description": "another"})
    assert policy(reworded).hash == policy(profile).hash
    assert profile.core_count is not None
    core_count = profile.core_count.model_copy(update={"value": profile.core_count.value + 1})
    larger = profile.model_copy(update={"core_count": core_count})
    fields = [change.field for change in diff(policy(profile), policy(larger))]
    assert fields == ["profile/digest", "profile/values/core_count"]


def test_a_plugin_with_rules_counts_and_one_that_watches_does_not() -> None:
    assert policy(plugins={"watcher": Watcher()}).hash == policy().hash
    changes = diff(policy(), policy(plugins={"other": WithRule()}))
    assert {"rules/other.any/kind", "plugins/other/digest"} <= {change.field for change in changes}
    assert all(change.old is None for change in changes)


def test_a_prior_counts_by_its_content(tmp_path: Path) -> None:
    for name, content in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        (tmp_path / name).write_bytes(content)
    a, b, c = (policy(prior=str(tmp_path / name)).hash for name in "abc")
    assert a == b != c
    with pytest.raises(ConfigError, match="the prior cannot be read"):
        policy(prior=str(tmp_path / "missing"))


def test_a_file_of_a_plugin_counts_wherever_it_lies(tmp_path: Path) -> None:
    def digest(folder: str, content: str) -> str | None:
        (tmp_path / folder / "__pycache__").mkdir(parents=True)
        (tmp_path / folder / "__pycache__" / folder).touch()
        (tmp_path / folder / "model.txt").write_text(content)
        return _digest((tmp_path / folder,))

    assert digest("one", "x") == digest("two", "x") != digest("three", "y")
    assert plugin_digest(None) is None


def test_a_difference_is_told_by_field() -> None:
    one, other = policy(), policy(draft_size=99)
    assert diff(one, one) == ()
    assert diff(one, other) == (PolicyChange("thresholds/draft_size", 512, 99),)
    assert change_lines(diff(one, other)) == ["thresholds/draft_size: 512 -> 99"]
    absent = Policy({**one.content, "models": {}})
    assert change_lines(diff(one, absent))[-1] == "models/symbols_version: 2 -> (absent)"
    assert diff(one, replace(one, format_version=9))[0] == PolicyChange("format_version", 1, 9)


def test_a_pinned_policy_reads_back(tmp_path: Path) -> None:
    write_lock(tmp_path / "deep" / "policy.lock", policy())
    assert read_lock(tmp_path / "deep" / "policy.lock") == policy()
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["policy.lock"]
    check_pinned(tmp_path / "deep" / "policy.lock", policy())


def test_a_run_by_another_policy_is_refused_with_the_differences(tmp_path: Path) -> None:
    write_lock(tmp_path / "lock", policy())
    with pytest.raises(ConfigError, match="thresholds/draft_size: 512 -> 99") as caught:
        check_pinned(tmp_path / "lock", policy(draft_size=99))
    assert policy().short_hash in str(caught.value)


def test_a_lock_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="the policy cannot be written"):
        write_lock(tmp_path / "file" / "lock", policy())
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError):
        write_lock(tmp_path / "folder", policy())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def _edited(record: dict[str, Any]) -> dict[str, Any]:
    record["content"]["thresholds"]["draft_size"] = 1
    return record


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_edited, "changed after it was written"),
        (lambda record: {**record, "format_version": 2}, "another format"),
        (lambda record: {**record, "format_version": True}, "another format"),
        (lambda record: {**record, "hash": None}, "changed after it was written"),
        (lambda record: {**record, "content": {"rules": {}}}, "no strategies, thresholds"),
        (
            lambda record: {**record, "content": {**record["content"], "rules": {"x": float("nan")}}},
            "cannot be hashed",
        ),
        (lambda record: [record], "is no policy"),
        (lambda record: "text", "is no policy"),
    ],
)
def test_a_lock_file_that_is_none(tmp_path: Path, change: Any, says: str) -> None:
    (tmp_path / "lock").write_text(json.dumps(change(policy().as_json())))
    with pytest.raises(ConfigError, match=says):
        read_lock(tmp_path / "lock")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_lock_file_that_is_no_json(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "lock").write_bytes(content)
    with pytest.raises(ConfigError, match="the policy cannot be read"):
        read_lock(tmp_path / "lock")
    with pytest.raises(ConfigError, match="the policy cannot be read"):
        read_lock(tmp_path / "missing")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(json.dumps(policy().as_json()) + " " * (5 << 20))
    with pytest.raises(ConfigError, match="more than 4 MiB"):
        read_lock(tmp_path / "lock")
