"""PruneEngineSearch as a MetaSchedule search strategy: TVM's contract.

Of TVM's own tests of search strategies (test_meta_schedule_search_strategy.py of release 0.27) these assertions
hold for any strategy, and are made here anew:

- replay_func, for ReplayTrace: batches of 7, 7 and 6 of 20 trials at 7 per iteration, of the space's structure.
- evolutionary_search: a space of 25 candidates and 2000 trials; all 25 are measured, and then it ends.
- evolutionary_search_early_stop: a space without a choice; its one schedule is measured, and then it ends.
- evolutionary_search_fail_init_population: post-processors that refuse everything; None at once.
- evolutionary_search_skip_invalid_measured_trace: a record whose trace does not fit the kernel is passed over
  (in test_records.py).

Not applicable are: replay_func for ReplayFunc, which runs the user's function anew for each candidate; the number
of empty batches before the end in the two tests of evolution (that strategy meets an exhausted space several times
before it says so, ours at once); search_strategy_abstract_class_instantiation, which is about TVM's base class.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kits.search_contexts import (
    PLAIN,
    bare,
    context_of,
    exhaust,
    flat,
    modules,
    ran,
    started,
    texts,
    tiled,
    tiled_a_little,
    without_a_choice,
)


def test_batches_fill_the_trials_exactly(ms: Any, gemm: Any, strategy: Any) -> None:
    context = started(ms, context_of(ms, gemm, strategy(), tiled), 20, 7)
    (space,) = context.generate_design_space()
    batches = exhaust(ms, context)
    context.post_tuning()
    assert [len(batch) for batch in batches] == [7, 7, 6]
    for candidate in flat(batches):
        assert bare(candidate.sch.trace) == bare(space.trace), "of the space's structure"
        assert [str(info.shape) for info in candidate.args_info] == ["(32, 32)"] * 3 or len(
            candidate.args_info
        ) == 3


def test_no_schedule_is_given_twice_and_none_is_left_out(ms: Any, gemm: Any, strategy: Any) -> None:
    context = started(ms, context_of(ms, gemm, strategy(), tiled_a_little), 2000, 10)
    batches = exhaust(ms, context)
    context.post_tuning()
    found = flat(batches)
    assert len(found) == 25
    assert len(set(texts(found))) == len(set(modules(found))) == 25
    assert all(batches), "no batch is empty"


_GUESS = """
from prune_engine.hookspecs import hookimpl
from prune_engine.strategies import Rule


class Half(Rule):
    name = "test.half"

    def mask(self, batch, profile):
        return batch.column(0)[:, 0] <= 4


@hookimpl
def register_rules():
    return [Half()]
"""


def test_what_rules_that_guess_drop_comes_last(ms: Any, gemm: Any, strategy: Any, tmp_path: Path) -> None:
    plugin = tmp_path / "half.py"
    plugin.write_text(_GUESS)
    made = strategy(config=PLAIN.model_copy(update={"plugin_files": (plugin,), "audit_fraction": 0.0}))
    context = started(ms, context_of(ms, gemm, made, tiled_a_little), 2000, 5)
    assert len(flat(exhaust(ms, context))) == 25
    assert any("the rest is searched without them" in remark for remark in made.remarks())


def test_a_space_without_a_choice_has_one_schedule(ms: Any, gemm: Any, strategy: Any) -> None:
    context = started(ms, context_of(ms, gemm, strategy(), without_a_choice), 100, 10)
    assert [len(batch) for batch in exhaust(ms, context)] == [1]


def test_none_where_post_processors_refuse_everything(ms: Any, gemm: Any, strategy: Any) -> None:
    from tvm.ir.utils import derived_object

    @derived_object
    class Refuse(ms.postproc.PyPostproc):  # type: ignore[misc,name-defined]
        def _initialize_with_tune_context(self, context: Any) -> None:
            pass

        def apply(self, sch: Any) -> bool:
            return False

        def clone(self) -> Any:
            return Refuse()

    made = strategy()
    context = started(ms, context_of(ms, gemm, made, tiled, postprocs=[Refuse()]), 2000, 10)
    assert context.generate_measure_candidates() is None
    assert any("refused" in remark for remark in made.remarks())


def test_one_seed_gives_one_search(ms: Any, gemm: Any, strategy: Any) -> None:
    def found() -> list[str]:
        context = started(ms, context_of(ms, gemm, strategy(), tiled), 16, 8)
        return [text for batch in exhaust(ms, context) for text in texts(batch)]

    assert found() == found()


def test_failures_and_broken_latencies_are_learnt_as_failures(ms: Any, gemm: Any, strategy: Any) -> None:
    made = strategy()
    context = started(ms, context_of(ms, gemm, made, tiled), 20, 4)
    broken = (([0.0], None), ([1e10], None), ([], None))
    for secs, message in (([0.1], None), (None, "it crashed\nSegmentation fault"), *broken):
        candidates = context.generate_measure_candidates()
        result = ms.runner.RunnerResult(run_secs=secs, error_msg=message)
        context.notify_runner_results(candidates, [result] * len(candidates))
    context.post_tuning()
    assert (made.counts.n_given, made.counts.n_ran, made.counts.n_failed) == (20, 4, 16)
    assert made.counts.first_error == "Segmentation fault"


def test_another_thread_may_go_on(ms: Any, gemm: Any, strategy: Any) -> None:
    context = started(ms, context_of(ms, gemm, strategy(), tiled), 8, 4)

    def go_on() -> int:
        candidates = context.generate_measure_candidates()
        context.notify_runner_results(candidates, ran(ms, candidates))
        return len(candidates)

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(go_on).result() == 4
    assert go_on() == 4
    context.post_tuning()


def test_clones_share_counts_and_remarks(ms: Any, gemm: Any, strategy: Any) -> None:
    made = strategy()
    clone = context_of(ms, gemm, made, tiled).clone()
    started(ms, clone, 4, 2).generate_measure_candidates()
    assert made.counts.n_given == 2
