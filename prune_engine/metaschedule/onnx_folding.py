"""Folds constants and shape arithmetic with onnxruntime's offline optimisation."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prune_engine.metaschedule.quiet import captured_stderr

#: Protobuf messages end at 2 GiB; a model of that size is imported as it is.
_MAX_MESSAGE_BYTES = (1 << 31) - 1

_FATAL_ONLY = 4


@dataclass(frozen=True, slots=True)
class Folding:
    """The folded model, or why there is none."""

    model: Any | None
    reason: str | None = None


def fold(model: Any) -> Folding:
    """Return the model as onnxruntime's basic level leaves it: same inputs and outputs, no shape chains.

    TVM's importer needs constant shapes, and does not fold the arithmetic that computes them. Basic level
    uses standard operators only. The file it is handed over in is removed.
    """
    try:
        import onnxruntime
    except ImportError:
        return Folding(None, "onnxruntime is not installed")
    import onnx

    if model.ByteSize() > _MAX_MESSAGE_BYTES:
        return Folding(None, "the model is larger than 2 GiB")
    with tempfile.TemporaryDirectory(prefix="prune-engine-") as folder, captured_stderr():
        target = Path(folder) / "folded.onnx"
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(target)
        options.log_severity_level = _FATAL_ONLY
        # No thread pools in this process: they would run beside the measurements.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        try:
            onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            folded = onnx.load(target)
        except Exception as error:  # noqa: BLE001  # onnxruntime raises many kinds; the reason is recorded
            return Folding(None, str(error).strip().split("\n")[0][:300])
    expected = [value.name for value in model.graph.input]
    if [value.name for value in folded.graph.input] != expected:
        return Folding(None, "onnxruntime changed the model's inputs")
    return Folding(folded)
