"""PruneEngineSearch as a MetaSchedule search strategy: TVM's contract, its database, and what cannot be read.

Of TVM's own tests of search strategies (test_meta_schedule_search_strategy.py of release 0.27) these assertions
hold for any strategy, and are made here anew:

- replay_func, for ReplayTrace: batches of 7, 7 and 6 of 20 trials at 7 per iteration, of the space's structure.
- evolutionary_search: a space of 25 candidates and 2000 trials; all 25 are measured, and then it ends.
- evolutionary_search_early_stop: a space without a choice; its one schedule is measured, and then it ends.
- evolutionary_search_fail_init_population: post-processors that refuse everything; None at once.
- evolutionary_search_skip_invalid_measured_trace: a record whose trace does not fit the kernel is passed over.

Not applicable are: replay_func for ReplayFunc, which runs the user's function anew for each candidate; the number
of empty batches before the end in the two tests of evolution (that strategy meets an exhausted space several times
before it says so, ours at once); search_strategy_abstract_class_instantiation, which is about TVM's base class.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kits.kernels import task_of

from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError, ProfileError, SearchStateError, SpaceError
from prune_engine.hardware import DeviceKind
from prune_engine.testing import make_profile

PLAIN = EngineConfig(transfer=False, prior="none")


@pytest.fixture(scope="module")
def ms(tvm: Any) -> Any:
    from prune_engine.metaschedule.search import ms

    return ms


@pytest.fixture(scope="module")
def strategy(ms: Any) -> Callable[..., Any]:
    from prune_engine.metaschedule import PruneEngineSearch

    def make(**options: Any) -> Any:
        return PruneEngineSearch(**{"config": PLAIN, **options})

    return make


@pytest.fixture(scope="module")
def gemm(tvm: Any) -> Any:
    from prune_engine.metaschedule.workloads.loading import load_tasks

    return load_tasks("gemm:32x32x32", json.dumps({"kind": "llvm", "num-cores": 2}), shapes={}, dims={})[0].mod


def tiled(sch: Any) -> None:
    i, j, k = sch.get_loops(sch.get_sblock("matmul"))
    i0, i1, i2, i3 = sch.split(i, sch.sample_perfect_tile(i, n=4))
    j0, j1, j2, j3 = sch.split(j, sch.sample_perfect_tile(j, n=4))
    k0, k1 = sch.split(k, sch.sample_perfect_tile(k, n=2))
    sch.reorder(i0, j0, i1, j1, k0, i2, j2, k1, i3, j3)


def tiled_a_little(sch: Any) -> None:
    _, j, k = sch.get_loops(sch.get_sblock("matmul"))
    sch.split(j, sch.sample_perfect_tile(j, n=2))
    sch.split(k, sch.sample_perfect_tile(k, n=2))


def without_a_choice(sch: Any) -> Any:
    return sch


def tiled_in_parts(sch: Any) -> None:
    """Samples by an instruction that is no choice table of ours."""
    i, _, _ = sch.get_loops(sch.get_sblock("matmul"))
    sch.split(i, sch.sample_partitioned_tile(i, n=2, partition_pos=1, innerpart_factor=2))


def context_of(ms: Any, mod: Any, strategy: Any, schedule: Any = "post-order-apply", **options: Any) -> Any:
    space = schedule
    if callable(schedule):
        postprocs = options.pop("postprocs", [])
        space = ms.space_generator.ScheduleFn(schedule, sch_rules=[], postprocs=postprocs, mutator_probs={})
    import tvm

    target = tvm.target.Target(options.pop("target", {"kind": "llvm", "num-cores": 2}))
    return ms.TuneContext(
        mod=mod,
        target=target,
        space_generator=space,
        search_strategy=strategy,
        num_threads=1,
        rand_state=1,
        **options,
    )


def started(ms: Any, context: Any, n: int, k: int, database: Any = None) -> Any:
    context.pre_tuning(n, k, context.generate_design_space(), database or ms.database.MemoryDatabase(), None)
    return context


def ran(ms: Any, candidates: Sequence[Any], secs: float = 0.1) -> list[Any]:
    return [ms.runner.RunnerResult(run_secs=[secs, 2 * secs, 3 * secs], error_msg=None) for _ in candidates]


def exhaust(ms: Any, context: Any) -> list[Any]:
    """Every batch of a search that was started."""
    batches = []
    while (candidates := context.generate_measure_candidates()) is not None:
        batches.append(list(candidates))
        context.notify_runner_results(candidates, ran(ms, candidates))
    return batches


def flat(batches: Sequence[Sequence[Any]]) -> list[Any]:
    return [one for batch in batches for one in batch]


def texts(candidates: Sequence[Any]) -> list[str]:
    return ["\n".join(one.sch.trace.as_python(True)) for one in candidates]


def modules(candidates: Sequence[Any]) -> list[int]:
    import tvm_ffi

    return [tvm_ffi.structural_hash(one.sch.mod) for one in candidates]


def bare(trace: Any) -> str:
    return str(type(trace)(trace.simplified(True).insts, {}))


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


def test_a_record_that_does_not_fit_is_passed_over(tvm: Any, ms: Any, gemm: Any, strategy: Any) -> None:
    from prune_engine.metaschedule.relax_tasks import block_names

    target = tvm.target.Target({"kind": "llvm", "num-cores": 2})
    other = task_of("softmax", json.dumps({"kind": "llvm"})).mod
    wrong = tvm.s_tir.Schedule(other)
    wrong.get_loops(wrong.get_sblock(block_names(other)[-1]))
    database = ms.database.MemoryDatabase()
    workload = database.commit_workload(gemm)
    info = ms.arg_info.ArgInfo.from_prim_func(func=gemm["main"])
    database.commit_tuning_record(ms.database.TuningRecord(wrong.trace, workload, [0.1], target, info))
    context = started(ms, context_of(ms, gemm, strategy(), tiled), 4, 2, database)
    assert context.generate_measure_candidates() is not None


def committed(ms: Any, database: Any, mod: Any, target: Any, candidates: Sequence[Any], secs: Any) -> None:
    workload = database.commit_workload(mod)
    for one in candidates:
        record = ms.database.TuningRecord(one.sch.trace, workload, secs, target, one.args_info)
        database.commit_tuning_record(record)


@pytest.mark.parametrize("secs", [[0.1, 0.2], [1e10]], ids=["ran", "failed"])
def test_what_the_json_database_has_is_never_measured_again(
    ms: Any, gemm: Any, strategy: Any, tmp_path: Path, secs: list[float]
) -> None:
    context = started(ms, context_of(ms, gemm, strategy(), tiled_a_little), 2000, 15)
    first = list(context.generate_measure_candidates())
    database = ms.database.JSONDatabase(work_dir=str(tmp_path))
    committed(ms, database, gemm, context.target, first, secs)
    again = ms.database.JSONDatabase(work_dir=str(tmp_path))
    assert len(again) == 15
    resumed = started(ms, context_of(ms, gemm, strategy(), tiled_a_little), 2000, 15, again)
    rest = flat(exhaust(ms, resumed))
    assert len(rest) == 10
    assert not set(modules(rest)) & set(modules(first))


def test_records_of_another_target_are_not_taken_for_ours(tvm: Any, ms: Any, gemm: Any, strategy: Any) -> None:
    context = started(ms, context_of(ms, gemm, strategy(), tiled_a_little), 2000, 15)
    database = ms.database.MemoryDatabase()
    other = tvm.target.Target({"kind": "llvm", "num-cores": 7})
    committed(ms, database, gemm, other, list(context.generate_measure_candidates()), [0.1])
    resumed = started(ms, context_of(ms, gemm, strategy(), tiled_a_little), 2000, 64, database)
    assert len(flat(exhaust(ms, resumed))) == 25


def test_records_teach(ms: Any, gemm: Any, strategy: Any) -> None:
    """The slow half of a space comes last where the database has the fast half, told as such."""
    context = started(ms, context_of(ms, gemm, strategy(), tiled), 64, 64)
    seen = list(context.generate_measure_candidates())
    database = ms.database.MemoryDatabase()
    committed(ms, database, gemm, context.target, seen, [0.5])
    resumed = started(ms, context_of(ms, gemm, strategy(), tiled), 16, 16, database)
    fresh = started(ms, context_of(ms, gemm, strategy(), tiled), 16, 16)
    assert texts(resumed.generate_measure_candidates()) != texts(fresh.generate_measure_candidates())


def test_one_seed_gives_one_search(ms: Any, gemm: Any, strategy: Any) -> None:
    def found() -> list[str]:
        context = started(ms, context_of(ms, gemm, strategy(), tiled), 16, 8)
        return [text for batch in exhaust(ms, context) for text in texts(batch)]

    assert found() == found()


@pytest.mark.parametrize("called", ["post_tuning", "generate_measure_candidates", "notify_runner_results"])
def test_out_of_order_before(ms: Any, gemm: Any, strategy: Any, called: str) -> None:
    context = context_of(ms, gemm, strategy(), tiled)
    arguments = ([], []) if called == "notify_runner_results" else ()
    with pytest.raises(SearchStateError, match=f"{called} was called outside a search.*pre_tuning"):
        getattr(context, called)(*arguments)


def test_out_of_order_twice(ms: Any, gemm: Any, strategy: Any) -> None:
    context = started(ms, context_of(ms, gemm, strategy(), tiled), 4, 2)
    with pytest.raises(SearchStateError, match="pre_tuning was called twice"):
        started(ms, context, 4, 2)
    context.post_tuning()
    assert len(started(ms, context, 4, 2).generate_measure_candidates()) == 2, "a new search"


def test_a_strategy_without_a_context(ms: Any, gemm: Any, strategy: Any) -> None:
    spaces = context_of(ms, gemm, strategy(), tiled).generate_design_space()
    with pytest.raises(SearchStateError, match="belongs to no context"):
        strategy().pre_tuning(4, 2, spaces, None, None)


def test_results_of_another_number_than_candidates(ms: Any, gemm: Any, strategy: Any) -> None:
    context = started(ms, context_of(ms, gemm, strategy(), tiled), 4, 2)
    candidates = context.generate_measure_candidates()
    with pytest.raises(SearchStateError, match="got 1 results; expected 2"):
        context.notify_runner_results(candidates, ran(ms, candidates)[:1])


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


def test_what_asks_for_the_loops_of_the_root_is_read(ms: Any, gemm: Any, strategy: Any) -> None:
    def curious(sch: Any) -> None:  # as a schedule rule is, that TVM calls for each block
        assert not sch.get_loops(sch.get_sblock("root"))
        tiled_a_little(sch)

    made = strategy()
    context = context_of(ms, gemm, made, curious, postprocs=list(ms.Postproc.create("llvm")))
    started(ms, context, 4, 2)
    assert not any("design space" in remark for remark in made.remarks())


def test_candidates_of_others_are_passed_over(ms: Any, gemm: Any, strategy: Any) -> None:
    theirs = started(ms, context_of(ms, gemm, strategy(), tiled), 4, 2).generate_measure_candidates()
    made = strategy()
    ours = started(ms, context_of(ms, gemm, made, tiled), 4, 2)
    ours.notify_runner_results(theirs, ran(ms, theirs))
    assert made.counts.n_ran == 0


def test_clones_share_counts_and_remarks(ms: Any, gemm: Any, strategy: Any) -> None:
    made = strategy()
    clone = context_of(ms, gemm, made, tiled).clone()
    started(ms, clone, 4, 2).generate_measure_candidates()
    assert made.counts.n_given == 2


def test_an_instruction_that_we_do_not_know_is_drawn_at_random(ms: Any, gemm: Any, strategy: Any) -> None:
    made = strategy()
    context = started(ms, context_of(ms, gemm, made, tiled_in_parts), 200, 4)
    found = flat(exhaust(ms, context))
    assert found
    assert len(set(modules(found))) == len(found)
    assert any("SamplePartitionedTile" in remark and "at random" in remark for remark in made.remarks())


def test_drawn_schedules_are_ranked_by_the_users_model(ms: Any, gemm: Any, strategy: Any) -> None:
    from tvm.ir.utils import derived_object

    asked = []

    @derived_object
    class LikesText(ms.cost_model.PyCostModel):  # type: ignore[misc,name-defined]
        def predict(self, context: Any, candidates: Any) -> Any:
            import numpy as np

            asked.append(len(candidates))
            return np.arange(len(candidates), dtype="float64")

    context = context_of(ms, gemm, strategy(), tiled_in_parts)
    context.pre_tuning(2, 1, context.generate_design_space(), None, LikesText())
    assert len(context.generate_measure_candidates()) == 1
    assert asked
    assert asked[0] > 1


def test_shapes_that_are_no_numbers(tvm: Any, ms: Any, strategy: Any) -> None:
    from tvm import te

    n = te.var("n")
    a = te.placeholder((n, 32), name="a")
    b = te.compute((n, 32), lambda i, j: a[i, j] + 1.0, name="matmul")
    mod = tvm.IRModule({"main": te.create_prim_func([a, b])})

    def split(sch: Any) -> None:
        _, j = sch.get_loops(sch.get_sblock("matmul"))
        sch.split(j, sch.sample_perfect_tile(j, n=2))

    made = strategy()
    context = started(ms, context_of(ms, mod, made, split), 100, 8)
    assert context.generate_measure_candidates() is None, "TVM makes no arguments of such a shape"
    assert any("not all numbers" in remark for remark in made.remarks())
    assert any("cannot measure such a kernel" in remark for remark in made.remarks())


@pytest.mark.parametrize(
    ("spaces", "got"), [([], "an empty list"), ([None], "a schedule without a trace")], ids=["empty", "no trace"]
)
def test_design_spaces_that_are_none(
    tvm: Any, ms: Any, gemm: Any, strategy: Any, spaces: list[Any], got: str
) -> None:
    context = context_of(ms, gemm, strategy(), tiled)
    given = [tvm.s_tir.Schedule._create_non_traced(gemm, debug_mask="none") for _ in spaces]
    with pytest.raises(SpaceError, match=f"there is no design space; got {got}"):
        context.pre_tuning(4, 2, given)
    started(ms, context, 4, 2)  # it can be called again


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"profile": 7}, "profile is of the wrong type; got int"),
        ({"config": 7}, "config is of the wrong type; got int"),
        ({"config": {"sed": 1}}, "sed"),
        ({"config": {"blocked_plugins": ["rulez"]}}, "blocked_plugins: no plugin of this name.*'rulez'"),
        ({"store": 7}, "store is of the wrong type; got int"),
        ({"device_name": 7}, "device_name is none; got 7"),
        ({"device_name": " "}, "device_name is none; got ' '"),
    ],
)
def test_options_of_the_wrong_type(strategy: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        strategy(**options)


@pytest.mark.parametrize(("n", "k"), [(-1, 4), (4, 0)])
def test_numbers_of_trials_that_are_none(ms: Any, gemm: Any, strategy: Any, n: int, k: int) -> None:
    with pytest.raises(ConfigError, match="no number of trials"):
        started(ms, context_of(ms, gemm, strategy(), tiled), n, k)


def test_no_trials_at_all(ms: Any, gemm: Any, strategy: Any) -> None:
    assert started(ms, context_of(ms, gemm, strategy(), tiled), 0, 4).generate_measure_candidates() is None


def test_a_profile_of_another_kind_of_device(ms: Any, gemm: Any, strategy: Any) -> None:
    made = strategy(profile=make_profile(DeviceKind.GPU))
    with pytest.raises(ProfileError, match="another kind of device"):
        started(ms, context_of(ms, gemm, made, tiled), 4, 2)


def test_an_unknown_profile(ms: Any, gemm: Any, strategy: Any) -> None:
    with pytest.raises(ProfileError, match="unknown hardware profile"):
        started(ms, context_of(ms, gemm, strategy(profile="acme/none"), tiled), 4, 2)


def test_a_store_keeps_what_was_measured(ms: Any, gemm: Any, strategy: Any, tmp_path: Path) -> None:
    from prune_engine.library import LibraryQuery
    from prune_engine.store.open import open_store

    url = str(tmp_path / "store.sqlite3")
    context = started(ms, context_of(ms, gemm, strategy(store=url), task_name="mine"), 8, 8)
    first = list(context.generate_measure_candidates())
    context.notify_runner_results(first, ran(ms, first))
    context.post_tuning()
    store = open_store(url)
    (entry, *_) = store.find(LibraryQuery(limit=10))
    assert entry.model == "mine"
    assert store.verdicts(store.tasks(store.runs()[0].run_id)[0].task_id)
    store.close()
    again = started(ms, context_of(ms, gemm, strategy(store=url)), 8, 8)
    assert not set(modules(again.generate_measure_candidates())) & set(modules(first))


def test_tvms_own_spaces_are_read_and_what_rules_leave_comes_first(ms: Any, gemm: Any, strategy: Any) -> None:
    made = strategy()
    context = started(ms, context_of(ms, gemm, made), 32, 32)
    candidates = context.generate_measure_candidates()
    assert len(candidates) == len(set(modules(candidates))) == 32
    assert not [remark for remark in made.remarks() if "design space" in remark]
    kinds = {str(inst.kind.name) for one in candidates for inst in one.sch.trace.insts}
    assert "EnterPostproc" in kinds, "post-processed by the context's own"


def test_cuda(ms: Any, strategy: Any) -> None:
    """Schedules for a GPU that is not there are legal by TVM's own judgement."""
    task = task_of("gemm", json.dumps({"kind": "llvm"}))
    made = strategy()
    target = {
        "kind": "cuda",
        "arch": "sm_80",
        "max_threads_per_block": 1024,
        "max_shared_memory_per_block": 49152,
        "thread_warp_size": 32,
    }
    context = started(ms, context_of(ms, task.mod, made, target=target), 8, 8)
    candidates = context.generate_measure_candidates()
    assert len(candidates) == 8
    assert all("threadIdx.x" in str(one.sch.mod) for one in candidates)
