"""The files of a pack's project: data, one entry-point line, and a test of the author's own."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PYPROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "0.1.0"
description = "Hardware profiles of {vendor} for prune-engine"
readme = "README.md"
requires-python = ">=3.10"
# None: a pack is data. The version of its format is in each file.
dependencies = []

# This line makes it a pack: whoever installs it can name its profiles.
[project.entry-points."prune_engine.hardware_profiles"]
{entry} = "{package}"

[tool.setuptools.package-data]
"*" = ["*.yaml"]
"""
_README = """\
# {name}

Hardware profiles of {vendor} for [prune-engine](https://pypi.org/project/prune-engine/): YAML files in
`src/{package}/`, one per device. There is no code in here.

```bash
prune-engine profiles check .     # all mistakes of all files, with line and remedy
python -m pytest                  # the same, for continuous integration
pip install .
prune-engine profiles list
```

Another device: `prune-engine profiles new {vendor}/DEVICE --kind KIND --folder src/{package}`.
"""
_TEST = '''\
"""All profiles of this pack can be used."""

from pathlib import Path

import pytest

from prune_engine.hardware import load_profile

FILES = sorted(Path(__file__).parents[1].glob("src/*/*.yaml"))


def test_there_are_profiles():
    assert FILES


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_profile_can_be_used(file):
    assert load_profile(file).name == file.stem
'''


def import_name(distribution: str) -> str:
    """The package of a distribution: its name with underscores."""
    return re.sub(r"[-_.]+", "_", distribution).lower()


def pack_project(name: str, vendor: str, profile_file: str, profile_yaml: str) -> Mapping[str, str]:
    """Files of a pack by their path in its folder; ``name`` is that of the distribution."""
    package = import_name(name)
    words = {"name": name, "vendor": vendor, "package": package, "entry": vendor}
    return {
        "pyproject.toml": _PYPROJECT.format(**words),
        "README.md": _README.format(**words),
        f"src/{package}/{profile_file}": profile_yaml,
        "tests/test_profiles.py": _TEST,
    }
