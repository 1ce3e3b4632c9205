"""The gap to onnxruntime is attributed as the records say, and the page says it in words made of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

MS = 1e-3


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    import gap_assembly
    import gap_groups
    import gap_onnxruntime
    import gap_records
    import gap_report
    import gap_timing

    def kernel(
        name: str, kind: str, ms: float, sizes: tuple[int, ...] = (), weight: int = 1, flop: int = 100
    ) -> Any:
        return gap_records.Kernel(name, name, kind, kind, sizes, weight, flop, weight * ms * MS, 16)

    def node(kind: str, ms: float, sizes: tuple[int, ...] = (), flop: int | None = 100) -> Any:
        return gap_records.Node(kind, "Op", kind, sizes, flop, ms * MS)

    def profile(kernels: Any, nodes: Any, *, is_last: bool = False) -> Any:
        whole = {"tuned": (10 * MS,), "onnxruntime": (5 * MS,)}
        return gap_records.Profile(
            "net", 1, tuple(kernels), tuple(nodes), whole, 1e11, (0.1, 0.2), {"date": "today"}, is_last
        )

    def experiment(task_id: str, first: float, long: float, packed: float | None, packing: str = "NCHWc") -> Any:
        block = gap_records.HotBlock(28, 56, 3, 512, True)
        return gap_records.Experiment(
            model="net",
            n_threads=1,
            task_id=task_id,
            first_secs=first * MS,
            long_secs=long * MS,
            packed_secs=None if packed is None else packed * MS,
            relayout_secs=None if packed is None else 0.25 * MS,
            cached_secs={"first": 0.9 * first * MS},
            packing=packing,
            n_first_trials=16,
            n_trials=80,
            n_packed_trials=0 if packed is None else 80,
            block=block,
            packed_block=None if packed is None else block,
            spread=0.2,
            load=(0.3, 0.4),
        )

    state = gap_records.State(tmp_path / "state.jsonl")
    return SimpleNamespace(
        state=state,
        records=gap_records,
        groups=gap_groups,
        assembly=gap_assembly,
        onnxruntime=gap_onnxruntime,
        timing=gap_timing,
        kernel=kernel,
        node=node,
        profile=profile,
        experiment=experiment,
        page=lambda: gap_report.write(state, tmp_path / "out", 1, 4).read_text(encoding="utf-8"),
    )


#: A pointwise convolution of 64 channels of 14 x 14 to 32, as our kernels and as onnxruntime tell of it.
CONV_AXES = [("pad_temp.v_i0", 1), *((f"conv2d_nchw.v{i}", n) for i, n in enumerate((1, 32, 14, 14, 64, 1, 1)))]
CONV_SHAPES = [(1, 64, 14, 14), (32, 64, 1, 1), (1, 32, 14, 14)]


class TestAnchors:
    def test_a_convolution_is_the_same_on_both_sides(self, kit: SimpleNamespace) -> None:
        ours = kit.groups.anchor_of_kernel(CONV_AXES, "conv2d_nchw + add + relu", CONV_SHAPES, 999)
        theirs = kit.groups.anchor_of_node("Conv", CONV_SHAPES[:2], CONV_SHAPES[2:])
        assert ours == theirs == kit.groups.Anchor("conv 1x1", (32, 196, 64), 2 * 32 * 196 * 64)

    def test_a_depthwise_convolution_is_told_from_others_of_its_filter(self, kit: SimpleNamespace) -> None:
        axes = [(f"group_conv2d_nchw.v{i}", n) for i, n in enumerate((1, 64, 14, 14, 1, 3, 3))]
        shapes = [(1, 64, 14, 14), (64, 1, 3, 3), (1, 64, 14, 14)]
        ours = kit.groups.anchor_of_kernel(axes, "group_conv2d_nchw", shapes, 1)
        assert ours == kit.groups.anchor_of_node("Conv", shapes[:2], shapes[2:])
        assert ours.kind == "depthwise conv"

    def test_a_prepacked_product_is_known_by_what_it_reads_and_writes(self, kit: SimpleNamespace) -> None:
        axes = [(f"matmul.v{i}", n) for i, n in enumerate((2, 64, 384, 1536))]
        ours = kit.groups.anchor_of_kernel(axes, "matmul + add", [(2, 64, 1536), (1536, 384), (2, 64, 384)], 1)
        theirs = kit.groups.anchor_of_node("Gemm", [(128, 1536), (384,)], [(128, 384)])
        assert ours == theirs
        assert ours.kind == "gemm"

    def test_a_product_of_two_activations_is_batched(self, kit: SimpleNamespace) -> None:
        axes = [(f"matmul.v{i}", n) for i, n in enumerate((1, 12, 128, 128, 32))]
        shapes = [(1, 12, 128, 32), (1, 12, 32, 128), (1, 12, 128, 128)]
        ours = kit.groups.anchor_of_kernel(axes, "matmul", shapes, 1)
        assert ours == kit.groups.anchor_of_node("FusedMatMul", shapes[:2], shapes[2:])
        assert (ours.kind, ours.sizes) == ("batched gemm", (12, 128, 128, 32))

    @pytest.mark.parametrize(
        ("label", "operator", "kind"),
        [
            ("softmax_maxelem + softmax_exp", "Softmax", "softmax"),
            ("sum + layer_norm", "SkipLayerNormalization", "layer norm"),
            ("divide + erf + multiply", "Gelu", "gelu"),
            ("add", "Add", "other"),
        ],
    )
    def test_others_are_known_by_label_and_operator(
        self, kit: SimpleNamespace, label: str, operator: str, kind: str
    ) -> None:
        ours = kit.groups.anchor_of_kernel([("T_add.v", 8)], label, [(4, 8), (4, 8)], 7)
        theirs = kit.groups.anchor_of_node(operator, [(4, 8)], [(4, 8)])
        assert (ours.kind, ours.sizes) == (theirs.kind, theirs.sizes)
        assert ours.kind == kind

    def test_re_ordering_is_a_kind_of_its_own(self, kit: SimpleNamespace) -> None:
        assert kit.groups.anchor_of_node("ReorderInput", [(1, 8)], [(1, 8)]).kind == "reorder"


class TestGroups:
    def test_seconds_and_flop_add_up_by_kind(self, kit: SimpleNamespace) -> None:
        kernels = [kit.kernel("a", "gemm", 2.0, weight=3), kit.kernel("b", "gemm", 1.0)]
        (group,) = kit.groups.groups_of(kit.profile(kernels, [kit.node("gemm", 1.0, flop=200)] * 2))
        assert (group.n_kernels, group.n_nodes, group.our_flop, group.their_flop) == (4, 2, 400, 400)
        assert group.gap_secs == pytest.approx(5 * MS)
        assert group.is_same_work

    @pytest.mark.parametrize(("flop", "is_same"), [(990, True), (989, False), (None, None)])
    def test_flop_must_agree_within_a_percent(self, kit: SimpleNamespace, flop: int | None, is_same: bool) -> None:
        profile = kit.profile([kit.kernel("a", "gemm", 1.0, flop=1000)], [kit.node("gemm", 1.0, flop=flop)])
        assert kit.groups.groups_of(profile)[0].is_same_work is is_same

    def test_kernels_are_paired_by_sizes_and_the_worst_come_first(self, kit: SimpleNamespace) -> None:
        kernels = [
            kit.kernel("little", "gemm", 2.0, (1, 2)),
            kit.kernel("often", "gemm", 1.5, (3, 4), weight=4),
            kit.kernel("winner", "gemm", 0.5, (5, 6)),
            kit.kernel("alone", "gemm", 9.0, (7, 8)),
        ]
        nodes = [
            kit.node("gemm", ms, sizes)
            for ms, sizes in ((1.0, (1, 2)), (0.8, (3, 4)), (1.2, (3, 4)), (1.0, (5, 6)))
        ]
        found = kit.groups.losers_of(kit.profile(kernels, nodes), 4)
        assert [pair.kernel.name for pair in found] == ["often", "little"]
        assert found[0].their_secs == pytest.approx(1.0 * MS)
        assert found[0].lost_secs == pytest.approx(2.0 * MS)
        assert [pair.kernel.name for pair in kit.groups.losers_of(kit.profile(kernels, nodes), 1)] == ["often"]


class TestShares:
    def shares(self, kit: SimpleNamespace, first: float, long: float, packed: float | None) -> Any:
        """Of a kernel that takes 10 ms inside the model and 1 ms in onnxruntime."""
        pair = kit.groups.Pair(kit.kernel("a", "gemm", 10.0, (1,)), 1.0 * MS)
        return kit.groups.shares_of(pair, kit.experiment("a", first, long, packed))

    @pytest.mark.parametrize(
        ("first", "long", "packed", "expected", "verdict"),
        [
            pytest.param(9.0, 4.0, 3.0, (1, 5, 1, 2), "schedule", id="schedule"),
            pytest.param(9.0, 8.0, 3.0, (1, 1, 5, 2), "space (layout)", id="space"),
            pytest.param(9.0, 8.0, 7.0, (1, 1, 1, 6), "code generation", id="code"),
            pytest.param(9.0, 8.0, None, (1, 1, 0, 7), "code generation", id="no other layout"),
            pytest.param(9.0, 9.5, 9.2, (1, 0, 0, 8), "code generation", id="neither search found anything"),
            pytest.param(0.9, 0.9, None, (9.1, 0, 0, -0.1), None, id="only among its neighbours"),
        ],
    )
    def test_they_add_up_and_the_largest_is_the_verdict(
        self,
        kit: SimpleNamespace,
        first: float,
        long: float,
        packed: float | None,
        expected: tuple[float, ...],
        verdict: str | None,
    ) -> None:
        shares = self.shares(kit, first, long, packed)
        parts = (shares.neighbours, shares.schedule, shares.space, shares.code)
        assert parts == pytest.approx([ms * MS for ms in expected])
        assert shares.gap_secs == pytest.approx(9 * MS)
        assert kit.groups.verdict_of(shares) == verdict

    @pytest.mark.parametrize(
        ("long", "expected"),
        [(5.1, ["space (layout)"]), (5.9, ["schedule"]), (4.9, []), (6.1, []), (9.0, [])],
    )
    def test_a_cause_of_three_quarters_as_much_is_a_rival(
        self, kit: SimpleNamespace, long: float, expected: list[str]
    ) -> None:
        # The schedule costs 9 - long, the space long - 2, and code generation 1.
        assert kit.groups.rivals_of(self.shares(kit, 9.0, long, 2.0)) == expected

    def test_shares_of_all_calls_add_up(self, kit: SimpleNamespace) -> None:
        one = self.shares(kit, 9.0, 4.0, 3.0)
        total = kit.groups.total_of([one.times(2), one])
        assert total.gap_secs == pytest.approx(3 * one.gap_secs)
        assert total.schedule == pytest.approx(15 * MS)


ASSEMBLY = """
main_compute_:
	vfmadd231ps	%zmm1, %zmm2, %zmm3
	vfmadd231ps	%zmm1, %zmm2, %zmm4
	vfmadd231ps	%zmm1, %zmm2, %zmm5
