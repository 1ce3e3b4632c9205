"""`prune-engine explain`, as a user types it."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from prune_engine.config import EngineConfig
from prune_engine.decisions.files import DecisionWriter
from prune_engine.decisions.records import read_decisions
from prune_engine.engine import Engine
from prune_engine.measurement import MeasureErrorKind
from prune_engine.numeric_safety import STRATEGY, FpPolicy, SafetyCase, SafetyReport
from prune_engine.store.sql import SqlStore
from prune_engine.task import TuningTask
from prune_engine.testing import FakeWorkbench, make_profile, make_task

Inside = Callable[..., "tuple[int, str, str]"]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result folder with decisions on two tasks, and the store of the run."""
    return tuned(tmp_path_factory.mktemp("out"), [make_task("dense1"), make_task("dense2", shape=(96, 64, 48))])


def tuned(out: Path, tasks: Sequence[TuningTask], n_trials: int = 40, crash_share: float = 0.2) -> Path:
    """Write decisions on tasks, and the store of the run."""
    config = EngineConfig.of(n_trials=n_trials, explore_size=256, draft_size=64, draft_scorer=None, verifier=None)
    store = SqlStore(f"sqlite:///{out / 'store.db'}")
    workbench = FakeWorkbench(failures={MeasureErrorKind.CRASH: crash_share}, seed=3)
    engine = Engine(config, workbench, store, make_profile(), decisions=DecisionWriter(out / "decisions"))
    engine.run(tasks)
    store.close()
    return out


@pytest.mark.parametrize("wanted", ["1", "2", "dense1"])
def test_numbers_and_names_are_of_the_named_result_before_a_store(
    wanted: str, inside: Inside, result: Path, tmp_path: Path
) -> None:
    tuned(tmp_path, [make_task("other", shape=(32, 32, 32)), make_task("dense1", shape=(16, 32, 32))], n_trials=8)
    code, out, err = inside("explain", wanted, "--out", result, "--store", tmp_path / "store.db", "--json")
    assert code == 0, err
    assert json.loads(out)["folder"] == str(result / "decisions")


def test_nothing_ran_and_a_store_may_know_more(inside: Inside, tmp_path: Path) -> None:
    tuned(tmp_path, [make_task("dense1")], n_trials=8, crash_share=1.0)
    code, out, err = inside("explain", "dense1", "best", "--out", tmp_path)
    assert (code, out) == (2, "")
    assert "nothing of this task ran" in err
    assert "--store" in err
    code, _, err = inside("explain", "dense1", "best", "--out", tmp_path, "--store", tmp_path / "store.db")
    assert code == 2
    assert "--store" not in err


def test_a_task_as_a_whole(inside: Inside, result: Path) -> None:
    code, out, err = inside("explain", "dense1", "--out", result)
    assert code == 0, err
    assert out.startswith("Task dense1: in ")
    assert "8 were tried" in out
    assert "skipped by select.diverse (choice): not among the chosen" in out
    assert "The best that was measured is " in out


def test_best_and_worst_are_what_was_measured(inside: Inside, result: Path) -> None:
    task = make_task("dense1").task_id
    ran = {
        d.candidate: d.measured.latency_secs
        for d in read_decisions(result / "decisions", task)
        if d.measured and d.measured.latency_secs
    }
    for which, expected in (("best", min(ran.values())), ("worst", max(ran.values()))):
        code, out, err = inside("explain", "dense1", which, "--out", result, "--json")
        assert code == 0, err
        record = json.loads(out)
        assert ran[record["candidate_id"]] == expected
        assert record["decisions"][-1]["candidate"] == record["candidate_id"]
        assert any(sentence.startswith("It took") for sentence in record["sentences"])
    assert "It is the best that was measured" in inside("explain", "dense1", "best", "--out", result)[1]


