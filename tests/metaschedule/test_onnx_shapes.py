from pathlib import Path

import pytest
from onnx import TensorProto, helper

from prune_engine.errors import ConfigError, ModelImportError
from prune_engine.metaschedule.onnx_shapes import OpenDimension, describe_inputs, make_static

PATH = Path("model.onnx")


def _model(ir_version=8, weights=(), **inputs):
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, axes) if not isinstance(axes, TensorProto) else axes
        for name, axes in inputs.items()
    ]
    graph = helper.make_graph([], "graph", values, [], list(weights))
    model = helper.make_model(graph)
    model.ir_version = ir_version
    return model


def _shapes(model):
    return {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input}


def test_a_symbol_is_bound_everywhere_by_its_name():
    model = _model(ids=["batch", "seq"], mask=["batch", "seq"], x=[1, 3])
    assert make_static(model, {}, {"batch": 2, "seq": 128}, PATH) == []
    assert _shapes(model) == {"ids": [2, 128], "mask": [2, 128], "x": [1, 3]}


def test_a_shape_binds_its_symbols_in_other_inputs():
    model = _model(ids=["batch", "seq"], mask=["batch", "seq"])
    assert make_static(model, {"ids": (1, 64)}, {}, PATH) == []
    assert _shapes(model)["mask"] == [1, 64]


@pytest.mark.parametrize("nameless", [None, "", "?", -1, 0, "-1"])
def test_nameless_dimensions_are_open_and_independent(nameless):
    model = _model(x=[nameless, 3, nameless, nameless])
    still_open = make_static(model, {}, {}, PATH)
    assert still_open == [
        OpenDimension("x", 0, None, 1),
        OpenDimension("x", 2, None, 224),
        OpenDimension("x", 3, None, 224),
    ]
    assert make_static(model, {"x": (1, 3, 48, 192)}, {}, PATH) == []


def test_suggestions_are_the_usual_sizes():
    model = _model(ids=["N", "sequence_length"], x=["batch_size", "height", "foo"])
    still_open = make_static(model, {}, {}, PATH)
    assert [(d.symbol, d.suggestion) for d in still_open] == [
        ("N", 1),
        ("sequence_length", 128),
        ("batch_size", 1),
        ("height", 224),
        ("foo", None),
    ]


def test_scalars_stay_scalars_and_unknown_rank_is_open():
    model = _model(sr=[], x=None)
    assert make_static(model, {}, {}, PATH) == [OpenDimension("x", None, None, None)]
    assert make_static(model, {"x": (4,), "sr": ()}, {}, PATH) == []
    assert model.graph.input[0].type.tensor_type.HasField("shape")
    assert _shapes(model) == {"sr": [], "x": [4]}


def test_an_input_of_unknown_rank_can_become_a_scalar():
    model = _model(x=None)
    assert make_static(model, {"x": ()}, {}, PATH) == []
    assert model.graph.input[0].type.tensor_type.HasField("shape")


@pytest.mark.parametrize(
    ("shapes", "dims", "says"),
    [
        ({"y": (1, 3)}, {}, "no input.*'y'.*expected 'x'"),
        ({"x": (1, 3, 4)}, {}, "another rank.*1x3x4.*batchx3"),
        ({"x": (1, 4)}, {}, "axis 1.*already fixed; got 4; expected 3"),
        ({"x": (2, 3)}, {"batch": 1}, r"axis 0.*got 2; expected 1 \(symbol 'batch'\)"),
        ({}, {"b": 1}, "no symbolic dimension.*'b'.*expected 'batch'"),
        ({}, {"batch": 0}, "too small; got 0"),
        ({"x": (-1, 3)}, {}, "too small; got -1"),
    ],
)
def test_what_does_not_fit_the_model_is_refused(shapes, dims, says):
    with pytest.raises(ConfigError, match=says):
        make_static(_model(x=["batch", 3]), shapes, dims, PATH)


def test_two_shapes_that_give_a_symbol_two_values_are_refused():
    with pytest.raises(ConfigError, match=r"input 'b'.*got 2; expected 1"):
        make_static(_model(a=["n"], b=["n"]), {"a": (1,), "b": (2,)}, {}, PATH)


def test_weights_listed_as_inputs_are_no_inputs():
    weight = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    model = _model(ir_version=3, weights=[weight], x=["n"], w=[1])
    assert [d.input_name for d in make_static(model, {}, {}, PATH)] == ["x"]
    assert [i.name for i in model.graph.input] == ["x"]
    assert model.ir_version >= 4


def test_an_input_that_is_no_tensor_is_refused():
    model = _model()
    model.graph.input.append(helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [1]))
    with pytest.raises(ModelImportError, match="'s' is not a tensor"):
        make_static(model, {}, {}, PATH)


def test_inputs_are_described_as_they_are_written():
    assert describe_inputs(_model(x=["n", 3], s=[])) == "x=nx3 (float), s=scalar (float)"