.LBB0_1:
	vmovups	(%rdi), %ymm0            # a comment
	vfmadd231ps	(%rsi), %ymm0, %ymm1
	vfmadd213ps	64(%rsp), %ymm0, %ymm2
	vmovups	%ymm2, 32(%rsp)
	movq	8(%rsp), %rax
	jne	.LBB0_1
	vmovups	%ymm1, (%rdx)
	retq
"""


class TestAssembly:
    def test_the_hot_block_is_the_loop_though_what_runs_once_is_longer(self, kit: SimpleNamespace) -> None:
        expected = kit.records.HotBlock(n_fma=2, n_vector=4, n_spills=2, vector_bits=256, is_loop=True)
        assert kit.assembly.hot_block(ASSEMBLY) == expected

    def test_without_a_loop_it_is_the_block_with_most_of_them(self, kit: SimpleNamespace) -> None:
        found = kit.assembly.hot_block(ASSEMBLY.replace("jne	.LBB0_1", "nop"))
        assert (found.n_fma, found.vector_bits, found.is_loop) == (3, 512, False)

    def test_without_multiply_adds_it_is_the_loop_that_calls(self, kit: SimpleNamespace) -> None:
        code = "main:\n	vaddps	%zmm1, %zmm2, %zmm3\n.L1:\n	vmovss	(%rdi), %xmm0\n	callq	erff@PLT\n	jne	.L1\n"
        found = kit.assembly.hot_block(code)
        assert (found.n_fma, found.n_calls, found.vector_bits, found.is_loop) == (0, 1, 128, True)

    def test_code_that_does_nothing_has_none(self, kit: SimpleNamespace) -> None:
        assert kit.assembly.hot_block("main:\n	retq\n") is None


class TestProfileOfOnnxruntime:
    def test_nodes_have_their_typical_seconds_without_the_first_call(self, kit: SimpleNamespace) -> None:
        def event(name: str, index: int, micros: int) -> dict[str, Any]:
            shapes = {
                "input_type_shape": [{"float": [1, 8]}, {"int64": [2]}],
                "output_type_shape": [{"float": [1, 8]}],
            }
            args = {"op_name": "Relu", "node_index": str(index), **shapes}
            return {"cat": "Node", "name": f"{name}_kernel_time", "dur": micros, "args": args}

        other = [{"cat": "Session", "name": "model_run", "dur": 5}, {"cat": "Node", "name": "a_fence", "dur": 5}]
        events = [event("a", 1, 900), event("a", 2, 9), event("a", 1, 10), *other]
        first, second = kit.onnxruntime.nodes_of(events)
        assert (first.operator, first.inputs, first.outputs) == ("Relu", ((1, 8), (2,)), ((1, 8),))
        assert first.secs == pytest.approx(10e-6)
        assert second.secs == pytest.approx(9e-6)


class TestTiming:
    @pytest.mark.parametrize(
        ("n_bytes", "expected"), [(0, 1), (1 << 20, 8), ((1 << 20) + 1, 8), (1 << 30, 2), (1, 512)]
    )
    def test_there_are_as_many_constants_as_no_cache_holds(
        self, kit: SimpleNamespace, n_bytes: int, expected: int
    ) -> None:
        assert kit.timing.n_copies(n_bytes, cache_bytes=2 << 20) == expected

    def test_calls_are_added_up_after_each_was_looked_at(self, kit: SimpleNamespace) -> None:
        import gap_network

        # Each round something else is disturbed: of sums no round is typical.
        rounds = [
            [("f", 10.0 if disturbed == 0 else 1.0), ("g", 2.0), ("f", 10.0 if disturbed == 2 else 3.0)]
            for disturbed in (0, 1, 2, 0, 1, 2)
        ]
        assert gap_network.sums(rounds) == pytest.approx({"f": 4.0, "g": 2.0})


class TestPage:
    def test_it_says_which_cause_has_how_much(self, kit: SimpleNamespace) -> None:
        kernels = [kit.kernel("a", "conv 1x1", 3.0, (32, 196, 64), weight=2), kit.kernel("b", "gemm", 2.0, (1, 4))]
        nodes = [kit.node("conv 1x1", 1.0, (32, 196, 64))] * 2 + [kit.node("gemm", 1.5, (1, 4), flop=50)]
        kit.state.add(kit.profile(kernels, [*nodes, kit.node("reorder", 0.5, flop=None)]))
        kit.state.add(kit.experiment("a", 2.5, 2.2, 1.5))
        page = kit.page()
        assert "2.00 times as long" in page
        assert "| gemm | 1 | 1 | 0.0, but 0.0 in onnxruntime |" in page
        assert "onnxruntime spends 0.500 ms on re-ordering" in page
        assert "- conv 1x1 32x196x64: **space (layout)**. Of 2.000 ms a call" in page
        assert "Not timed yet: `b`." in page
        whole = "account for 4.000 ms: schedule +0.600, space +1.400, code generation +1.000, neighbours +1.000"
        assert whole in page
        assert "| 28 | 50% | 3 | 0 |" in page
        assert "range over 20% of their median, 20% at most" in page

    def test_what_wins_elsewhere_is_told(self, kit: SimpleNamespace) -> None:
        kernels = [kit.kernel("a", "gemm", 3.0, (1, 4)), kit.kernel("b", "other", 0.1)]
        kit.state.add(kit.profile(kernels, [kit.node("gemm", 1.0, (1, 4)), kit.node("other", 1.1, flop=None)]))
        kit.state.add(kit.experiment("a", 2.5, 1.2, None, packing="both sides are computed"))
        page = kit.page()
        assert "All other operators together win 1.000 ms." in page
        assert "no other layout was tried (both sides are computed)" in page
        assert "**schedule**" in page

    @pytest.mark.parametrize(
        ("n_first", "n_trials", "told"),
        [
            (16, 80, "a search of 5.0 times the trials finds them"),
            (0, 80, "the first tuning had no trial left for it, and a search finds them"),
            (0, 1, "its space's only schedule, which a tuning does not try, finds them"),
        ],
    )
    def test_the_longer_search_is_told_in_words(
        self, kit: SimpleNamespace, n_first: int, n_trials: int, told: str
    ) -> None:
        kit.state.add(kit.profile([kit.kernel("a", "gemm", 3.0, (1, 4))], [kit.node("gemm", 1.0, (1, 4))]))
        found = kit.experiment("a", 2.5, 1.2, None, packing="none is known")
        kit.state.add(replace(found, n_first_trials=n_first, n_trials=n_trials))
        assert told in kit.page()

    def test_the_profile_made_with_the_experiments_is_shown(self, kit: SimpleNamespace) -> None:
        for ms, is_last in ((3.0, False), (4.0, True)):
            profile = kit.profile(
                [kit.kernel("a", "gemm", ms, (1,))], [kit.node("gemm", 1.0, (1,))], is_last=is_last
            )
            kit.state.add(profile)
        assert "| gemm | 1 | 1 | 0.0 | 4.000 |" in kit.page()

    def test_nothing_to_tell_is_told(self, kit: SimpleNamespace) -> None:
        assert "No model was profiled yet." in kit.page()
        kit.state.add(kit.profile([kit.kernel("a", "gemm", 1.0, (1,))], [kit.node("gemm", 2.0, (1,))]))
        assert "No kernel loses to a node of the same work." in kit.page()


def test_records_survive_and_are_forgotten_by_model(kit: SimpleNamespace) -> None:
    profile = kit.profile([kit.kernel("a", "gemm", 1.0, (1,))], [kit.node("gemm", 2.0, (1,))])
    search = kit.records.Search("net", 1, "a", 80, 80, 9.0, (0.0, 0.0))
    for record in (profile, search, kit.experiment("a", 1.0, 1.0, 1.0)):
        kit.state.add(record)
    again = kit.records.State(kit.state.path)
    assert again.profiles == {("net", 1): profile}
    assert again.searches == {("net", 1, "a"): search}
    assert again.experiments == kit.state.experiments
    again.forget({"other"})
    assert again.profiles
    again.forget({"net"})
    assert again.profiles == again.searches == again.experiments == {}
    assert not kit.records.State(kit.state.path).profiles


def test_what_was_searched_for_longer_is_timed_again(kit: SimpleNamespace) -> None:
    def search(n_trials: int) -> None:
        kit.state.add(kit.records.Search("net", 1, "a", n_trials, 0, 9.0, (0.0, 0.0)))

    search(80)
    assert not kit.state.is_timed("net", 1, "a")
    kit.state.add(kit.experiment("a", 1.0, 1.0, 1.0))
    assert kit.state.is_timed("net", 1, "a")
    search(160)
    assert not kit.state.is_timed("net", 1, "a")
