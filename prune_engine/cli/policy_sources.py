"""Where a policy may come from: the options, a lock file, a result folder, or a run in a store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prune_engine.errors import ConfigError

if TYPE_CHECKING:
    from prune_engine.config import EngineConfig
    from prune_engine.provenance.policy import Policy

#: What stands for the policy of the options.
CURRENT = "current"


@dataclass(frozen=True, slots=True)
class CurrentOptions:
    """The options that the current policy is made of; as those of `tune`."""

    profile: str = "auto"
    threads: int | None = None
    explorer: str | None = None
    draft: str | None = None
    verifier: str | None = None
    selector: str | None = None
    prior: str | None = None
    batch: int | None = None
    plateau: int | None = None
    disabled_rules: tuple[str, ...] = ()
    blocked_plugins: tuple[str, ...] = ()
    plugin_files: tuple[Path, ...] = ()
    transfer: bool = True
    builtin_library: bool = True
    fp_tolerance: float | None = None
    strict_fp: bool = False
    stress_check: bool = True

    def config(self) -> EngineConfig:
        """The options as `tune` would have them. Raises ConfigError."""
        from prune_engine.cli.options import check_blocked
        from prune_engine.config import EngineConfig

        given = {
            "explorer": self.explorer,
            "draft_scorer": self.draft,
            "verifier": self.verifier,
            "selector": self.selector,
            "prior": self.prior,
            "batch_size": self.batch,
            "plateau_trials": self.plateau,
        }
        optional = ("draft_scorer", "verifier")
        config = EngineConfig.of(
            disabled_rules=self.disabled_rules,
            blocked_plugins=self.blocked_plugins,
            plugin_files=self.plugin_files,
            transfer=self.transfer,
            builtin_library=self.builtin_library,
            fp_tolerance=self.fp_tolerance,
            strict_fp=self.strict_fp,
            stress_check=self.stress_check,
            **{
                name: None if name in optional and value == "none" else value
                for name, value in given.items()
                if value is not None
            },
        )
        check_blocked(config.blocked_plugins, config.plugin_files)
        return config


def current_policy(options: CurrentOptions) -> Policy:
    """What `tune` with these options would prune by. Raises ConfigError, ProfileError."""
    from prune_engine.hardware.registry import ProfileRegistry
    from prune_engine.hardware.schema import HardwareProfile
    from prune_engine.option_values import threads_or_default
    from prune_engine.plugins import PluginHost
    from prune_engine.provenance.policy import policy_of
    from prune_engine.strategy_set import load_strategies

    config = options.config()
    host = PluginHost(config)
    host.load()
    computed = [
        (name, item)
        for name, item in host.collect("register_hardware_profiles")
        if isinstance(item, HardwareProfile)
    ]
    profile = ProfileRegistry(computed).resolve(options.profile, n_threads=threads_or_default(options.threads))
    return policy_of(host, load_strategies(host, config), config, profile)


def policy_from(source: str, options: CurrentOptions, store: str | None) -> tuple[str, Policy]:
    """The policy of ``current``, a lock file, a result folder or a run's id, with what it is, for people.

    A run's id may be cut to its first letters. Raises ConfigError, ArtifactError, StoreError.
    """
    if source == CURRENT:
        return "the current policy", current_policy(options)
    path = Path(source)
    if path.is_dir():
        return f"the policy of {source}", _of_artifact(path)
    if path.is_file():
        from prune_engine.provenance.policy_files import read_lock

        return f"the policy pinned in {source}", read_lock(path)
    return _of_run(source, store)


def _of_artifact(folder: Path) -> Policy:
    from prune_engine.metaschedule.artifact_metadata import read_metadata

    return _recorded(read_metadata(folder).manifest, str(folder))


def _of_run(run_id: str, url: str | None) -> tuple[str, Policy]:
    from prune_engine.store.open import default_path, open_existing_store

    if url is None and not default_path().exists():
        raise _unknown(run_id, "")
    store = open_existing_store(url)
    try:
        found = [run for run in store.runs() if run_id and run.run_id.startswith(run_id)]
    finally:
        store.close()
    if len(found) != 1:
        raise _unknown(run_id, f"; {len(found)} runs begin like this" if found else "")
    return f"the policy of run {found[0].run_id}", _recorded(found[0].manifest, f"run {found[0].run_id}")


def _recorded(manifest: object, who: str) -> Policy:
    from collections.abc import Mapping

    from prune_engine.provenance.policy import Policy

    record = manifest.get("policy") if isinstance(manifest, Mapping) else None
    if record is None:
        raise ConfigError(
            "no policy was recorded", who=who, expected="a result of a prune-engine that records policies"
        )
    return Policy.from_json(record, who)


def _unknown(source: str, note: str) -> ConfigError:
    return ConfigError(
        f"no policy of this name{note}",
        who="policy",
        got=repr(source),
        expected="current, a lock file, a folder that `tune` wrote, or the id of a run in the store",
        remedy="Name another store with --store if the run is in one.",
    )
