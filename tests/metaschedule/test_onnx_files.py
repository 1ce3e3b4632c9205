import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from prune_engine.errors import ModelImportError
from prune_engine.metaschedule.onnx_files import digest_of, load_onnx


def _refused(path, says):
    with pytest.raises(ModelImportError) as error:
        load_onnx(path)
    assert str(path) in str(error.value)
    assert re.search(says, str(error.value)), str(error.value)
    return error.value


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (b"<html>not found</html>", "not an ONNX file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "git lfs pull"),
        (b"\x08\x08", "not an ONNX file"),
    ],
)
def test_what_is_no_model_is_refused(tmp_path, content, says):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    _refused(path, says)


def test_missing_file_and_folder_are_refused(tmp_path):
    _refused(tmp_path / "absent.onnx", "cannot be read .*No such file")
    _refused(tmp_path, "folder")


@pytest.mark.parametrize("share", [0.3, 0.7, 0.99])
def test_truncated_file_is_refused_wherever_it_ends(tmp_path, conv_path, share):
    content = conv_path.read_bytes()
    path = tmp_path / "cut.onnx"
    path.write_bytes(content[: int(len(content) * share)])
    _refused(path, "truncated|no ONNX operator set")


@pytest.mark.parametrize(("opset", "says"), [(6, "too old"), (999, "too new")])
def test_opset_out_of_range_is_refused_with_the_range(save_onnx, opset, says):
    path = save_onnx([helper.make_node("Relu", ["x"], ["y"])], {"x": [1]}, {"y": [1]}, opset=opset)
    error = _refused(path, says)
    assert error.opset == opset
    assert "expected 7 to" in str(error)


@pytest.fixture
def external_model(tmp_path):
    """A model whose weight lies in weights.bin."""
    weight = onnx.numpy_helper.from_array(np.arange(1000, dtype=np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1000])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1000])],
        [weight],
    )
    path = tmp_path / "model.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def test_external_data_come_in(external_model):
    tensor = load_onnx(external_model).graph.initializer[0]
    assert np.array_equal(onnx.numpy_helper.to_array(tensor), np.arange(1000, dtype=np.float32))
    assert not onnx.external_data_helper.uses_external_data(tensor)


def test_missing_external_data_are_named(external_model):
    (external_model.parent / "weights.bin").unlink()
    _refused(external_model, r"tensor 'w' .*'weights\.bin'.*Copy the external data")


def test_truncated_external_data_are_refused(external_model):
    weights = external_model.parent / "weights.bin"
    weights.write_bytes(weights.read_bytes()[:100])
    _refused(external_model, "'w'.*(truncated|cannot be read)")


def test_external_data_shorter_than_stated_are_refused_whatever_onnx_does(external_model, monkeypatch):
    """Older onnx releases read what is there and say nothing."""

    def read_less(tensor, folder):
        tensor.raw_data = b"1234"

    monkeypatch.setattr(onnx.external_data_helper, "load_external_data_for_tensor", read_less)
    _refused(external_model, "'w' are truncated; got 4 bytes.*expected 4000 bytes")


def test_a_model_without_an_opset_is_refused(conv_path, tmp_path):
    model = onnx.load(conv_path)
    del model.opset_import[:]
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    _refused(tmp_path / "m.onnx", "no ONNX operator set")


def test_local_functions_are_inlined(tmp_path):
    function = helper.make_function(
        "local", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 17)]
    )
    graph = helper.make_graph(
        [helper.make_node("Twice", ["x"], ["y"], domain="local")],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    onnx.save(helper.make_model(graph, functions=[function], opset_imports=opsets), tmp_path / "f.onnx")
    assert [node.op_type for node in load_onnx(tmp_path / "f.onnx").graph.node] == ["Add"]


def test_digest_is_that_of_the_bytes(tmp_path):
    for name, content in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        (tmp_path / name).write_bytes(content)
    a, b, c = (digest_of(tmp_path / name) for name in "abc")
    assert a == b != c
