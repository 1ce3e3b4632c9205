"""The manifest of a run as rows, the policy that made it, and its hardware profile read back."""

from __future__ import annotations

import json
import shlex
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from prune_engine.errors import PruneEngineError
from prune_engine.hardware.host import HOST
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.hardware.schema import HardwareProfile

#: Told elsewhere in the report, or too long for a row.
_LONG = ("profile_content", "policy")


def environment_rows(manifest: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Name and value of everything in a manifest, nested names joined by dots."""
    return tuple(_rows({name: value for name, value in manifest.items() if name not in _LONG}, ""))


def policy_hash(manifest: Mapping[str, object]) -> str:
    """The hash of the policy that made the run, "" where the run was made before there were any."""
    policy = manifest.get("policy")
    digest = policy.get("hash") if isinstance(policy, Mapping) else policy
    return digest if isinstance(digest, str) else ""


def heuristics_of(manifest: Mapping[str, object]) -> frozenset[str]:
    """The rules that guess, by the policy in a manifest; none where the run was made before there were any."""
    policy = manifest.get("policy")
    content = policy.get("content") if isinstance(policy, Mapping) else None
    rules = content.get("rules") if isinstance(content, Mapping) else None
    return frozenset(
        str(name)
        for name, rule in (rules.items() if isinstance(rules, Mapping) else ())
        if isinstance(rule, Mapping) and rule.get("kind") == "heuristic"
    )


def probe_of(profile: HardwareProfile, n_threads: int) -> HardwareProfile | None:
    """What `prune-engine profiles probe` measured of the processor that the operating system described for a run.

    None for a profile that somebody wrote, and where nobody has probed such a processor with as many threads.
    """
    if profile.name != HOST:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of files that are no profiles: a report does not need them
        try:
            known = ProfileRegistry().profiles().values()
        except PruneEngineError:
            return None
    wanted = (profile.description, n_threads)
    return next((one for one in known if one.probe and (one.probe.cpu_model, one.probe.n_threads) == wanted), None)


def profile_of(manifest: Mapping[str, object]) -> tuple[HardwareProfile | None, str]:
    """The profile that a run went by, as the manifest keeps it; of older runs the one of that name now.

    None and the reason if there is neither.
    """
    content, name = manifest.get("profile_content"), str(manifest.get("profile", ""))
    try:
        if content is not None:
            return HardwareProfile.model_validate_json(json.dumps(content)), ""
        return ProfileRegistry().resolve(name), ""
    except ValidationError as error:
        return None, f"the profile in the manifest cannot be read ({error.error_count()} problems)"
    except PruneEngineError:
        return (
            None,
            f"the manifest of this older run only names its profile, {name}, and there is none of that name now",
        )


def _rows(node: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, Mapping) and node:
        for name, value in node.items():
            yield from _rows(value, f"{path}.{name}" if path else str(name))
    elif path == "argv" and isinstance(node, list):
        yield path, shlex.join(map(str, node))
    elif isinstance(node, list):
        yield path, ", ".join(item if isinstance(item, str) else json.dumps(item) for item in node) or "none"
    else:
        yield path, node if isinstance(node, str) else json.dumps(node)
