"""What a report says, before it is drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from prune_engine.errors import ArtifactError, ConfigError, StoreError
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.report.collecting import collect
from prune_engine.report.curves import best_so_far, by_seconds, improvements
from prune_engine.report.environment import environment_rows, policy_hash, profile_of
from prune_engine.report.forecasts import draft_forecast, verifier_forecast
from prune_engine.report.records import RunReport, TaskReport
from prune_engine.report.rooflines import argument_bytes, ceilings_of
from prune_engine.report.sources import opened
from prune_engine.report.summary import headline
from prune_engine.task import TuningTask


@pytest.fixture(scope="module")
def report(plain_run: Path) -> RunReport:
    with opened(str(plain_run), None) as source:
        return collect(source)


@pytest.fixture(scope="module")
def task(report: RunReport) -> TaskReport:
    return report.tasks[0]


def test_funnel_counts_what_reached_each_stage(task: TaskReport) -> None:
    found = {bar.label: bar.count for bar in task.funnel}
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert found == {
        "task space": 10**7,
        "space after rules": 10**6,
        "proposed": 12 + 200 + 40 + 500 + 3000,
        "kept by rules": 12 + 200 + 40 + 500,
        "draft list": 12 + 200 + 40,
        "kept by verifier": 12 + 200,
        "selected": 12,
        "measured": 12,
        "ran correctly": 11,
    }


def test_costliest_kernel_comes_first(report: RunReport) -> None:
    assert [t.task.weight for t in report.tasks] == [2, 1]


def test_curve_only_falls_and_ends_at_the_best(task: TaskReport) -> None:
    x, secs = best_so_far(task)
    assert (x[0], secs[0]) == (0.0, 8e-3)
    assert x[-1] == 12
    assert secs == sorted(secs, reverse=True)
    assert secs[-1] == min(t.latency_secs for t in task.trials if t.latency_secs is not None)
    assert [latency for _, _, latency in improvements(task)] == secs[1 : len(improvements(task)) + 1]


def test_curve_passes_over_what_was_stopped_early(task: TaskReport) -> None:
    trials = tuple(replace(t, is_censored=True) for t in task.trials)
    assert set(best_so_far(replace(task, trials=trials))[1]) == {8e-3}


def test_seconds_begin_with_the_best_of_earlier_runs(task: TaskReport) -> None:
    fast = replace(task.trials[0], run_offset_secs=None, latency_secs=1e-4)
    _, secs = by_seconds(replace(task, trials=(fast, *task.trials[1:])))
    assert secs[0] == 1e-4


def test_forecasts_pair_what_was_foreseen_with_what_ran(task: TaskReport) -> None:
    draft = draft_forecast(task.trials)
    assert len(draft.trials) == 11  # one crashed
    perfect = tuple(replace(t, draft_secs=t.latency_secs) for t in task.trials)
    assert draft_forecast(perfect).rho == pytest.approx(1.0)
    assert draft_forecast(task.trials[:3]).rho is None


def test_rank_correlation_is_scipys_with_ties_too(task: TaskReport) -> None:
    from scipy.stats import spearmanr

    foreseen = [1e-3, 2e-3, 2e-3, 5e-3, 1e-3, 9e-3, 3e-3, 3e-3, 3e-3, 4e-3, 1e-3, 2e-3]
    trials = tuple(replace(t, draft_secs=f) for t, f in zip(task.trials, foreseen, strict=True))
    ran = [(f, t.latency_secs) for f, t in zip(foreseen, trials, strict=True) if t.latency_secs is not None]
    assert draft_forecast(trials).rho == pytest.approx(float(spearmanr(*zip(*ran, strict=True)).statistic))


def test_verifiers_latencies_come_before_its_scores(task: TaskReport) -> None:
    assert not verifier_forecast(task.trials).is_latency
    foreseen = tuple(replace(t, verifier_secs=t.latency_secs) for t in task.trials)
    assert verifier_forecast(foreseen).is_latency
    assert verifier_forecast(foreseen).rho == pytest.approx(1.0)


def test_failures_are_counted_with_an_example(report: RunReport) -> None:
    (crash,) = report.failures
    assert (crash.kind, crash.count, crash.message) == ("crash", 2, "signal 11")
    assert crash.trace_json is not None


def test_failures_of_the_finals_count(made_run) -> None:
    from prune_engine.measurement import Comparison, MeasureError, MeasureErrorKind
    from prune_engine.store.sql import SqlStore

    out = made_run()
    store = SqlStore(str(out.parent / "store.sqlite3"))
    wrong = MeasureError(MeasureErrorKind.WRONG_RESULT, "off by 1")
    comparison = Comparison(("default", "task000-2"), ((8e-3,), ()), (None, wrong))
    store.add_comparison(store.runs()[0].run_id, "task000", "made-up CPU", 1, comparison)
    store.close()
    with opened(str(out), None) as source:
        report = collect(source)
    assert report.tasks[1].n_failed == 2
    assert report.tasks[1].best_candidate_id == "default"
    assert [(row.kind, row.count) for row in report.failures] == [("crash", 2), ("wrong_result when re-timed", 1)]
    assert report.failures[1].trace_json is not None


def test_audits_have_intervals(report: RunReport) -> None:
    verifier = next(audit for audit in report.audits if audit.strategy == "verifier")
    assert verifier.n_measured == 2
    assert verifier.false_prune is not None
    assert verifier.false_prune.low <= verifier.false_prune.value <= verifier.false_prune.high


def test_a_heuristic_that_no_audit_was_drawn_of_is_listed_with_its_drops(made_run) -> None:
    from prune_engine.report.figures import audit_figure
    from prune_engine.report.page import render
    from prune_engine.store.sql import SqlStore

    out = made_run()
    store = SqlStore(str(out.parent / "store.sqlite3"))
    rules = {"rules.cut": {"kind": "heuristic"}, "rules.legal": {"kind": "legality"}}
    store.add_to_manifest(store.runs()[0].run_id, {"policy": {"hash": "h", "content": {"rules": rules}}})
    store.close()
    with opened(str(out), None) as source:
        report = collect(source)
    found = {audit.strategy: (audit.n_dropped, audit.n_measured) for audit in report.audits}
    assert found["rules.cut"] == (2 * 9 * 10**6, 0)
    assert "rules.legal" not in found
    told = audit_figure(report)["data"][1]
    assert dict(zip(told["y"], told["text"], strict=True))["rules.cut"].replace("\u202f", "") == (
        "not audited, 18000000 dropped"
    )
    assert 'data-sort="0">not audited</td>' in render(report)


def test_ceilings_of_a_run_whose_profile_has_none_are_those_of_a_probe(
    made_run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prune_engine.hardware.host import host_profile
    from prune_engine.hardware.schema import Probe, Rate
    from prune_engine.hardware.writer import write_profile
    from prune_engine.report.figures import roofline_figure
    from prune_engine.store.sql import SqlStore

    out, host = made_run(), host_profile(1)
    store = SqlStore(str(out.parent / "store.sqlite3"))
    store.add_to_manifest(
        store.runs()[0].run_id, {"profile_content": host.model_dump(mode="json", exclude_unset=True)}
    )
    store.close()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PRUNE_ENGINE_PROFILE_PATH", str(tmp_path / "probes"))
    (tmp_path / "probes").mkdir()
    with opened(str(out), None) as source:
        report = collect(source)
    assert report.ceilings == ()
    assert "`prune-engine profiles probe --threads 1` measures them" in report.missing["roofline"]
    (note,) = roofline_figure(report.tasks, report.ceilings)["layout"]["annotations"]
    assert "profiles probe measures them" in note["text"]
    unit = host.compute[0].model_copy(update={"peak_flop_per_sec": {"float32": Rate(value=1e11, source="timed")}})
    for n_threads in (2, 1):
        probe = Probe(cpu_model=host.description, n_threads=n_threads, measured_at="2026-01-02", version="0")
        made = host.model_copy(
            update={
                "name": f"probe-{n_threads}t",
                "compute": (unit,),
                "probe": probe,
                "sources": {**host.sources, "timed": "timed"},
            }
        )
        write_profile(made, tmp_path / "probes" / f"probe-{n_threads}t.yaml")
    with opened(str(out), None) as source:
        report = collect(source)
    assert [ceiling.flop_per_sec for ceiling in report.ceilings] == [1e11]
    assert "measured on such a processor at 2026-01-02 (probe-1t)" in report.missing["roofline"]
    assert roofline_figure(report.tasks, report.ceilings)["layout"]["annotations"] == []


def test_headline_is_the_gain_of_the_model_or_of_its_kernels(report: RunReport) -> None:
    assert headline(report).startswith("dense.onnx runs 2.00× as fast as untuned: from 200 ms to 100 ms")
    assert "not beaten" in headline(replace(report, is_tuned=False))
    assert "2 kernels together take" in headline(replace(report, latencies=()))
    assert ": 1 kernel takes" in headline(replace(report, latencies=(), tasks=report.tasks[:1]))
    assert "nothing was measured" in headline(replace(report, latencies=(), tasks=()))
    told = tuple(replace(task, default_secs=None) for task in report.tasks)
    assert "the best found takes" in headline(replace(report, latencies=(), tasks=told))


@pytest.mark.parametrize(
    ("dtypes", "n_bytes"),
    [
        (("float32", "int8"), 4 * 6 + 6),
        (("bool", "float16"), 6 + 12),
        (("int4", "int4"), 6),
        (("handle", "int8"), 6),
    ],
)
def test_argument_bytes(dtypes: tuple[str, str], n_bytes: int) -> None:
    task = TuningTask("t", "t", "llvm", 1, 1, ((2, 3), (6,)), dtypes)
    assert argument_bytes(task) == n_bytes


def test_ceilings_are_those_of_the_whole_device(task: TaskReport) -> None:
    profile = ProfileRegistry().resolve("amd-epyc-7452")
    ceilings = ceilings_of(profile, [task.task])
    peaks = [c.flop_per_sec for c in ceilings if c.flop_per_sec]
    (unit,) = profile.compute
    rate = unit.peak_flop_per_sec["float32"]
    assert rate is not None
    assert peaks == [rate.value]
    l1 = profile.level("l1") or profile.memory[0]
    assert l1.bandwidth_bytes_per_sec is None or any(
        c.bytes_per_sec == l1.bandwidth_bytes_per_sec.value * (l1.instances.value if l1.instances else 1)
        for c in ceilings
    )


def test_profile_is_read_back_from_the_manifest() -> None:
    profile = ProfileRegistry().resolve("amd-epyc-7452")
    content = profile.model_dump(mode="json", exclude_unset=True)
    assert profile_of({"profile": "gone", "profile_content": content})[0] == profile
    broken, why = profile_of({"profile": "gone", "profile_content": {"name": 1}})
    assert broken is None
    assert "cannot be read" in why


def test_manifest_as_rows() -> None:
    manifest = {"a": {"b": [1, "x"], "c": None}, "policy": {"hash": "abc"}, "profile_content": {}, "empty": {}}
    assert environment_rows(manifest) == (("a.b", "1, x"), ("a.c", "null"), ("empty", "{}"))
    assert policy_hash(manifest) == "abc"
    assert policy_hash({}) == ""


def test_run_is_found_by_the_beginning_of_its_id(plain_run: Path) -> None:
    store = str(plain_run.parent / "store.sqlite3")
    with opened(store, None) as newest, opened(store, newest.run.run_id[:6]) as found:
        assert found.run.run_id == newest.run.run_id
        assert found.result is None
    with pytest.raises(ConfigError, match="no such run"), opened(store, "nonsense"):
        pass


def test_several_runs_that_begin_alike_are_none(made_run) -> None:
    from prune_engine.store.sql import SqlStore

    out = made_run()
    store = SqlStore(str(out.parent / "store.sqlite3"))
    ids = [store.start_run({}) for _ in range(40)]  # 16 digits: two must share the first
    store.close()
    first = next(a[0] for i, a in enumerate(ids) if any(a[0] == b[0] for b in ids[:i]))
    with pytest.raises(ConfigError, match="several runs begin so"), opened(store.url, first):
        pass


def test_no_store_is_made_by_asking(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store"), opened(str(tmp_path / "none.sqlite3"), None):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [None, "{", "[]", '{"run_id": 1}', "[" * 100_000])
def test_folder_without_a_result_is_an_error(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "result.json").write_text(content)
    with pytest.raises(ArtifactError), opened(str(tmp_path), None):
        pass


def test_store_may_have_moved(plain_run: Path, tmp_path: Path) -> None:
    import shutil

    out, store = tmp_path / "out", tmp_path / "moved.sqlite3"
    shutil.copytree(plain_run, out)
    shutil.copy(plain_run.parent / "store.sqlite3", store)
    with opened(str(out), None, str(store)) as source:
        assert source.store.url == str(store)
        assert source.folder == out
