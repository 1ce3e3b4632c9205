import numpy as np
import pytest

from prune_engine.metaschedule.importers import TensorInfo
from prune_engine.metaschedule.model_inputs import random_inputs


def _one(shape, dtype, name="x", seed=0):
    return random_inputs([TensorInfo(name, shape, dtype)], seed)[name]


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "bfloat16", "int8", "int32", "int64", "uint8", "bool"]
)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4)])
def test_inputs_have_the_declared_shape_and_dtype(shape, dtype):
    array = _one(shape, dtype)
    assert array.shape == shape
    assert array.dtype.name == dtype


def test_integers_are_valid_tokens_indices_and_masks():
    assert set(np.unique(_one((1000,), "int64"))) == {0, 1}


def test_the_seed_decides():
    assert np.array_equal(_one((9,), "float32", seed=3), _one((9,), "float32", seed=3))
    assert not np.array_equal(_one((9,), "float32", seed=3), _one((9,), "float32", seed=4))


def test_a_sample_rate_is_one_a_model_accepts():
    assert _one((), "int64", name="sr") == 16000
    assert _one((2,), "int64", name="sr").max() <= 1
