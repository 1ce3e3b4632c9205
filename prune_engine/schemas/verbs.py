"""Which verb prints what with --json: a type for each, from which the schemas are made.

Fields may be added to an object in any version. None is removed or gets another meaning before the next major one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, TypeAdapter

from prune_engine.hardware.meanings import MEANINGS
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.schemas import common, profiles, stores, studies, tuning

DIALECT = "https://json-schema.org/draft/2020-12/schema"
#: Verb, as one types it -> what is on stdout with --json.
PRINTED: Mapping[str, Any] = {
    "tune": tuning.TuneResult | tuning.ReplayResult,
    "transfer": tuning.TuneResult,
    "run": tuning.RunResult,
    "report": tuning.Report,
    "verify": tuning.Verification,
    "spaces": studies.Spaces,
    "prune": studies.Pruned,
    "candidates": studies.Candidates,
    "rank": studies.Ranked,
    "prior": studies.LearntPrior,
    "explain": studies.Told | studies.WhyNot,
    "plugins": list[profiles.Plugin],
    "plugins new": profiles.NewPlugin,
    "plugins check": profiles.CheckedPlugins,
    "profiles list": list[profiles.ProfileEntry],
    "profiles show": HardwareProfile,
    "profiles check": profiles.CheckedProfiles,
    "profiles new": profiles.NewProfile,
    "profiles diff": profiles.Differences,
    "profiles probe": HardwareProfile,
    "policy show": profiles.Policy,
    "policy diff": profiles.PolicyDifference,
    "policy pin": profiles.PinnedPolicy,
    "library list": list[stores.LibraryKernel],
    "library import": stores.LibraryImport,
    "library export": stores.LibraryExport,
    "library prune": stores.LibraryPruned,
    "whitelist list": stores.WhitelistEntries | stores.WhitelistRemovals,
    "whitelist add": stores.WhitelistAdded,
    "whitelist remove": stores.WhitelistRemoved,
    "whitelist verify": stores.WhitelistVerified,
    "whitelist import": stores.WhitelistImport,
    "whitelist export": stores.WhitelistExport,
}
#: What is printed besides the fields of a profile, by verb.
_WITH_PROFILE: Mapping[str, Mapping[str, str]] = {
    "profiles show": {"digest": "hash of the numbers and structure", "found": "where it was found"},
    "profiles probe": {"digest": "hash of the numbers and structure", "file": "where it was written"},
}


def schema_name(verb: str) -> str:
    """The name of a verb's schema: ``profiles list`` is ``profiles-list``."""
    return verb.replace(" ", "-")


def made_schemas() -> dict[str, dict[str, Any]]:
    """All schemas that follow from types, by name: of each verb, ``event``, and ``profile`` of YAML files."""
    found = {schema_name(verb): _of_verb(verb, printed) for verb, printed in PRINTED.items()}
    found["event"] = _headed("a line on stderr with --json", TypeAdapter(common.Event).json_schema())
    found["profile"] = _headed("a hardware profile, as its YAML file has it", profile_schema())
    return found


def profile_schema() -> dict[str, Any]:
    """The JSON Schema of a hardware profile, each field with its meaning."""
    schema = HardwareProfile.model_json_schema()
    records = {"HardwareProfile": schema, **schema["$defs"]}
    for record, meanings in MEANINGS.items():
        for field, meaning in meanings.items():
            records[record.__name__]["properties"][field]["description"] = meaning
    return schema


def _of_verb(verb: str, printed: Any) -> dict[str, Any]:
    if isinstance(printed, type) and issubclass(printed, BaseModel):
        schema = profile_schema()
        schema["properties"] |= {
            name: {"type": "string", "description": text} for name, text in _WITH_PROFILE[verb].items()
        }
        schema["required"] = [*schema["required"], *_WITH_PROFILE[verb]]
        del schema["additionalProperties"]
    else:
        schema = TypeAdapter(printed).json_schema(mode="serialization")
    return _headed(f"prune-engine {verb} --json", schema)


def _headed(title: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"$schema": DIALECT, **schema, "title": title}
