import json

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from prune_engine.errors import TargetError
from prune_engine.metaschedule.apply import Winner, compile_model
from prune_engine.metaschedule.importers import import_onnx
from prune_engine.metaschedule.model_inputs import random_inputs


@pytest.fixture(scope="module")
def winners(conv_model, schedule_of):
    return [Winner(task.task_id, schedule_of(task)) for task in conv_model.tasks]


def _run(compiled, inputs):
    from tvm import cpu, relax, runtime

    result = relax.VirtualMachine(compiled.executable, cpu())["main"](*[runtime.tensor(a) for a in inputs.values()])
    return result.numpy() if hasattr(result, "numpy") else result[0].numpy()


def _reference(model, inputs):
    return onnxruntime.InferenceSession(model.onnx_bytes).run(None, inputs)[0]


def test_untuned_and_tuned_models_compute_what_onnxruntime_does(conv_model, winners, target):
    inputs = random_inputs(conv_model.inputs, 0)
    expected = _reference(conv_model, inputs)
    untuned = compile_model(conv_model, [], target)
    tuned = compile_model(conv_model, winners, target)
    assert untuned.applied == ()
    assert set(tuned.applied) == {task.task_id for task in conv_model.tasks}
    assert tuned.rejected == {}
    for compiled in (untuned, tuned):
        assert np.abs(_run(compiled, inputs) - expected).max() < 1e-4


def test_a_winner_reaches_every_call_of_its_kernel_and_no_other(conv_model, winners):
    from prune_engine.metaschedule import apply

    kernels, _ = apply._replay_all(conv_model, winners[:1])
    replaced = apply._with_kernels(conv_model, kernels)
    scheduled = [
        var.name_hint for var, func in replaced.functions.items() if "tirx.is_scheduled" in (func.attrs or {})
    ]
    assert scheduled == [conv_model.tasks[0].name]
    # The imported model itself is as it was.
    assert not any("tirx.is_scheduled" in (func.attrs or {}) for func in conv_model.mod.functions.values())


def test_the_order_of_kernel_names_and_symbols_is_kept(conv_model, winners):
    from prune_engine.metaschedule import apply

    kernels, _ = apply._replay_all(conv_model, winners)
    for var, func in apply._with_kernels(conv_model, kernels).functions.items():
        assert (func.attrs or {}).get("global_symbol") in (None, var.name_hint)


def test_winners_that_do_not_fit_are_reported_and_the_rest_applied(conv_model, winners, target, capfd):
    good = winners[0]
    foreign = Winner(conv_model.tasks[1].task_id, good.trace_json.replace('"conv2d', '"no_such_block'))
    garbled = Winner("unknown-task", good.trace_json)
    compiled = compile_model(conv_model, [good, foreign, garbled], target)
    assert compiled.applied == (good.task_id,)
    assert "does not replay" in compiled.rejected[foreign.task_id]
    assert compiled.rejected["unknown-task"] == "the model has no such task"
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("text", ["", "{", "[]", '["a"]', json.dumps([[["Nonsense", [], [], []]], []])])
def test_a_trace_that_is_none_is_reported(conv_model, target, text):
    task_id = conv_model.tasks[0].task_id
    compiled = compile_model(conv_model, [Winner(task_id, text)], target)
    assert compiled.applied == ()
    assert "does not replay" in compiled.rejected[task_id]


def test_a_winner_that_does_not_build_is_set_aside(conv_model, winners, target, monkeypatch):
    from prune_engine.metaschedule import apply

    broken, fine = (winner.task_id for winner in winners)
    build, refused = apply._build, []

    def fragile_build(mod, made):
        if not refused:
            refused.append(True)
            raise RuntimeError("LLVM says no")
        return build(mod, made)

    monkeypatch.setattr(apply, "_build", fragile_build)
    monkeypatch.setattr(apply, "_unbuildable", lambda kernels, made: {broken: "the kernel does not build"})
    compiled = compile_model(conv_model, winners, target)
    assert compiled.applied == (fine,)
    assert compiled.rejected == {broken: "the kernel does not build"}


def test_only_processors_are_compiled_for(conv_model):
    with pytest.raises(TargetError, match="processors only"):
        compile_model(conv_model, [], '{"kind":"cuda","arch":"sm_80"}')


def test_a_model_without_kernels_compiles(save_onnx, target):
    path = save_onnx([helper.make_node("Identity", ["x"], ["y"])], {"x": [4]}, {"y": [4]})
    model = import_onnx(path, target=target, shapes={}, dims={})
    x = np.arange(4, dtype=np.float32)
    assert np.array_equal(_run(compile_model(model, [], target), {"x": x}), x)


def test_a_small_attention_block_computes_what_onnxruntime_does(save_onnx, target, schedule_of):
    rng = np.random.default_rng(1)
    weights = {name: rng.standard_normal((32, 32)).astype(np.float32) * 0.2 for name in "qkv"}
    weights |= {"bias": rng.standard_normal(32).astype(np.float32), "scale": np.array(0.18, np.float32)}
    nodes = [
        *[helper.make_node("MatMul", ["x", name], [f"x{name}"]) for name in "qkv"],
        helper.make_node("Transpose", ["xk"], ["xkt"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["xq", "xkt"], ["s0"]),
        helper.make_node("Mul", ["s0", "scale"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "xv"], ["a"]),
        helper.make_node("Add", ["a", "bias"], ["b"]),
        helper.make_node("Erf", ["b"], ["e"]),
        helper.make_node("Mul", ["b", "e"], ["y"]),
    ]
    path = save_onnx(nodes, {"x": [1, 16, 32]}, {"y": [1, 16, 32]}, weights)
    model = import_onnx(path, target=target, shapes={}, dims={})
    products = [task for task in model.tasks if "matmul" in task.name]
    assert sum(task.weight for task in products) == 5
    inputs = random_inputs(model.inputs, 0)
    tuned = compile_model(model, [Winner(task.task_id, schedule_of(task)) for task in products], target)
    assert tuned.rejected == {}
    assert np.abs(_run(tuned, inputs) - _reference(model, inputs)).max() < 1e-3
