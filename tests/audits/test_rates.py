"""The accounts of audits: who won, with which confidence, and when a rule is wrong."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from prune_engine.audits.rates import AuditLog, AuditReport, Loss, is_switch_off, merged, switch_off_verdict
from prune_engine.funnel import FunnelStep
from prune_engine.measurement import MeasureErrorKind
from prune_engine.pipeline import AUDIT_PREFIX
from prune_engine.store.base import StoredCandidate
from prune_engine.testing import make_measurement
from prune_engine.verdicts import Outcome, RuleKind, Stage, Verdict

RULE, DRAFT = (Stage.RULE, "acme.guess"), (Stage.DRAFT, "acme.draft")
KEPT = [(f"kept{i}", 1e-3 * (1 + i / 10)) for i in range(16)]


def log_of(*secs: float) -> AuditLog:
    log = AuditLog()
    for i, one in enumerate(secs):
        log.add(RULE, make_measurement(f"audit{i}", one))
    return log


def test_winners_are_those_as_good_as_the_best_within_noise() -> None:
    log = log_of(1.05e-3, 1.051e-3, 0.9e-3, 2e-3)
    log.add(RULE, make_measurement("failed", error=MeasureErrorKind.CRASH))
    log.add(RULE, make_measurement("early", 1e-3, is_censored=True, stage=1))
    log.add_drops([FunnelStep(Stage.RULE, "acme.guess", 500, 200, 0.1, RuleKind.HEURISTIC, 6)], {"acme.guess"})
    (report,) = log.reports(1e-3)
    assert (report.n_dropped, report.n_measured, report.n_winners) == (300, 6, 2)
    share = report.false_prune
    assert share is not None
    assert share.value == pytest.approx(2 / 6)
    assert share.low == pytest.approx(0.0968, abs=1e-3)  # Wilson, 95 %
    assert share.high == pytest.approx(0.7000, abs=1e-3)
    assert report.at_most is None


@pytest.mark.parametrize(("n", "bound"), [(1, 1.0), (2, 1.0), (30, 0.1), (300, 0.01)])
def test_without_a_winner_the_rule_of_three_bounds_the_share(n: int, bound: float) -> None:
    report = AuditReport(Stage.RULE, "acme.guess", 1000, n, 0)
    assert report.at_most == pytest.approx(bound)
    assert report.false_prune is not None
    assert report.false_prune.low == 0


def test_without_an_audit_nothing_is_claimed() -> None:
    report = AuditReport(Stage.RULE, "acme.guess", 1000, 0, 0)
    assert report.false_prune is None
    assert report.at_most is None


def test_only_guesses_are_counted() -> None:
    log = AuditLog()
    steps = [
        FunnelStep(Stage.RULE, "acme.legal", 100, 50, 0.1, RuleKind.LEGALITY),
        FunnelStep(Stage.RULE, "acme.guess", 50, 50, 0.1, RuleKind.HEURISTIC),
        FunnelStep(Stage.DRAFT, "acme.draft", 50, 10, 0.1, n_audits=1),
        FunnelStep(Stage.SELECT, "acme.draft", 10, 5, 0.1),
    ]
    log.add_drops(steps, {"acme.guess", "acme.draft"})
    log.add_drops(steps, {"acme.guess", "acme.draft"})
    assert [(r.strategy, r.n_dropped) for r in log.reports(None)] == [("acme.draft", 80)]


def test_a_rule_loses_if_what_it_drops_beats_all_it_keeps() -> None:
    assert log_of(0.9e-3, 2e-3).loss("acme.guess", KEPT, 5e-3) == Loss("audit0", pytest.approx(0.1))


@pytest.mark.parametrize(
    ("audits", "kept", "default_secs"),
    [
        ([0.951e-3], KEPT, 5e-3),
        ([0.9e-3], KEPT[:15], 5e-3),
        ([0.9e-3], KEPT, 0.9e-3),
        ([], KEPT, 5e-3),
    ],
    ids=["within noise", "too few kept", "the default is as good", "no audit"],
)
def test_a_rule_does_not_lose(audits: Sequence[float], kept: list[tuple[str, float]], default_secs: float) -> None:
    assert log_of(*audits).loss("acme.guess", kept, default_secs) is None


def test_the_audits_of_a_rule_are_not_among_what_it_keeps() -> None:
    ranking = [("audit0", 0.8e-3), *KEPT]
    assert log_of(0.8e-3).loss("acme.guess", ranking, None) == Loss("audit0", pytest.approx(0.2))
    assert log_of(0.8e-3).loss("acme.guess", ranking[:16], None) is None
    assert log_of(0.8e-3).loss("acme.other", ranking, None) is None


def test_a_failure_is_no_loss() -> None:
    log = AuditLog()
    log.add(RULE, make_measurement("failed", error=MeasureErrorKind.CRASH))
    log.add(RULE, make_measurement("early", 1e-9, is_censored=True, stage=1))
    assert log.loss("acme.guess", KEPT, None) is None


def stored(identity: str, secs: float) -> StoredCandidate:
    return StoredCandidate(identity, "s", 0, (), None, make_measurement(identity, secs))


def test_what_a_store_knows_is_taken_in() -> None:
    verdicts = [
        Verdict(Stage.TASK_SPACE, "acme.guess", Outcome.DROPPED, "rows", 10**6),
        Verdict(Stage.RULE, "acme.legal", Outcome.DROPPED, "too large", 70),
        Verdict(Stage.RULE, "acme.guess", Outcome.DROPPED, "too small", 40),
        Verdict(Stage.RULE, "acme.guess", Outcome.KEPT, f"{AUDIT_PREFIX}: too small", 1, "a"),
        Verdict(Stage.RULE, "acme.guess", Outcome.KEPT, f"{AUDIT_PREFIX}: too small", 1, "of another device"),
        Verdict(Stage.DRAFT, "acme.draft", Outcome.KEPT, "on the list", 1, "b"),
        Verdict(Stage.DRAFT, "acme.draft", Outcome.DROPPED, "below the draft list", 7),
    ]
    log = AuditLog()
    log.restore(verdicts, [stored("a", 1e-3), stored("b", 1e-3)], {"acme.guess", "acme.draft"})
    first, second = log.reports(1e-3)
    assert (first.strategy, first.n_dropped, first.n_measured, first.n_winners) == ("acme.guess", 42, 1, 1)
    assert (second.strategy, second.n_dropped, second.n_measured) == ("acme.draft", 7, 0)


def test_a_rule_that_was_switched_off_stays_so() -> None:
    loss, why = Loss("a", 0.2), "it drops the best"
    verdict = switch_off_verdict("acme.guess", why, loss.candidate_id, {"gain": loss.gain})
    assert is_switch_off(verdict)
    log = AuditLog()
    log.restore([verdict], [stored("a", 1e-3)], {"acme.guess"})
    assert log.off == {"acme.guess"}
    other_device = AuditLog()
    other_device.restore([verdict], [stored("b", 1e-3)], {"acme.guess"})
    assert not other_device.off


def test_what_a_rule_was_switched_off_for_is_a_winner_whatever_is_found_later() -> None:
    log = log_of(0.9e-3, 2e-3)
    log.switch_off("acme.guess", "wrong", "audit0")
    (report,) = log.reports(best_secs=0.5e-3)
    assert (report.n_winners, report.switched_off) == (1, "wrong")


def test_reports_of_several_tasks_add_up() -> None:
    a = AuditReport(Stage.DRAFT, "acme.draft", 100, 4, 1)
    b = AuditReport(Stage.RULE, "acme.guess", 10, 2, 2, "wrong")
    c = AuditReport(Stage.DRAFT, "acme.draft", 50, 6, 0)
    assert merged([a, b, c]) == (
        AuditReport(Stage.RULE, "acme.guess", 10, 2, 2, "wrong"),
        AuditReport(Stage.DRAFT, "acme.draft", 150, 10, 1),
    )
