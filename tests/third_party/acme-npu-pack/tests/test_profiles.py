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