def test_each_fate_has_its_sentence(inside: Inside, result: Path) -> None:
    decisions = list(read_decisions(result / "decisions", make_task("dense2", shape=(96, 64, 48)).task_id))
    failed = next(d for d in decisions if d.measured and d.measured.error)
    code, out, _ = inside("explain", "dense2", failed.candidate, "--out", result)
    assert code == 0
    assert "It could not be measured: crash" in out
    measured = {d.candidate for d in decisions if d.measured}
    left = next(d for d in decisions if d.candidate and d.candidate not in measured)
    code, out, _ = inside("explain", "dense2", left.candidate[:10] if left.candidate else "", "--out", result)
    assert code == 0
    assert "did not take it: not among the chosen" in out
    assert out.rstrip().endswith("It was not measured.")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("dens1",), "expected one such as dense1"),
        (("conv",), "expected one of: 1 (dense2), 2 (dense1)"),
        (("dense1", "0000"), "no such candidate was looked at closely"),
        (("dense1", "x", "--why-not", "i=3"), "names a candidate already"),
        (("dense1", "--model", "gemm:64x64x64"), "without effect without --why-not"),
        (("dense1", "--why-not", "i"), "--why-not: cannot be read"),
        (("dense1", "--why-not", "i=3"), "the model of the task is not known"),
    ],
)
def test_errors_name_what_is_near(inside: Inside, result: Path, arguments: tuple[str, ...], told: str) -> None:
    code, _, err = inside("explain", *arguments, "--out", result)
    assert code == 2
    assert told in err


def test_numbers_are_those_of_the_result(inside: Inside, result: Path, tmp_path: Path) -> None:
    shutil.copytree(result / "decisions", tmp_path / "decisions")
    ids = [make_task("dense1").task_id, make_task("dense2", shape=(96, 64, 48)).task_id]
    (tmp_path / "result.json").write_text(json.dumps({"tasks": [{"task_id": identity} for identity in ids]}))
    for number, name in (("1", "dense1"), ("2", "dense2")):
        assert inside("explain", number, "--out", tmp_path)[1].startswith(f"Task {name}:")
    (tmp_path / "result.json").write_text("[")
    assert inside("explain", "1", "--out", tmp_path)[1].startswith("Task dense2:")
    # Kernels that nothing was decided of count, too.
    (tmp_path / "result.json").write_text(json.dumps({"tasks": [{"task_id": x} for x in ("none", *ids)]}))
    assert inside("explain", "3", "--out", tmp_path)[1].startswith("Task dense2:")
    assert "Task none: no candidate of it was looked at" in inside("explain", "1", "--out", tmp_path)[1]
    assert inside("explain", "5", "--out", tmp_path)[0] == 2


def test_a_folder_without_decisions(inside: Inside, tmp_path: Path) -> None:
    code, _, err = inside("explain", "x", "--out", tmp_path)
    assert code == 2
    assert "no decisions are recorded there" in err


def test_a_result_without_decisions_tells_of_its_kernels(inside: Inside, tmp_path: Path) -> None:
    task = {"task_id": "f" * 24, "name": "copy", "space_size": 1, "n_trials": 0, "stop_reason": "nothing_to_tune"}
    (tmp_path / "result.json").write_text(json.dumps({"run_id": "r", "tasks": [task]}))
    code, out, err = inside("explain", "copy", "--out", tmp_path)
    assert code == 0, err
    assert "it has nothing to choose: it keeps its only schedule" in out


