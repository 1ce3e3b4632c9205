"""What a verifier knows before the first measurement: a file of the user's, or one that comes with the plugin."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from prune_engine.errors import ConfigError
from prune_engine_lightgbm.device import Device
from prune_engine_lightgbm.files import read_model
from prune_engine_lightgbm.source import MIN_ROWS, Source, train_source

BUILTIN, NONE = "builtin", "none"
#: Folder of the plugin with a file for each kind and vendor of device, named KIND-VENDOR.npz.
_FOLDER = "priors"


def find_prior(prior: str, device: Device, seed: int) -> Source | None:
    """The source model that ``prior`` names: ``builtin``, ``none`` or a file's path.

    A built-in one is given only to a device of the same kind and vendor: others mislead too often. A file's is
    given to any device of its kind, since the user said so. Raises ConfigError for a file that cannot be read or
    teaches nothing.
    """
    if prior == NONE:
        return None
    if prior == BUILTIN:
        found = resources.files("prune_engine_lightgbm") / _FOLDER / f"{device.kind}-{device.vendor}.npz"
        with resources.as_file(found) as path:
            return _source_of(path, seed) if path.is_file() else None
    source = _source_of(Path(prior), seed)
    if source is None or source.kind != device.kind:
        raise ConfigError(
            "this prior teaches nothing here",
            who=prior,
            got="too few measurements" if source is None else f"a {source.kind}",
            expected=f"measurements on a {device.kind}, at least {MIN_ROWS} of one kernel that ran",
            remedy="Give another file, or --prior none.",
        )
    return source


def _source_of(path: Path, seed: int) -> Source | None:
    content = read_model(path)
    return None if content.device is None else train_source(content.device, tuple(content.tasks.values()), seed)
