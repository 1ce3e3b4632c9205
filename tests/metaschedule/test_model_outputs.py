import numpy as np
import pytest

from prune_engine.metaschedule.model_outputs import compare_outputs


def _compare(got, expected):
    return compare_outputs(["y"], [got], [expected], "reference")[0]


@pytest.mark.parametrize(
    ("dtype", "relative", "is_within"),
    [
        ("float32", 4e-3, True),
        ("float32", 6e-3, False),
        ("float16", 4e-2, True),
        ("float16", 7e-2, False),
        ("float64", 9e-7, True),
        ("float64", 2e-6, False),
    ],
)
def test_floats_may_differ_by_a_share_of_the_largest_value(dtype, relative, is_within):
    expected = np.array([0, 1, -100], dtype)
    got = expected + np.array([100 * relative, 0, 0], dtype)
    difference = _compare(got, expected)
    assert difference.is_within is is_within
    assert difference.max_rel == pytest.approx(relative, rel=0.01)


@pytest.mark.parametrize(
    ("dtype", "step", "is_within"),
    [("int64", 0, True), ("int64", 1, False), ("int8", 1, True), ("uint8", 2, False)],
)
def test_integers_are_exact_but_for_quantised_steps(dtype, step, is_within):
    expected = np.array([5, 100], dtype)
    assert _compare(expected + np.array([step, 0], dtype), expected).is_within is is_within


def test_booleans_are_exact():
    assert not _compare(np.array([True, False]), np.array([True, True])).is_within


def test_nan_and_infinity_must_be_in_the_same_places():
    expected = np.array([1, np.nan, np.inf], np.float32)
    assert _compare(expected.copy(), expected).is_within
    for got in ([1, 2, np.inf], [np.nan, np.nan, np.inf], [1, np.nan, -np.inf], [np.inf, np.nan, np.inf]):
        difference = _compare(np.array(got, np.float32), expected)
        assert not difference.is_within
        assert "NaN or infinities" in difference.problem


def test_other_shapes_and_dtypes_differ():
    expected = np.zeros(3, np.float32)
    assert "(4,) instead of" in _compare(np.zeros(4, np.float32), expected).problem
    assert "float64" in _compare(np.zeros(3), expected).problem


def test_a_reference_of_zeros_is_compared_absolutely():
    assert _compare(np.full(2, 1e-4, np.float32), np.zeros(2, np.float32)).is_within
    assert not _compare(np.full(2, 1e-2, np.float32), np.zeros(2, np.float32)).is_within
    assert _compare(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)).is_within
