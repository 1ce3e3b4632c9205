"""What is recorded of a run besides its results."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Mapping

from prune_engine import __version__
from prune_engine.config import EngineConfig
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.measurement import Workbench
from prune_engine.provenance.machine_state import load_state, machine_state
from prune_engine.provenance.policy import Policy, version_of

#: Packages whose version may matter for what a run did.
PACKAGES = (
    *("apache-tvm", "apache-tvm-ffi", "lightgbm", "numpy", "onnx", "onnxruntime", "pluggy", "pydantic", "scipy"),
    "SQLAlchemy",
)

#: The name and password in a URL, as of a store: a manifest travels with the artefact.
_PASSWORD = re.compile(r"(://)[^/@\s]*@")


def manifest_of(
    config: EngineConfig,
    workbench: Workbench,
    profile: HardwareProfile,
    policy: Policy,
    added: Mapping[str, object],
) -> dict[str, object]:
    """What made a run, as JSON values: versions, machine, load, seed, options, profile and policy; and ``added``.

    ``profile_content`` is enough to read the profile back, with its sources. ``load_before`` is the machine at
    the time of the call.
    """
    return {
        "prune_engine": __version__,
        "device": workbench.device_name(),
        "n_threads": workbench.n_threads(),
        "seed": config.seed,
        "argv": [_PASSWORD.sub(r"\1***@", word) for word in sys.argv],
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {package: version_of(package) for package in PACKAGES},
        "machine": machine_state(),
        "load_before": load_state(),
        "profile": profile.name,
        "profile_digest": profile.digest(),
        "profile_content": profile.model_dump(mode="json", exclude_unset=True),
        "policy": policy.as_json(),
        "config": config.model_dump(mode="json"),
        **added,
    }
