import json
import os
import subprocess
import sys

import numpy as np
import pytest
from onnx import TensorProto, helper

from prune_engine.errors import ArtifactError
from prune_engine.metaschedule.apply import compile_model
from prune_engine.metaschedule.artifact import load_artifact, read_metadata, save_artifact
from prune_engine.metaschedule.importers import import_onnx
from prune_engine.metaschedule.model_inputs import random_inputs


def _save(model, folder, target, **manifest):
    return save_artifact(
        compile_model(model, [], target), model, folder, n_threads=2, target=target, manifest=manifest
    )


@pytest.fixture(scope="module")
def folder(conv_model, target, tmp_path_factory):
    return _save(conv_model, tmp_path_factory.mktemp("artifact") / "conv", target, note="kept")


@pytest.fixture
def damaged(folder, tmp_path):
    """A copy to spoil."""
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    return copy


def test_metadata_say_what_the_model_needs(folder, conv_model, target):
    metadata = json.loads((folder / "metadata.json").read_text())
    assert metadata["schema_version"] == 1
    assert metadata["inputs"] == [{"name": "x", "shape": [1, 8, 14, 14], "dtype": "float32"}]
    assert metadata["outputs"] == [{"name": "y", "shape": [1, 16, 14, 14], "dtype": "float32"}]
    assert metadata["target"] == target
    assert metadata["n_threads"] == 2
    assert metadata["model_digest"] == conv_model.digest
    assert metadata["versions"]["apache-tvm"]
    assert metadata["manifest"] == {"note": "kept"}


def test_run_takes_and_gives_arrays(folder, conv_model):
    import onnxruntime

    inputs = random_inputs(conv_model.inputs, 0)
    outputs = load_artifact(folder).run(inputs)
    expected = onnxruntime.InferenceSession(conv_model.onnx_bytes).run(None, inputs)
    assert len(outputs) == 1
    assert outputs[0].dtype == np.float32
    assert np.abs(outputs[0] - expected[0]).max() < 1e-4


def test_plain_tvm_loads_and_runs_the_library(folder, conv_model, tmp_path):
    """What the documentation tells people without prune_engine to do."""
    script = """
import json, sys
from pathlib import Path
import numpy as np
import tvm
from tvm import relax

folder = Path(sys.argv[1])
metadata = json.loads((folder / "metadata.json").read_text())
vm = relax.VirtualMachine(tvm.runtime.load_module(str(folder / metadata["library"])), tvm.cpu())
x = np.load(sys.argv[2])
np.save(sys.argv[3], vm["main"](tvm.runtime.tensor(x)).numpy())
assert not any(name.startswith("prune_engine") for name in sys.modules)
"""
    inputs = random_inputs(conv_model.inputs, 0)
    np.save(tmp_path / "x.npy", inputs["x"])
    command = [sys.executable, "-c", script, str(folder), str(tmp_path / "x.npy"), str(tmp_path / "y.npy")]
    subprocess.run(command, check=True, cwd=tmp_path)
    assert np.array_equal(np.load(tmp_path / "y.npy"), load_artifact(folder).run(inputs)[0])


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({}, "got none; expected x"),
        ({"x": np.zeros((1, 8, 14, 14), np.float32), "z": np.zeros(1)}, "got x, z; expected x"),
        ({"x": np.zeros((1, 8, 14, 13), np.float32)}, r"\(1, 8, 14, 13\); expected float32 \(1, 8, 14, 14\)"),
        ({"x": np.zeros((1, 8, 14, 14))}, "got float64.*expected float32.*astype"),
    ],
)
def test_wrong_inputs_are_refused(folder, inputs, says):
    with pytest.raises(ArtifactError, match=says):
        load_artifact(folder).run(inputs)


def test_strided_inputs_are_fine(folder, conv_model):
    x = random_inputs(conv_model.inputs, 0)["x"]
    artifact = load_artifact(folder)
    assert np.array_equal(artifact.run({"x": x[..., ::-1][..., ::-1]})[0], artifact.run({"x": x})[0])


