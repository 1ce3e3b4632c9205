"""The policy of a run: everything that decides which schedules are thrown away, with a hash of it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prune_engine import __version__
from prune_engine.config import NAMED_PRIORS, EngineConfig
from prune_engine.errors import ConfigError
from prune_engine.hardware.schema import HardwareProfile, Tile, quantities
from prune_engine.plugin_host.digests import plugin_digest
from prune_engine.symbols.table import SYMBOLS_VERSION

if TYPE_CHECKING:
    from prune_engine.plugins import PluginHost
    from prune_engine.strategy_set import Strategies

#: Version of what a policy holds and how it is hashed.
FORMAT_VERSION = 1
#: Hexadecimal digits of a hash that people are shown.
_SHORT = 12

_SECTIONS = ("rules", "strategies", "thresholds", "profile", "models", "plugins", "packages")
_STRATEGIES = ("explorer", "draft_scorer", "verifier", "selector")
#: Options that say how much is measured, or what is kept of it; nothing is pruned by them.
NOT_STEERING = frozenset({"n_trials", "budget_secs", "seed", "strict", "harvest"})
#: Options that are in a policy under what they come to: strategies, rules, plugins and models.
_TOLD_ELSEWHERE = frozenset({*_STRATEGIES, "prior", "disabled_rules", "blocked_plugins", "plugin_files"})
#: Hooks of plugins that only watch begin otherwise.
_STEERING_HOOKS = ("register_", "resolve_")
#: What computes the numbers that candidates are judged by.
_PACKAGES = ("apache-tvm", "apache-tvm-ffi", "lightgbm", "numpy", "onnx", "onnxruntime", "scipy")


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """One difference of two policies. ``field`` is a path such as ``thresholds/draft_size``; None is absent."""

    field: str
    old: object
    new: object


@dataclass(frozen=True, slots=True)
class Policy:
    """What steers pruning, as JSON values by section.

    ``rules`` (kind, order, plugin, whether enabled), ``strategies``, ``thresholds`` (options that steer),
    ``profile`` (digest and numbers), ``models`` (prior and symbols), ``plugins`` and ``packages`` (versions).
    Paths of files, the seed and budgets are not in it: two machines with one policy prune alike.
    """

    content: Mapping[str, Any]
    format_version: int = FORMAT_VERSION

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical JSON, 64 hexadecimal digits."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()

    @property
    def short_hash(self) -> str:
        """The first 12 digits of the hash."""
        return self.hash[:_SHORT]

    def canonical(self) -> str:
        """The policy as the one JSON text that is hashed: sorted keys, no spaces, ASCII."""
        record = {"content": self.content, "format_version": self.format_version}
        return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)

    def as_json(self) -> dict[str, Any]:
        """JSON values: hash, format version and content."""
        return {"hash": self.hash, "format_version": self.format_version, "content": dict(self.content)}

    @classmethod
    def from_json(cls, record: object, who: str) -> Policy:
        """Read what ``as_json`` gave. Raises ConfigError, also for a content that its hash does not fit."""
        if not isinstance(record, Mapping) or not isinstance(record.get("content"), Mapping):
            raise ConfigError("is no policy", who=who, expected="what `prune-engine policy pin` writes")
        missing = [name for name in _SECTIONS if not isinstance(record["content"].get(name), Mapping)]
        if missing:
            raise ConfigError(
                "is no policy", who=who, got=f"no {', '.join(missing)}", expected=", ".join(_SECTIONS)
            )
        version = record.get("format_version")
        if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= FORMAT_VERSION:
            raise ConfigError(
                "is a policy of another format",
                who=who,
                got=f"format_version {version!r}",
                expected=f"1 to {FORMAT_VERSION}",
                remedy="Upgrade prune-engine, or pin the policy again.",
            )
        policy = cls(dict(record["content"]), version)
        try:
            digest = policy.hash
        except (ValueError, TypeError, RecursionError) as error:
            raise ConfigError(
                "cannot be hashed", who=who, got=error, expected="JSON with finite numbers"
            ) from error
        if record.get("hash") != digest:
            raise ConfigError(
                "the policy was changed after it was written",
                who=who,
                got=f"hash {digest[:_SHORT]}",
                expected=str(record.get("hash"))[:_SHORT],
                remedy="Pin it again instead of editing it.",
            )
        return policy


def policy_of(host: PluginHost, strategies: Strategies, config: EngineConfig, profile: HardwareProfile) -> Policy:
    """The policy of an engine with these plugins, options and profile.

    Raises ConfigError for a ``prior`` that cannot be read.
    """
    return Policy(
        {
            "rules": _rules(strategies, config),
            "strategies": {kind: getattr(config, kind) for kind in _STRATEGIES}
            | {"transfers": [transfer.name for transfer in strategies.transfers]},
            "thresholds": _thresholds(config),
            "profile": {
                "digest": profile.digest(),
                "kind": profile.kind.value,
                "combine": profile.combine,
                "values": dict(_profile_values(profile)),
                "exponents": dict(profile.calibration.exponents) if profile.calibration else {},
            },
            "models": {"prior": _prior(config), "symbols_version": SYMBOLS_VERSION},
            "plugins": _plugins(host),
            "packages": {"prune-engine": __version__, **_versions()},
        }
    )


def diff(old: Policy, new: Policy) -> tuple[PolicyChange, ...]:
    """What differs from ``old`` to ``new``, by field; nothing if the hashes agree."""
    before, after = dict(_leaves(old.content)), dict(_leaves(new.content))
    changes = [
        PolicyChange(field, before.get(field), after.get(field))
        for field in sorted(before.keys() | after.keys())
        if before.get(field) != after.get(field) or (field in before) != (field in after)
    ]
    if old.format_version != new.format_version:
        changes.insert(0, PolicyChange("format_version", old.format_version, new.format_version))
    return tuple(changes)


def change_lines(changes: tuple[PolicyChange, ...]) -> list[str]:
    """Changes for people, one line each."""
    return [f"{change.field}: {_told(change.old)} -> {_told(change.new)}" for change in changes]


def _rules(strategies: Strategies, config: EngineConfig) -> dict[str, Any]:
    return {
        rule.name: {
            "kind": rule.kind.value,
            "order": rule.order,
            "plugin": strategies.owners.get(rule.name),
            "is_enabled": rule.name not in config.disabled_rules,
        }
        for rule in strategies.rules
    }


def _thresholds(config: EngineConfig) -> dict[str, Any]:
    # A field that is added to the options steers until somebody says that it does not.
    return config.model_dump(mode="json", exclude=set(NOT_STEERING | _TOLD_ELSEWHERE))


def _profile_values(profile: HardwareProfile) -> Iterator[tuple[str, object]]:
    for path, quantity in quantities(profile):
        yield path, [quantity.m, quantity.n, quantity.k] if isinstance(quantity, Tile) else quantity.value


def _prior(config: EngineConfig) -> str | None:
    """The name of a prior that is shipped (its content counts with its plugin), or the digest of a file."""
    if config.verifier is None:
        return None
    if config.prior in NAMED_PRIORS:
        return config.prior
    try:
        content = Path(config.prior).read_bytes()
    except OSError as error:
        raise ConfigError(
            "the prior cannot be read", who="prior", got=error, expected="builtin, none, or a model file"
        ) from error
    return f"blake2b:{hashlib.blake2b(content, digest_size=16).hexdigest()}"


def _plugins(host: PluginHost) -> dict[str, Any]:
    return {
        record.name: {"version": record.version, "digest": plugin_digest(host.plugin(record.name))}
        for record in host.records
        if any(hook.startswith(_STEERING_HOOKS) for hook in record.hooks)
    }


def _versions() -> dict[str, str | None]:
    return {package: version_of(package) for package in _PACKAGES}


def version_of(package: str) -> str | None:
    """The installed version of a distribution, None if it is not there."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _leaves(node: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Everything that is no mapping, by path. An empty mapping is a leaf too."""
    if isinstance(node, Mapping) and node:
        for key, item in node.items():
            yield from _leaves(item, f"{path}/{key}" if path else str(key))
    elif path:
        yield path, node


def _told(value: object) -> str:
    return "(absent)" if value is None else json.dumps(value)
