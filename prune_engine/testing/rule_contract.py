"""What every Rule must do, as a pytest class. Subclass it and give it your rule.

class TestMyRule(RuleContract):
    @pytest.fixture
    def rule(self):
        return MyRule()

A rule that reads symbols needs a space that has them, and a profile of the device it is for:

    @pytest.fixture
    def space(self):
        return make_space(symbols={"threads_per_block": [32, 64, 1024, 2048]})

    @pytest.fixture
    def profile(self):
        return make_profile(DeviceKind.GPU)
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from prune_engine.contracts import check_mask, check_restriction
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.space import DesignSpace
from prune_engine.stages.reasons import CandidateSymbols
from prune_engine.strategies import Rule
from prune_engine.testing.builders import make_batch, make_space
from prune_engine.testing.checks import check_name, snapshot
from prune_engine.testing.hot_path import check_no_row_loop
from prune_engine.testing.planted import opaque_twin
from prune_engine.testing.profiles import make_profile
from prune_engine.verdicts import RuleKind


class RuleContract:
    """Override ``rule``; override ``space``, ``profile`` and ``symbols`` if it needs particular ones."""

    @pytest.fixture
    def rule(self) -> Rule:
        """The rule under test."""
        raise NotImplementedError("give the contract a rule")

    @pytest.fixture
    def space(self) -> DesignSpace:
        """A space that the rule can judge."""
        return make_space()

    @pytest.fixture
    def profile(self) -> HardwareProfile:
        """A device with the limits the rule reads."""
        return make_profile()

    @pytest.fixture
    def symbols(self, rule: Rule, space: DesignSpace, profile: HardwareProfile) -> Mapping[str, float]:
        """Symbols of a dropped candidate, as ``reason`` is given them; none if the rule drops none of the space."""
        for sketch in range(len(space.sketches)):
            batch = make_batch(100, space=space, sketch=sketch)
            dropped = np.flatnonzero(~rule.mask(batch, profile))
            if len(dropped):
                return CandidateSymbols(batch, int(dropped[0]))
        return {}

    def test_name_and_kind(self, rule: Rule, profile: HardwareProfile) -> None:
        """A dotted name, a kind, an order, and profile fields that exist."""
        check_name(rule)
        assert isinstance(rule.kind, RuleKind), f"kind is {rule.kind!r}, not a RuleKind"
        assert isinstance(rule.order, int), f"order is {rule.order!r}, not an int"
        is_own = [getattr(getattr(rule, m), "__func__", None) is not getattr(Rule, m) for m in ("mask", "restrict")]
        assert any(is_own), "it has neither mask nor restrict, and keeps everything: are they misspelt?"
        for path in rule.hardware_basis:
            profile.value(path)

    @pytest.mark.parametrize("n", [0, 1, 100])
    def test_mask_is_bool_n(self, rule: Rule, space: DesignSpace, profile: HardwareProfile, n: int) -> None:
        """One bool per candidate, in a batch of any length."""
        for sketch in range(len(space.sketches)):
            batch = make_batch(100, space=space, sketch=sketch).take(np.arange(n))
            check_mask(rule.name, rule.mask(batch, profile), n)

    def test_mask_looks_at_each_candidate_alone(
        self, rule: Rule, space: DesignSpace, profile: HardwareProfile
    ) -> None:
        """The order and the company of candidates make no difference, nor does asking twice."""
        for sketch in range(len(space.sketches)):
            batch = make_batch(60, space=space, sketch=sketch)
            mask = rule.mask(batch, profile).copy()
            order = np.random.default_rng(1).permutation(len(batch))[: len(batch) // 2]
            again = rule.mask(batch.take(order), profile)
            assert again.tolist() == mask[order].tolist(), "a candidate's verdict depends on its batch"
            assert rule.mask(batch, profile).tolist() == mask.tolist(), "asking twice gives two answers"

    def test_mask_does_not_loop_over_candidates(
        self, rule: Rule, space: DesignSpace, profile: HardwareProfile
    ) -> None:
        """Whole columns at once: as many steps of Python for a thousand candidates as for a few."""
        for sketch in range(len(space.sketches)):
            batch = make_batch(64, space=space, sketch=sketch)
            check_no_row_loop(rule, lambda rows: rule.mask(rows, profile), batch)

    def test_sketches_that_could_not_be_read_are_no_failure(
        self, rule: Rule, space: DesignSpace, profile: HardwareProfile
    ) -> None:
        """Where ``batch.is_opaque``, symbols of the loop nest do not exist; the rule must not ask for them."""
        twin = opaque_twin(space)
        for sketch in range(len(twin.sketches)):
            batch = make_batch(20, space=twin, sketch=sketch)
            check_mask(rule.name, rule.mask(batch, profile), len(batch))

    def test_inputs_are_not_changed(self, rule: Rule, space: DesignSpace, profile: HardwareProfile) -> None:
        """Batch, space and profile stay as they were."""
        batch = make_batch(20, space=space)
        before = snapshot(space, batch)
        rule.mask(batch, profile)
        rule.restrict(space, profile)
        assert snapshot(space, batch) == before, "the rule changed its input"

    def test_restriction_fits_the_space(self, rule: Rule, space: DesignSpace, profile: HardwareProfile) -> None:
        """None, or bool (m,) for variables of the space; never more than there was, never nothing."""
        cut = rule.restrict(space, profile)
        if cut is not None:
            smaller = space.restrict(check_restriction(rule.name, cut, space))
            assert 0 < smaller.size <= space.size, f"cut {space.size} candidates down to {smaller.size}"

    def test_reason_is_one_clause(self, rule: Rule, symbols: Mapping[str, float], profile: HardwareProfile) -> None:
        """Non-empty text on one line, also for what ``restrict`` cut: there are no symbols then."""
        nothing: Mapping[str, float] = {}
        # A rule is not asked why it dropped what it did not drop.
        has_dropped = not isinstance(symbols, dict) or bool(symbols)
        restricts = type(rule).restrict is not Rule.restrict
        for known in ([symbols] if has_dropped else []) + ([nothing] if restricts else []):
            reason = rule.reason(known, profile)
            assert isinstance(reason, str), f"reason is {reason!r}, not text"
            assert reason.strip(), "reason is empty"
            assert "\n" not in reason, f"reason has several lines: {reason!r}"