def test_several_inputs_scalars_integers_and_outputs(save_onnx, target, tmp_path):
    nodes = [
        helper.make_node("Mul", ["x", "factor"], ["product"]),
        helper.make_node("Add", ["ids", "ids"], ["twice"]),
        helper.make_node("Greater", ["x", "factor"], ["above"]),
    ]
    inputs = {"factor": [], "ids": ([3], TensorProto.INT64), "x": [2, 2]}
    outputs = {"product": [2, 2], "twice": ([3], TensorProto.INT64), "above": ([2, 2], TensorProto.BOOL)}
    model = import_onnx(save_onnx(nodes, inputs, outputs), target=target, shapes={}, dims={})
    artifact = load_artifact(_save(model, tmp_path / "several", target))
    x = np.array([[1, 2], [3, 4]], np.float32)
    product, twice, above = artifact.run({"x": x, "ids": np.array([1, 2, 3]), "factor": np.float32(2)})
    assert np.array_equal(product, x * 2)
    assert np.array_equal(twice, [2, 4, 6])
    assert twice.dtype == np.int64
    assert np.array_equal(above, x > 2)
    assert above.dtype == np.bool_


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda d: (d / "metadata.json").unlink(), "no readable metadata.*--out"),
        (lambda d: (d / "metadata.json").write_text("{"), "metadata are damaged"),
        (lambda d: (d / "metadata.json").write_text("{}"), "metadata are damaged.*schema_version"),
        (lambda d: (d / "metadata.json").write_bytes(b"\xff\xfe"), "no readable metadata"),
        (lambda d: (d / "model.so").unlink(), "library is missing"),
        (lambda d: (d / "model.so").write_bytes(b"ELF"), "not the one that the metadata describe"),
        (lambda d: _edit(d, schema_version=2), "newer prune_engine; got schema_version 2.*Upgrade"),
        (lambda d: _edit(d, n_threads=0), "damaged.*n_threads"),
        (lambda d: _edit(d, n_threads=100_000), "damaged.*n_threads"),
    ],
)
def test_a_damaged_artefact_is_refused_with_a_reason(damaged, spoil, says):
    spoil(damaged)
    with pytest.raises(ArtifactError, match=says):
        load_artifact(damaged)


def _edit(folder, **fields):
    path = folder / "metadata.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_a_library_that_is_none_is_refused(damaged):
    from prune_engine.artifact_files import file_digest

    (damaged / "model.so").write_bytes(b"not a library")
    _edit(damaged, library_digest=file_digest(damaged / "model.so"))
    with pytest.raises(ArtifactError, match=r"cannot be loaded.*tune the model again"):
        load_artifact(damaged)


def test_unknown_metadata_fields_of_the_same_version_are_fine(damaged):
    _edit(damaged, invented_later=1)
    assert read_metadata(damaged).n_threads == 2


def test_a_replaced_artefact_is_loaded_anew_in_the_same_process(save_onnx, target, tmp_path):
    for size in (3, 5):
        path = save_onnx([helper.make_node("Neg", ["x"], ["y"])], {"x": [size]}, {"y": [size]})
        model = import_onnx(path, target=target, shapes={}, dims={})
        artifact = load_artifact(_save(model, tmp_path / "same", target))
        assert np.array_equal(artifact.run({"x": np.ones(size, np.float32)})[0], -np.ones(size))


def test_the_recorded_thread_count_is_used(folder):
    script = (
        "import sys, tvm; from pathlib import Path; from prune_engine.metaschedule.artifact import load_artifact\n"
        "load_artifact(Path(sys.argv[1])); print(tvm.get_global_func('runtime.NumThreads')())"
    )
    env = {name: value for name, value in os.environ.items() if name != "TVM_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "2"
    assert done.stderr == ""


def test_threads_that_cannot_be_changed_any_more_are_warned_of():
    script = (
        "import warnings; from prune_engine.metaschedule.threads import use_threads\n"
        "warnings.simplefilter('error')\n"
        "assert use_threads(2)\n"
        "try: use_threads(1)\n"
        "except UserWarning as warning: print(warning)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "started with 2 instead of 1" in done.stdout
