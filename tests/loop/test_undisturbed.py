"""The collector of reference cycles waits, and is as it was afterwards."""

from __future__ import annotations

import gc

import pytest

from prune_engine.loop.undisturbed import undisturbed


@pytest.fixture(autouse=True)
def as_it_was():
    """Leave the collector as it is found."""
    was_on = gc.isenabled()
    yield
    (gc.enable if was_on else gc.disable)()


@pytest.mark.parametrize("was_on", [True, False])
def test_the_collector_waits_and_is_as_before(was_on: bool) -> None:
    (gc.enable if was_on else gc.disable)()
    with undisturbed():
        with undisturbed():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled() is was_on


def test_it_is_as_before_after_an_error_too() -> None:
    gc.enable()
    with pytest.raises(ValueError, match="wrong"), undisturbed():
        raise ValueError("wrong")
    assert gc.isenabled()
