"""Pruner's form gives its published and its code's numbers for the worked case: 1024^3, fp32, A100 of 40 GB."""

from __future__ import annotations

import numpy as np
import pytest
from kits import nests
from prune_engine_draft.pruner import filled, paper_penalties, pruner_symbols, released_form

from prune_engine.candidates import CandidateBatch
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.hardware.schema import HardwareProfile

DECISIONS = ((8, 1, 16, 8, 1), (8, 1, 16, 8, 1), (64, 16, 1), (4,), (4,), (512,))


@pytest.fixture(scope="module")
def batch() -> CandidateBatch:
    sketch = nests.gemm_cuda(1024, 1024, 1024)
    rows = [v.index_of(d) for v, d in zip(sketch.variables, DECISIONS, strict=True)]
    return nests.batch_of(sketch, np.array([rows], dtype=np.int32))


@pytest.fixture(scope="module")
def a100() -> HardwareProfile:
    return ProfileRegistry().resolve("nvidia-a100-sxm-40gb")


def test_symbols_are_the_published_ones(batch: CandidateBatch) -> None:
    found = {name: column.tolist() for name, column in pruner_symbols(batch).items()}
    expected = {"S1": 80, "S2": 65_536, "S3": 4_096, "S4": 256, "S5": 16_777_216, "S6": 64, "S7": 16, "S8": 2**31}
    assert found == {name: [value] for name, value in expected.items()}


def test_latency_of_the_released_code(batch: CandidateBatch, a100: HardwareProfile) -> None:
    found = released_form(batch, a100)
    assert found.terms["compute"] == pytest.approx(0.2067e-3, rel=3e-4)
    assert found.terms["memory"] == pytest.approx((2 * 0.00502 + 0.00063) * 1e-3, rel=2e-3)
    assert found.latency_secs == pytest.approx(0.2173e-3, rel=3e-4)
    assert 1e-3 / found.latency_secs == pytest.approx(4.601, rel=1e-3)


def test_penalties_of_the_released_code(batch: CandidateBatch, a100: HardwareProfile) -> None:
    found = released_form(batch, a100).penalties
    assert found["wave"] == pytest.approx(64 * 4 / 432)
    assert found["warp"] == 1
    assert 1 / found["reuse"] == pytest.approx(1.1115, rel=1e-4)
    assert found["registers"] == 1


def test_published_penalties(batch: CandidateBatch, a100: HardwareProfile) -> None:
    found = paper_penalties(pruner_symbols(batch), a100)
    assert found.pop("l0_compute") == pytest.approx(820.2)
    expected = {
        "l0_memory": 1,
        "l1_memory": 1,
        "l1_compute": 1,
        "l1_waste": 1,
        "l2_compute": 64 / 108,
        "l2_memory": 1,
    }
    assert {name: value.tolist() for name, value in found.items()} == {
        name: [pytest.approx(value)] for name, value in expected.items()
    }
    # Without the penalty that is not bounded: 2^31 operations at the rest of the peak.
    peak = a100.value("compute.simt.peak_flop_per_sec.float32") or 0
    assert 2**31 / (peak * found["l2_compute"]) == pytest.approx(185.9e-6, rel=1e-3)


def test_the_papers_worked_value() -> None:
    assert filled(np.array([6.0]), 4).tolist() == [0.75]


def test_a_profile_without_a_peak_is_told(batch: CandidateBatch, a100: HardwareProfile) -> None:
    with pytest.raises(ValueError, match="peak"):
        released_form(batch, a100.model_copy(update={"compute": ()}))
