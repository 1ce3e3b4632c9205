"""Bounds of reordered sums: the textbook's formulas, and sums that keep to them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from prune_engine.metaschedule.measure.error_bounds import (
    absolute_floor,
    compare,
    format_of,
    gamma,
    linear_bound,
    normwise_bound,
    relative_bound,
)
from prune_engine.metaschedule.rounding import RoundingStep

U32 = 2.0**-24


def test_gamma_is_highams() -> None:
    assert gamma(1000, U32, is_random=False) == pytest.approx(1000 * U32 / (1 - 1000 * U32))


def test_random_errors_grow_with_the_root_of_the_length_and_are_never_larger() -> None:
    ratio = gamma(400_000, U32, is_random=True) / gamma(100_000, U32, is_random=True)
    assert ratio == pytest.approx(2, rel=0.01)
    for n in (1, 10, 1000, 100_000):
        assert gamma(n, U32, is_random=True) <= gamma(n, U32, is_random=False)


def test_long_sums_of_halves_are_bounded_by_their_magnitude() -> None:
    assert gamma(4096, format_of("float16").unit_roundoff, is_random=True) == 1.0


@pytest.mark.parametrize("n", [16, 256, 4096])
def test_sums_in_any_order_keep_to_the_bound(n: int) -> None:
    rng = np.random.default_rng(0)
    values = (rng.random((64, n)) * 2 - 1).astype(np.float32)
    one = np.add.accumulate(values, axis=1)[:, -1]
    other = np.add.accumulate(values[:, ::-1], axis=1)[:, -1]
    magnitude = np.abs(values).astype(np.float64).sum(axis=1)
    bound = linear_bound(magnitude, relative_bound([RoundingStep(n, "float32")], is_random=True))
    everywhere = np.ones(64, dtype=np.bool_)
    assert compare(other, one, bound, everywhere).problem is None
    without_last = one - values[:, -1]
    assert compare(without_last, one, bound, everywhere).problem is not None


def test_bfloat16_has_its_own_numbers() -> None:
    assert format_of("bfloat16").unit_roundoff == 2.0**-8
    assert format_of("bfloat16").least == 2.0**-133
    with pytest.raises(TypeError, match="float8_e4m3"):
        format_of("float8_e4m3fn")


def test_the_floor_is_some_steps_of_the_least_number() -> None:
    floor = absolute_floor([RoundingStep(10, "float32")], "float32")
    assert floor == 40 * math.ldexp(1, -149)


def test_a_normwise_bound_follows_the_condition() -> None:
    result, still, steep = np.ones(3), [np.zeros(3)], [np.full(3, 1e3)]
    assert normwise_bound(result, still, 1e-6)[0] == pytest.approx(1e-6)
    assert normwise_bound(result, steep, 1e-6)[0] > 1e-3


class TestCompare:
    expected = np.array([1.0, 2.0], dtype=np.float32)
    bound = np.array([0.1, 0.0])

    def test_the_bound_of_each_value_counts(self) -> None:
        everywhere = np.array([True, True])
        assert compare(self.expected + np.float32(0.05), self.expected, self.bound, everywhere).problem is not None
        assert compare(np.array([1.05, 2.0]), self.expected, self.bound, everywhere).problem is None

    def test_what_is_undecided_may_be_anything(self) -> None:
        first = np.array([True, False])
        assert compare(np.array([1.0, np.inf]), self.expected, self.bound, first).problem is None
        assert compare(np.array([np.nan, 2.0]), self.expected, self.bound, first).problem is not None

    def test_both_infinite_is_fine(self) -> None:
        both = np.array([np.inf, 2.0])
        assert compare(both, both, self.bound, np.array([True, True])).problem is None
