"""Kernels in packed layouts, as the comparison with onnxruntime makes them, compute the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")


class TestPacking:
    """Of real kernels: what is packed computes the same, and what cannot be packed says why."""

    def load(self, name: str) -> Any:
        from prune_engine.metaschedule.targets import resolve_target
        from prune_engine.metaschedule.workloads.loading import load_tasks

        (task,) = load_tasks(name, resolve_target("native", 1))
        return task

    def run(self, mod: Any, arrays: list[Any]) -> Any:
        from prune_engine.metaschedule._compat import import_tvm
        from prune_engine.metaschedule.targets import make_target, resolve_target

        tvm = import_tvm()
        built = tvm.tirx.build(mod, target=make_target(resolve_target("native", 1)))
        tensors = [tvm.runtime.tensor(np.ascontiguousarray(array)) for array in arrays]
        built["main"](*tensors)
        return tensors[-1].numpy()

    @staticmethod
    def blocked(x: Any, lanes: int) -> Any:
        n, c, h, w = x.shape
        return x.reshape(n, c // lanes, lanes, h, w).transpose(0, 1, 3, 4, 2)

    @pytest.mark.parametrize(
        ("name", "weights"),
        [
            pytest.param("conv2d:1x8x6x6,8x3x3,p1", "OIHWio", id="3x3"),
            pytest.param("conv2d:1x8x6x6,12x1x1", "OIHWio", id="1x1"),
            pytest.param("conv2d:1x3x6x6,8x3x3,p1", "OIHWo", id="three channels stay"),
            pytest.param("conv2d:1x8x6x6,8x3x3,p1,g8", "OIHWo", id="depthwise"),
        ],
    )
    def test_a_packed_convolution_computes_the_same(self, name: str, weights: str) -> None:
        from gap_packing import packed_kernel, relayout_kernel

        lanes, task = 4, self.load(name)
        packed = packed_kernel(task.mod, lanes)
        assert "//" not in str(packed.mod)  # indices are as simple as those of a kernel that was written so
        rng = np.random.default_rng(0)
        x, w, y = (rng.random(shape).astype("float32") for shape in task.arg_shapes)
        o, i, kh, kw = w.shape
        w_packed = w.reshape(o // lanes, lanes, i, kh, kw).transpose(0, 2, 3, 4, 1)
        if weights == "OIHWio":
            w_packed = w.reshape(o // lanes, lanes, i // lanes, lanes, kh, kw).transpose(0, 2, 4, 5, 3, 1)
        is_blocked_input = x.shape[1] % lanes == 0
        x_packed = self.blocked(x, lanes) if is_blocked_input else x
        found = self.run(packed.mod, [x_packed, w_packed, self.blocked(y, lanes)])
        expected = self.run(task.mod, [x, w, y])
        np.testing.assert_allclose(found, self.blocked(expected, lanes), rtol=1e-5)
        assert [is_read for _, is_read in packed.activations] == ([True, False] if is_blocked_input else [False])
        there = self.run(relayout_kernel(y.shape, lanes, is_read=True), [expected, np.zeros_like(found)])
        back = self.run(relayout_kernel(y.shape, lanes, is_read=False), [there, np.zeros_like(y)])
        np.testing.assert_array_equal(there, self.blocked(expected, lanes))
        np.testing.assert_array_equal(back, expected)

    def test_a_product_with_packed_panels_computes_the_same(
        self,
    ) -> None:
        from gap_packing import packed_kernel

        task = self.load("gemm:6x8x10")
        packed = packed_kernel(task.mod, 4)
        a, b, c = (np.random.default_rng(0).random(shape).astype("float32") for shape in task.arg_shapes)
        panels = b.reshape(b.shape[0], b.shape[1] // 4, 4).transpose(1, 0, 2)
        np.testing.assert_allclose(self.run(packed.mod, [a, panels, c]), a @ b, rtol=1e-5)

    @pytest.mark.parametrize(
        ("name", "why"),
        [
            ("bmm:2x8x8x8", "both sides are computed|no other layout"),
            ("gemm:6x7x10", "no multiple of 4"),
            ("conv2d:1x8x6x6,6x3x3,p1", "no multiple of 4"),
            ("conv2d:1x8x1x1,8x1x1", "one pixel"),
            ("conv2d:1x8x6x6,8x3x3,p1,g2", "groups of several"),
            ("softmax:4x8", "no other layout"),
        ],
    )
    def test_what_has_no_such_layout_says_why(self, name: str, why: str) -> None:
        from gap_packing import NotPackedError, packed_kernel

        with pytest.raises(NotPackedError, match=why):
            packed_kernel(self.load(name).mod, 4)
