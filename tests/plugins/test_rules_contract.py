"""Every rule of the rules plugin keeps the contract, on spaces of its own kind and on strange ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kits.rules import gemm_space
from prune_engine_rules import register_demanded_rules, register_rules

from prune_engine.config import EngineConfig
from prune_engine.hardware.levels import DeviceKind
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.space import DesignSpace
from prune_engine.strategies import Rule
from prune_engine.testing import RuleContract, make_profile, make_space

ALL = [*register_rules(), *register_demanded_rules(EngineConfig(strict_fp=True))]
RULES = {rule.name: rule for rule in ALL}
PAGE = Path(__file__).parents[2] / "docs" / "plugins" / "rules.md"


@pytest.mark.parametrize("name", RULES)
class TestShippedRules(RuleContract):
    """On a space without loop nests; masks over nests and symbols have tests of their own."""

    @pytest.fixture(params=list(DeviceKind), ids=str)
    def profile(self, request: pytest.FixtureRequest) -> HardwareProfile:
        return make_profile(request.param)

    @pytest.fixture
    def rule(self, name: str) -> Rule:
        return RULES[name]

    @pytest.fixture
    def space(self) -> DesignSpace:
        return make_space()

    def test_tables_with_subjects(self, rule: Rule, profile: HardwareProfile) -> None:
        self.test_restriction_fits_the_space(rule, gemm_space(), profile)


def test_names_are_unique_and_orders_differ_within_a_kind() -> None:
    assert len(RULES) == len(ALL)
    assert len({(rule.kind, rule.order) for rule in ALL}) == len(ALL)


def test_every_rule_is_documented_with_kind_and_basis() -> None:
    rows = dict(re.findall(r"^\| `(rules\.[a-z0-9-]+)` \|(.*)\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert set(rows) == set(RULES)
    for name, rule in RULES.items():
        assert rule.kind.value in rows[name], name
        for path in rule.hardware_basis:
            assert f"`{path}`" in rows[name], f"{name}: {path}"
