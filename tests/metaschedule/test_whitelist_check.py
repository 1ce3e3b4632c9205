"""What a schedule has to pass before it is whitelisted, and kernels as text."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kits.recordings import TARGET, schedules
from kits.whitelists import make_check, make_listed

from prune_engine.candidates import CandidateBatch
from prune_engine.config import EngineConfig
from prune_engine.errors import SpaceError
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.measurement import MeasureErrorKind
from prune_engine.metaschedule import whitelist_check
from prune_engine.metaschedule.targets import resolve_target
from prune_engine.metaschedule.whitelist_check import Examiner
from prune_engine.metaschedule.whitelist_kernels import entry_for, task_of_entry
from prune_engine.numeric_safety import FpPolicy, SafetyCase, SafetyReport
from prune_engine.pipeline import Pipeline
from prune_engine.strategies import Rule, Selector
from prune_engine.testing import FakeWorkbench, make_batch, make_space, make_task
from prune_engine.verdicts import BoolArray, RuleKind
from prune_engine.whitelist.entries import Check, WhitelistEntry
from prune_engine.whitelist.placing import Schedule

BATCH = make_batch(4, space=make_space(make_task()), seed=3)
ENTRY = make_listed(BATCH, 0)


class CheckingWorkbench(FakeWorkbench):
    """A fake that also says whether numbers are right."""

    def __init__(self, report: SafetyReport | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._report = report or SafetyReport.of([SafetyCase("random", True, 1e-7, 1e-5)])
        self.texts: list[str] = []

    def check_numbers(self, task: object, traces: Sequence[str], policy: object) -> list[SafetyReport]:
        self.texts += traces
        return [self._report for _ in traces]


class NoCandidates(Rule):
    name = "acme.none"

    def __init__(self, kind: RuleKind) -> None:
        self.kind = kind  # type: ignore[misc]

    def mask(self, batch: CandidateBatch, profile: object) -> BoolArray:
        return np.zeros(len(batch), dtype=np.bool_)


@pytest.fixture
def examiner(profile: HardwareProfile) -> Any:
    def make(workbench: Any = None, *rules: Rule) -> Examiner:
        selector: Selector = None  # type: ignore[assignment]  # nothing is selected
        pipeline = Pipeline(
            rules=rules,
            draft_scorer=None,
            verifier=None,
            selector=selector,
            profile=profile,
            config=EngineConfig(),
            on_failure=lambda *_: None,
        )
        return Examiner(workbench or CheckingWorkbench(default_ratio=100.0), pipeline, {}, "", FpPolicy())

    return make


def examined(examiner: Examiner, entry: WhitelistEntry = ENTRY, floor: float = 1.0) -> Check:
    return examiner.examine_schedule(make_task(), Schedule.of(entry), floor).check


def test_a_good_schedule_passes_with_its_evidence(examiner: Any) -> None:
    finding = examiner().examine_schedule(make_task(), Schedule.of(ENTRY))
    check = finding.check
    assert check.is_passed
    assert [case.name for case in check.numeric] == ["random"]
    assert len(check.run_secs) == len(check.default_secs) > 1
    assert check.speedup is not None
    assert check.speedup > 1
    assert (check.device_name, check.n_threads) == ("fake-cpu", 2)
    assert finding.sketch.sketch_id == ENTRY.sketch_id
    assert finding.decisions == tuple(choice.values for choice in ENTRY.choices)


def test_wrong_numbers_are_not_timed(examiner: Any) -> None:
    wrong = SafetyReport.of([SafetyCase("random", True), SafetyCase("zeros", False, 2.0, 0.0, "off by 2")])
    workbench = CheckingWorkbench(wrong, default_ratio=100.0)
    check = examined(examiner(workbench))
    assert check.problems == ("numbers: zeros: off by 2",)
    assert len(check.numeric) == 2, "the evidence against it is kept"
    assert not check.run_secs
    assert not workbench.asked


def test_illegal_schedules_are_not_built(examiner: Any) -> None:
    workbench = CheckingWorkbench(default_ratio=100.0)
    check = examined(examiner(workbench, NoCandidates(RuleKind.LEGALITY)))
    assert check.problems == ("not legal here: dropped by acme.none",)
    assert not workbench.texts
    assert examined(examiner(None, NoCandidates(RuleKind.HEURISTIC))).is_passed, "a guess is not asked"


def test_what_the_compiler_refuses_does_not_pass(examiner: Any) -> None:
    check = examined(examiner(CheckingWorkbench(default_ratio=100.0, refused=lambda _: True)))
    assert check.problems == ("the compiler refuses it: refused (planted)",)


def test_what_cannot_be_timed_does_not_pass(examiner: Any) -> None:
    planted = {BATCH.candidate(0).candidate_id: MeasureErrorKind.CRASH}
    (problem,) = examined(examiner(CheckingWorkbench(default_ratio=100.0, planted=planted))).problems
    assert problem.startswith("cannot be timed: crash")


def test_a_schedule_has_to_beat_the_untuned_kernel(examiner: Any) -> None:
    (problem,) = examined(examiner(CheckingWorkbench(default_ratio=0.5))).problems
    assert "times as fast as the untuned kernel, not 1 times or more" in problem


def test_a_schedule_that_no_sketch_holds_is_examined_as_it_is(examiner: Any) -> None:
    fixed = make_listed(sketch_id="elsewhere", choices=(), trace_json='{"floors": 2.0}')
    finding = examiner().examine_schedule(make_task(), Schedule.of(fixed))
    assert finding.check.is_passed
    assert finding.sketch.sketch_id == "fixed-2"
    (problem,) = examined(examiner(), replace(fixed, trace_json="[]")).problems
    assert problem == "is no rewritten schedule"


@pytest.mark.parametrize(
    ("default_ratio", "max_slowdown", "is_passed"), [(100.0, 1.1, True), (20.0, 1.1, False), (20.0, 9.0, True)]
)
def test_a_loss_of_speed_is_a_regression(
    examiner: Any, monkeypatch: pytest.MonkeyPatch, default_ratio: float, max_slowdown: float, is_passed: bool
) -> None:
    monkeypatch.setattr(whitelist_check, "task_of_entry", lambda *_: make_task())
    first = examined(examiner())
    entry = replace(ENTRY, checks=(first, replace(first, device_name="a faster one", run_secs=(1e-9,))))
    again = examiner(CheckingWorkbench(default_ratio=default_ratio)).examine(entry, max_slowdown=max_slowdown)
    assert again.check.is_passed == is_passed


def test_an_entry_whose_kernel_cannot_be_read_fails_its_check(examiner: Any) -> None:
    (problem,) = examiner().examine(ENTRY).check.problems
    assert problem == "its kernel cannot be read"


@pytest.fixture
def real() -> WhitelistEntry:
    made = schedules()
    batch = CandidateBatch(
        made.space, made.space.sketches[0], np.array([[v.rows[0] for v in made.space.sketches[0].variables]])
    )
    decisions = batch.candidate(0).decisions
    sketch = made.space.sketches[0]
    about = {"by": "ada", "at": 1.0, "note": "", "source": "a test"}
    return entry_for(made.task, sketch, decisions, made.traces[0], [make_check()], **about)  # type: ignore[arg-type]


def test_a_kernel_comes_back_from_its_text(real: WhitelistEntry) -> None:
    task = task_of_entry(real, resolve_target(TARGET, 2))
    assert task.task_id == schedules().task.task_id
    assert real.is_for(task)
    assert len(real.workload) < 20_000
    assert "EnterPostproc" not in real.trace_json


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 9)).decode()


@pytest.mark.parametrize(
    "workload",
    ["", "not base64!", "AAAA", packed(b"{}"), packed(b"\xff\xfe"), packed(b"[1, 2")],
    ids=["nothing", "text", "no zlib", "no module", "no text", "no json"],
)
def test_what_is_no_kernel_is_refused(real: WhitelistEntry, workload: str) -> None:
    with pytest.raises(SpaceError, match="its kernel cannot be read"):
        task_of_entry(replace(real, workload=workload), resolve_target(TARGET, 2))


def test_a_kernel_that_never_ends_is_not_unpacked(real: WhitelistEntry) -> None:
    with pytest.raises(SpaceError, match="longer than 32 MiB"):
        task_of_entry(replace(real, workload=packed(b"\0" * (33 << 20))), resolve_target(TARGET, 2))


def test_another_kernel_than_the_entry_says_is_refused(real: WhitelistEntry) -> None:
    other = replace(real, arg_shapes=((1, 2), *real.arg_shapes[1:]))
    with pytest.raises(SpaceError, match="another than it says"):
        task_of_entry(other, resolve_target(TARGET, 2))
