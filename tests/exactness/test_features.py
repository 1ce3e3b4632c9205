"""Operations, bytes and launches of each statement are those of TVM's per-store features."""

from __future__ import annotations

import pytest
from kits.feature_comparison import feature_differences
from kits.nest_comparison import Prediction
from kits.oracle import case, random_batch

from prune_engine.metaschedule.store_features import store_features

#: Of every kind: tiles that come out even and fused loops, borders, reductions in threads, instructions.
CASES = [
    *(("gemm_prime", "llvm"), ("conv3x3_deep", "llvm"), ("softmax", "llvm"), ("gemm_int8", "vnni")),
    *(("gemm_bias_gelu", "cuda"), ("conv_transposed", "cuda"), ("layer_norm", "cuda"), ("gemm_fp16", "cuda")),
]
N_CANDIDATES = 2
PER_STORE = ("operations", "iterations", "unroll")
LAUNCH = tuple(f"{axis}Idx.{number}" for axis in ("block", "thread") for number in "xyz")


@pytest.mark.parametrize(("workload", "kind"), CASES)
def test_features_are_what_is_predicted(workload: str, kind: str) -> None:
    space, oracle = case(workload, kind)
    seen: dict[str, int] = {}
    for sketch in space.sketches:
        batch = random_batch(space, sketch, N_CANDIDATES, seed=5)
        for row in range(len(batch)):
            decisions = batch.candidate(row).decisions
            built = oracle.realise(sketch, decisions)
            if built.mod is None or built.is_repaired:
                continue
            predicted = Prediction(batch, row)
            for features in store_features(built.mod, space.task.target):
                for difference in feature_differences(predicted, features, seen):
                    pytest.fail(f"sketch {sketch.index}, decisions {decisions}:\n{difference}")
    assert set(seen) >= {*PER_STORE, *(LAUNCH if kind == "cuda" else ()), "bytes moved"}
    if kind == "llvm":
        assert seen["bytes touched"]