def test_results_in_tuned_are_found(
    inside: Inside, result: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "a task of an earlier run" in inside("explain", "dense1")[2]
    shutil.copytree(result / "decisions", tmp_path / "tuned" / "tiny" / "decisions")
    assert inside("explain", "dense1")[0] == 0


def test_a_store_tells_without_decisions(inside: Inside, result: Path, tmp_path: Path) -> None:
    store = result / "store.db"
    code, out, err = inside("explain", "dense1", "--store", store, "--out", tmp_path)
    assert code == 0, err
    assert "skipped by select.diverse (select): not among the chosen" in out
    code, out, err = inside("explain", "dense1", "best", "--store", store, "--out", tmp_path)
    assert code == 0, err
    assert "It took" in out


def test_why_not_a_candidate_that_nobody_looked_at(inside: Inside) -> None:
    code, out, err = inside(
        *("explain", "gemm:64x64x64", "--profile", "xeon-8272cl", "--json"),
        *("--why-not", "0.matmul.0=1,1,1,64 1.matmul.1=1,1,64,1 2.matmul.2=64,1"),
    )
    assert code == 0, err
    record = json.loads(out)
    assert record["stage"] == "task_space"
    names = [one["strategy"] for one in record["objections"]]
    assert "rules.unit-reduction" in names
    assert record["decisions"]["2.matmul.2"] == [64, 1]
    changed = {change["variable"] for change in record["ways"][0]}
    assert "2.matmul.2" in changed


def test_why_not_on_a_gpu_names_the_limit(inside: Inside) -> None:
    code, out, err = inside(
        *("explain", "gemm:512x512x512", "--target", "cuda/a100"),
        *("--why-not", "0.matmul.0=1,1,64,1,8 1.matmul.1=1,1,64,1,8"),
    )
    assert code == 0, err
    assert (
        "rules.threads-per-block would keep it if limits.threads_per_block were 4096 instead of 1024."
        in " ".join(out.split())
    )
    assert "The nearest decisions that pass:" in out


class Unsafe(FakeWorkbench):
    """Finds every schedule wrong on zeros."""

    def check_numbers(self, task: TuningTask, traces: Sequence[str], policy: FpPolicy) -> list[SafetyReport]:
        return [SafetyReport.of([SafetyCase("zeros", is_ok=False, problem="off by 1")]) for _ in traces]


def test_what_is_not_safe_is_told(inside: Inside, tmp_path: Path) -> None:
    """The fastest did not ship: who asks about it must not be told that it is simply the best."""
    config = EngineConfig.of(n_trials=16, explore_size=256, draft_size=64, draft_scorer=None, verifier=None)
    store = SqlStore("sqlite://")
    # So small that a file is begun anew, and the old one rewritten, with every round.
    writer = DecisionWriter(tmp_path / "out" / "decisions", 200_000)
    Engine(config, Unsafe(), store, make_profile(), decisions=writer).run([make_task("dense1")])
    unsafe = {v.candidate_id for v in store.verdicts(make_task("dense1").task_id) if v.strategy == STRATEGY}
    assert unsafe
    told = inside("explain", "dense1", "--out", "out")[1].replace("\n", " ")
    for candidate in unsafe:
        assert f"Candidate {candidate} does not ship: numeric-safety found it not safe: " in told
        code, out, err = inside("explain", "dense1", candidate, "--out", "out", "--json")
        assert code == 0, err
        assert "off by 1: it does not ship." in json.loads(out)["sentences"][-1]
        assert json.loads(out)["sentences"][1].startswith("One round of 2 "), "the check is no round"


@pytest.mark.filterwarnings("ignore:.*are no decisions")
def test_files_that_cannot_be_read_are_told(inside: Inside, result: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(result / "decisions", out / "decisions")
    (file,) = (out / "decisions").iterdir()
    text = gzip.decompress(file.read_bytes())
    file.write_bytes(gzip.compress(text.replace(b'"outcome":"', b'"outcome":"un')))
    code, told, err = inside("explain", "dense1", "--out", out)
    assert (code, told) == (6, "")
    assert "no line on this task is a decision" in err
    (out / "decisions" / "0002.jsonl.gz").mkdir()
    code, told, err = inside("explain", "dense1", "--out", out)
    assert (code, told) == (6, "")
    assert "0002.jsonl.gz: cannot be read" in err


@pytest.fixture
def later(result: Path, tmp_path: Path) -> Path:
    """The same decisions beside a store that a later run, whose decisions are elsewhere, measured more on."""
    shutil.copytree(result / "decisions", tmp_path / "decisions")
    shutil.copy(result / "store.db", tmp_path / "store.db")
    config = EngineConfig.of(n_trials=60, explore_size=256, draft_size=64, draft_scorer=None, verifier=None, seed=5)
    store = SqlStore(f"sqlite:///{tmp_path / 'store.db'}")
    Engine(config, FakeWorkbench(seed=3), store, make_profile()).run([make_task("dense1")])
    store.close()
    return tmp_path


def test_a_store_adds_what_the_decisions_do_not_tell(inside: Inside, later: Path) -> None:
    both = ("--out", later, "--store", later / "store.db")
    store = SqlStore(f"sqlite:///{later / 'store.db'}")
    made_with = store.runs()[0].manifest
    rows = list(
        store.candidates(make_task("dense1").task_id, str(made_with["device"]), int(str(made_with["n_threads"])))
    )
    secs = {row.candidate_id: row.measurement.latency_secs for row in rows if row.candidate_id != "default"}
    ran = {name: value for name, value in secs.items() if value is not None}
    recorded = {d.candidate for d in read_decisions(later / "decisions") if d.measured}
    others = ran.keys() - recorded
    code, out, err = inside("explain", "dense1", *both)
    assert code == 0, err
    assert out.startswith("Task dense1: in ")
    assert f"has {len(others)} more that ran, of runs whose decisions are not here" in " ".join(out.split())
    assert inside("explain", "dense1", "best", *both, "--json")[1].count(min(ran, key=lambda name: ran[name])) > 0
    one = min(others)
    code, out, err = inside("explain", "dense1", one, *both)
    assert code == 0, err
    assert f"Candidate {one} was kept by" in out
    assert "It took " in out
    assert inside("explain", "dense1", one, "--out", later)[0] == 2


def test_damaged_lines_are_told_as_other_warnings_are(inside: Inside, result: Path, tmp_path: Path) -> None:
    shutil.copytree(result / "decisions", tmp_path / "decisions")
    (file,) = sorted((tmp_path / "decisions").iterdir())
    task = make_task("dense1").task_id
    file.write_bytes(file.read_bytes() + gzip.compress(f'{{"task":"{task}"}}\n'.encode()))
    code, _, err = inside("explain", "dense1", "--out", tmp_path)
    assert code == 0
    assert err == f"warning: {file}: 1 lines are no decisions and were passed over\n"


@pytest.mark.parametrize(
    ("task", "told"),
    [
        (
            {"space_size": 900, "n_trials": 0, "stop_reason": "seconds"},
            "got no turn, the run ended before because the ",
        ),
        ({"space_size": 1, "n_trials": 0, "stop_reason": "nothing_to_tune"}, "it has nothing to choose"),
        (
            {"stop_reason": "default_failed", "failure_examples": {"default": "crash: SIGSEGV"}},
            "its untuned kernel could not be measured (crash: SIGSEGV)",
        ),
        (
            {"n_trials": 12, "space_size": 900, "stop_reason": "trials"},
            "12 candidates of it were measured, but no ",
        ),
    ],
    ids=["no turn", "no choice", "no default", "recorded elsewhere"],
)
def test_a_kernel_that_nothing_was_decided_of(
    inside: Inside, result: Path, tmp_path: Path, task: dict[str, object], told: str
) -> None:
    shutil.copytree(result / "decisions", tmp_path / "decisions")
    record = {"tasks": [{"task_id": make_task("dense1").task_id}, {"task_id": "f" * 24, "name": "late", **task}]}
    (tmp_path / "result.json").write_text(json.dumps(record))
    code, out, err = inside("explain", "2", "--out", tmp_path)
    assert code == 0, err
    assert out.startswith("Task late: ")
    assert told in out
    code, _, err = inside("explain", "late", "best", "--out", tmp_path)
    assert code == 2
    assert told in err


def test_decisions_of_an_earlier_run_do_not_look_current(inside: Inside, result: Path, tmp_path: Path) -> None:
    shutil.copytree(result / "decisions", tmp_path / "decisions")
    run_id = next(read_decisions(tmp_path / "decisions")).run
    told = "is of a later run (abcdefabcdef) that recorded no decisions: this is what an earlier run decided."
    for run, is_stale in (("abcdefabcdef0123", True), (run_id, False)):
        (tmp_path / "result.json").write_text(json.dumps({"run_id": run}))
        for arguments in (("dense1",), ("dense1", "best")):
            code, out, err = inside("explain", *arguments, "--out", tmp_path)
            assert code == 0, err
            assert (told in " ".join(out.split())) is is_stale
