from pathlib import Path

import pytest

from prune_engine.metaschedule.onnx_errors import import_error


@pytest.mark.parametrize(
    ("raised", "says"),
    [
        (ValueError("Dynamic pads are not supported yet."), "computes a shape.*onnxslim"),
        (
            TypeError(
                "Reshape requires the input new shape to be Shape. However, the given one is relax.TensorType"
            ),
            "computes",
        ),
        (
            RuntimeError("Reshape expects the input data to be a Tensor. However, the given input is ir.PrimType"),
            "computes",
        ),
        (RuntimeError("Op(relax.add): the given input has no shape"), "computes"),
        (TypeError("object of type 'NoneType' has no len()"), "dynamic.*--shape"),
        (TypeError("int() argument must be a string or a real number, not 'Var'"), "dynamic.*--shape"),
        (AssertionError("emit_te now only supports Tensor that has ShapeExpr shape"), "dynamic.*--shape"),
        (ValueError("Cannot cast <class 'NoneType'> to list of Expr"), "optional input.*opset 13"),
        (RuntimeError('Traceback:\n  File "x.cc"\nsomething new'), "RuntimeError: something new.*report"),
    ],
)
def test_known_messages_become_advice_and_unknown_ones_stay_readable(raised, says):
    error = import_error(raised, Path("m.onnx"), 17, operator="Pad", node="pad_1", folding=None)
    with pytest.raises(type(error), match=f"m.onnx: .*{says}") as caught:
        raise error
    assert "(operator Pad, node 'pad_1', opset 17)" in str(caught.value)


def test_the_reason_for_not_folding_is_part_of_the_advice():
    error = import_error(
        ValueError("Dynamic pads are not supported"), Path("m"), 17, operator=None, node=None, folding="no ort"
    )
    assert "not folded: no ort" in str(error)
