"""Holds an artefact's winners against this machine, compiler and profile: legal, correct, as fast as ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from prune_engine.artifact_files import file_digest
from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError, PruneEngineError
from prune_engine.hardware.host import cpu_model, usable_cpus
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.metaschedule.artifact_metadata import ArtifactMetadata, read_metadata
from prune_engine.metaschedule.kept_kernels import KeptKernel, kept_kernels
from prune_engine.plugins import PluginHost
from prune_engine.provenance.manifest import PACKAGES
from prune_engine.provenance.policy import Policy, diff, policy_of, version_of
from prune_engine.provenance.verification import Check, CheckStatus, KernelVerification, Times, Verification
from prune_engine.strategy_set import Strategies, load_strategies

if TYPE_CHECKING:
    from prune_engine.metaschedule.kernel_checks import KernelChecker

#: Of a recorded policy's strategies, those that options name.
_NAMED = ("explorer", "draft_scorer", "verifier", "selector")
#: Fields of a recorded policy that cannot be made again from it: the digest of a file says not where it is.
_KEPT_PRIOR = "blake2b:"


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """What `verify` is asked. ``max_slowdown`` is the factor by which a kernel may be slower than recorded.

    ``config`` gives plugin files and blocked plugins; all else that steers is as the artefact recorded it.
    """

    artifact_dir: Path
    profile: str = "auto"
    measure: bool = True
    max_slowdown: float = 1.1
    config: EngineConfig = field(default_factory=EngineConfig)


def verify_artifact(request: VerifyRequest, *, say: Callable[[str], None] = lambda _: None) -> Verification:
    """Check every winner that an artefact keeps. What is wrong with it is in the result, not raised.

    Raises ArtifactError or ConfigError for a folder that is no artefact, ConfigError for options that cannot be
    used or more threads than this machine has, ProfileError, and MeasureServerError.
    """
    folder = request.artifact_dir
    metadata = read_metadata(folder)
    _check_threads(request, metadata)
    old_policy = _recorded_policy(metadata, str(folder))
    remarks: list[str] = []
    host, strategies, config = _strategies(request, old_policy, remarks)
    profile = _profile(request, host, metadata)
    policy = _policy(policy_of(host, strategies, config, profile), old_policy)
    say(f"profile {profile.name}; reading the kept kernels")
    kernels, told = kept_kernels(folder, metadata)
    remarks += told
    from prune_engine.metaschedule.kernel_checks import KernelChecker

    with ExitStack() as stack:
        checker = stack.enter_context(
            KernelChecker(
                metadata,
                [rule for rule in strategies.rules if rule.name not in config.disabled_rules],
                strategies.symbols,
                profile,
                _old_profile(metadata),
                unchanged_rules(old_policy, policy, strategies),
                max_slowdown=request.max_slowdown,
                measure=request.measure and bool(kernels),
            )
        )
        verified = tuple(_verified(kernels, checker, say))
    old_device = metadata.manifest.get("device")
    return Verification(
        artifact=str(folder),
        checks=(_library_check(folder, metadata),),
        kernels=verified,
        policies=(old_policy.hash if old_policy else None, policy.hash),
        changes=diff(old_policy, policy) if old_policy else (),
        devices=(old_device if isinstance(old_device, str) else None, cpu_model()),
        profiles=(_text(metadata.manifest.get("profile")), profile.name),
        versions=_changed_versions(metadata),
        remarks=(*remarks, *(f"plugin {record.name} {record.summary}" for record in host.failed)),
    )


def unchanged_rules(old: Policy | None, new: Policy, strategies: Strategies) -> frozenset[str]:
    """Names of the rules that are the same code as when the artefact was made.

    Of these one can ask what they said of a winner under the profile of then.
    """
    if old is None:
        return frozenset()
    rules, plugins, now = old.content["rules"], old.content["plugins"], new.content["plugins"]

    def is_same(name: str) -> bool:
        then, owner = rules.get(name), strategies.owners.get(name, "")
        is_known = isinstance(then, Mapping) and bool(then.get("is_enabled"))
        return is_known and owner in now and plugins.get(owner) == now[owner]

    return frozenset(rule.name for rule in strategies.rules if is_same(rule.name))


def _verified(
    kernels: Sequence[KeptKernel], checker: KernelChecker, say: Callable[[str], None]
) -> Iterator[KernelVerification]:
    for number, kernel in enumerate(kernels, 1):
        record = kernel.record
        say(f"kernel {number} of {len(kernels)}: {record.name}")
        old = Times(record.best_secs, record.default_secs)
        if kernel.task is None:
            checks: tuple[Check, ...] = (Check("legal", CheckStatus.WARNING, kernel.problem),)
            new, slowdown = None, None
        else:
            checks, new, slowdown = checker.check(kernel.task, record.trace_json, old)
        yield KernelVerification(
            record.name, record.task_id, record.weight, record.candidate_id, old, new, slowdown, checks
        )


def _check_threads(request: VerifyRequest, metadata: ArtifactMetadata) -> None:
    n_cores = len(usable_cpus())
    if request.measure and metadata.n_threads > n_cores:
        raise ConfigError(
            "it was tuned for more threads than there are usable cores",
            who=str(request.artifact_dir),
            got=metadata.n_threads,
            expected=f"at most {n_cores}",
            remedy="Verify on a machine like the one it was tuned for, or without timing: --no-measure.",
        )


def _recorded_policy(metadata: ArtifactMetadata, who: str) -> Policy | None:
    record = metadata.manifest.get("policy")
    return None if record is None else Policy.from_json(record, who)


def _strategies(
    request: VerifyRequest, old: Policy | None, remarks: list[str]
) -> tuple[PluginHost, Strategies, EngineConfig]:
    """Plugins and options as they were recorded, as far as they still exist."""
    config = _recorded_config(request.config, old, remarks)
    host = PluginHost(config)
    host.load()
    try:
        return host, load_strategies(host, config), config
    except ConfigError as error:
        remarks.append(f"not all that the artefact was made with is there: {error}")
        fallback = PluginHost(request.config)
        fallback.load()
        return fallback, load_strategies(fallback, request.config), request.config


def _recorded_config(config: EngineConfig, old: Policy | None, remarks: list[str]) -> EngineConfig:
    if old is None:
        return config
    known = {name: value for name, value in old.content["thresholds"].items() if name in EngineConfig.model_fields}
    known |= {name: old.content["strategies"].get(name) for name in _NAMED}
    prior = old.content["models"].get("prior")
    if isinstance(prior, str) and not prior.startswith(_KEPT_PRIOR):
        known["prior"] = prior
    rules: Mapping[str, Any] = old.content["rules"]
    disabled = [name for name, rule in rules.items() if isinstance(rule, Mapping) and not rule.get("is_enabled")]
    given = config.model_dump(exclude_unset=True)
    try:
        return EngineConfig.of(**{**known, "disabled_rules": tuple(disabled), **given})
    except (ConfigError, TypeError) as error:
        remarks.append(f"the options that the artefact was made with cannot be used here: {error}")
        return config


def _policy(new: Policy, old: Policy | None) -> Policy:
    """The current policy, with the recorded prior where that was a file: what it is now nobody knows."""
    prior = old.content["models"].get("prior") if old else None
    if not isinstance(prior, str) or not prior.startswith(_KEPT_PRIOR):
        return new
    return Policy({**new.content, "models": {**new.content["models"], "prior": prior}})


def _profile(request: VerifyRequest, host: PluginHost, metadata: ArtifactMetadata) -> HardwareProfile:
    collected = host.collect("register_hardware_profiles")
    registry = ProfileRegistry([(name, item) for name, item in collected if isinstance(item, HardwareProfile)])
    if request.profile == "auto":
        chosen = host.first("resolve_hardware_profile", target=metadata.target, profiles=registry.profiles())
        if isinstance(chosen, HardwareProfile):
            return chosen
    return registry.resolve(request.profile, n_threads=metadata.n_threads)


def _old_profile(metadata: ArtifactMetadata) -> HardwareProfile | None:
    """The profile that the artefact was made with; None where it was not kept or cannot be read any more."""
    import json

    content = metadata.manifest.get("profile_content")
    if not isinstance(content, Mapping):
        return None
    try:
        return HardwareProfile.model_validate_json(json.dumps(content))  # JSON: strict about it, not about tuples
    except (ValidationError, PruneEngineError, ValueError):
        return None


def _library_check(folder: Path, metadata: ArtifactMetadata) -> Check:
    library = folder / metadata.library
    try:
        digest = file_digest(library)
    except OSError as error:
        return Check("library", CheckStatus.FAILED, f"{metadata.library} cannot be read: {error.strerror or error}")
    if digest != metadata.library_digest:
        return Check("library", CheckStatus.FAILED, f"{metadata.library} is not the file that was written")
    return Check("library", CheckStatus.PASSED, f"{metadata.library} is the file that was written")


def _changed_versions(metadata: ArtifactMetadata) -> dict[str, tuple[str | None, str | None]]:
    recorded = metadata.manifest.get("versions")
    old: dict[str, Any] = {**metadata.versions, **(recorded if isinstance(recorded, Mapping) else {})}
    now = {name: version_of(name) for name in PACKAGES}
    return {name: (_text(old.get(name)), now[name]) for name in PACKAGES if name in old and old[name] != now[name]}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
