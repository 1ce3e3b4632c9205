"""Options of `prune-engine policy`: what `tune` can be told of numbers can be pinned."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

Inside = Callable[..., "tuple[int, str, str]"]


@pytest.mark.parametrize(
    ("option", "name", "value"),
    [
        (("--strict-fp",), "strict_fp", True),
        (("--fp-tolerance", "1e-6"), "fp_tolerance", 1e-6),
        (("--no-stress-check",), "stress_check", False),
    ],
)
def test_demands_on_numbers_are_of_the_policy(
    inside: Inside, option: tuple[str, ...], name: str, value: object
) -> None:
    """Else a run with the option could not follow any policy that was pinned beforehand."""
    device = ("--profile", "intel-xeon-8480plus", "--threads", "1")
    code, out, err = inside("policy", "show", *device, *option, "--json")
    assert code == 0, err
    assert json.loads(out)["content"]["thresholds"][name] == value
    assert inside("policy", "pin", "policy.lock", *device, *option)[0] == 0
    code, out, err = inside("policy", "diff", "policy.lock", "current", *device, *option)
    assert "no difference" in out, err
    assert f"thresholds/{name}: " in inside("policy", "diff", "policy.lock", *device)[1]
