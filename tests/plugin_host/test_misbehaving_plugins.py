"""Whatever a plugin does, it is named, done without, and the run goes on to its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from kits.engine import FixedSeeds, RunEngine
from prune_engine_explore.uniform import UniformExplorer
from prune_engine_select.epsilon_greedy import EpsilonGreedySelector

from prune_engine.hookspecs import hookimpl
from prune_engine.plugins import PluginStatus
from prune_engine.store.base import Store
from prune_engine.store.sql import SqlStore
from prune_engine.strategies import DraftScorer, Rule, Verifier
from prune_engine.testing import make_task
from prune_engine.verdicts import DraftScores, RuleKind, VerifyScores


class OwnKind(BaseException):
    pass


def raises(*_: Any, **__: Any) -> Any:
    raise RuntimeError("planted")


def exits(*_: Any, **__: Any) -> Any:
    raise SystemExit(3)


def raises_its_own_kind(*_: Any, **__: Any) -> Any:
    raise OwnKind("planted")


def sleeps(*_: Any, **__: Any) -> Any:
    time.sleep(600)


def recurses(*_: Any, **__: Any) -> Any:
    return recurses()


def runs_out_of_memory(*_: Any, **__: Any) -> Any:
    return np.ones(1 << 60)


def returns_nonsense(*_: Any, **__: Any) -> Any:
    return {"scores": "high"}


FAULTS = [raises, exits, raises_its_own_kind, sleeps, recurses, runs_out_of_memory, returns_nonsense]


class BadRule(Rule):
    name = "acme.bad"

    def __init__(self, **methods: Callable[..., Any]) -> None:
        self._methods = methods

    def restrict(self, *args: Any) -> Any:
        return self._methods.get("restrict", lambda *_: None)(*args)

    def mask(self, batch: Any, profile: Any) -> Any:
        return self._methods.get("mask", lambda b, _: np.arange(len(b)) % 2 == 0)(batch, profile)

    def reason(self, *args: Any) -> Any:
        return self._methods.get("reason", lambda *_: "odd")(*args)


class BadDraft(DraftScorer):
    name = "acme.bad"

    def __init__(self, **methods: Callable[..., Any]) -> None:
        self._methods = methods

    def score(self, batch: Any, profile: Any) -> Any:
        return self._methods.get("score", lambda b, _: DraftScores(1.0 + b.indices[:, 0]))(batch, profile)

    def update(self, *args: Any) -> Any:
        return self._methods.get("update", lambda *_: None)(*args)


class BadVerifier(Verifier):
    name = "acme.bad"

    def __init__(self, **methods: Callable[..., Any]) -> None:
        self._methods = methods

    def score(self, batch: Any, context: Any) -> Any:
        usual = VerifyScores(1.0 + batch.indices[:, 0], np.zeros(len(batch)), "v", True)
        return self._methods.get("score", lambda *_: usual)(batch, context)

    def update(self, *args: Any) -> Any:
        return self._methods.get("update", lambda *_: None)(*args)

    def save(self, path: Any) -> Any: ...

    def load(self, path: Any) -> Any: ...


class BadExplorer(UniformExplorer):
    name = "acme.bad"

    def __init__(self, fault: Callable[..., Any]) -> None:
        self.propose = fault  # type: ignore[method-assign]


class BadSelector(EpsilonGreedySelector):
    name = "acme.bad"

    def __init__(self, fault: Callable[..., Any]) -> None:
        self.select = fault  # type: ignore[method-assign]


class BadTransfer(FixedSeeds):
    name = "acme.bad"

    def __init__(self, fault: Callable[..., Any]) -> None:
        self.propose = fault  # type: ignore[method-assign]


class Registers:
    """A plugin with strategies of one kind."""

    def __init__(self, hook: str, *strategies: Any) -> None:
        def register() -> Any:
            return list(strategies)

        setattr(self, hook, hookimpl(register))


#: Where a fault is put: the hook, the strategy that has it, and the option that chooses that.
PLACES: dict[str, tuple[str, Callable[[Any], Any], dict[str, Any]]] = {
    "rule restrict": ("register_rules", lambda f: BadRule(restrict=f), {}),
    "rule mask": ("register_rules", lambda f: BadRule(mask=f), {}),
    "rule reason": ("register_rules", lambda f: BadRule(reason=f), {}),
    "draft score": ("register_draft_scorers", lambda f: BadDraft(score=f), {"draft_scorer": "acme.bad"}),
    "draft update": ("register_draft_scorers", lambda f: BadDraft(update=f), {"draft_scorer": "acme.bad"}),
    "verifier score": ("register_verifiers", lambda f: BadVerifier(score=f), {"verifier": "acme.bad"}),
    "verifier update": ("register_verifiers", lambda f: BadVerifier(update=f), {"verifier": "acme.bad"}),
    "explorer": ("register_explorers", BadExplorer, {"explorer": "acme.bad"}),
    "selector": ("register_selectors", BadSelector, {"selector": "acme.bad"}),
    "transfer": ("register_transfers", BadTransfer, {"transfer_trials": 4}),
}
#: What an update returns nobody looks at.
HARMLESS = {("draft update", "returns_nonsense"), ("verifier update", "returns_nonsense")}
LIMITS = {"strategy_limit_secs": 0.2, "hook_limit_secs": 0.2}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("place", PLACES)
def test_a_strategy_at_fault_is_named_and_the_run_goes_on(
    place: str, fault: Callable[..., Any], run_engine: RunEngine
) -> None:
    if (place, fault.__name__) in HARMLESS:
        pytest.skip("nobody looks at what an update returns")
    hook, make, options = PLACES[place]
    limits = LIMITS if fault is sleeps else {}  # a loaded machine is no fault of a plugin's
    tasks = [make_task("a"), make_task("b")]
    run = run_engine(
        tasks, plugins={"acme": Registers(hook, make(fault))}, n_trials=32, batch_size=8, **limits, **options
    )
    assert run.result.stop_reason == "trials"
    assert run.result.n_new == 32
    (record,) = [r for r in run.host.records if r.name == "acme"]
    assert record.status is PluginStatus.FAILED
    assert "acme.bad" in record.detail
    if fault is sleeps:
        assert "did not return within 0.2 seconds" in record.detail
        assert record.detail.count("did not return") == 1, "nobody waits for it twice"


OBSERVERS = ["engine_started", "task_started", "batch_pruned", "batch_measured", "task_finished"]


@pytest.mark.parametrize("fault", [raises, exits, raises_its_own_kind, sleeps, recurses])
@pytest.mark.parametrize("hook", OBSERVERS)
def test_an_observer_at_fault_is_named_and_the_run_goes_on(
    hook: str, fault: Callable[..., Any], run_engine: RunEngine
) -> None:
    calls: list[str] = []

    class Observer:
        pass

    def called() -> None:
        calls.append(hook)
        fault()

    observer = Observer()
    setattr(observer, hook, hookimpl(called))
    limits = LIMITS if fault is sleeps else {}
    run = run_engine([make_task()], plugins={"acme": observer}, n_trials=24, batch_size=8, **limits)
    assert run.result.n_new == 24
    (record,) = [r for r in run.host.records if r.name == "acme"]
    assert record.status is PluginStatus.FAILED
    assert hook in record.detail
    if fault is sleeps:
        assert len(calls) == 1, "nobody waits for it twice"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_registration_at_fault_is_named_and_the_run_goes_on(
    fault: Callable[..., Any], run_engine: RunEngine
) -> None:
    class Plugin:
        @hookimpl
        def register_rules(self) -> Iterator[Any]:
            yield BadRule()
            yield fault()

    limits = LIMITS if fault is sleeps else {}
    run = run_engine([make_task()], plugins={"acme": Plugin()}, n_trials=8, **limits)
    assert run.result.n_new == 8
    (record,) = [r for r in run.host.records if r.name == "acme"]
    assert "register_rules" in record.detail


def writes(*targets: Callable[[], Any]) -> list[str]:
    """Try to change things; which of them were changed."""
    done = []
    for number, target in enumerate(targets):
        try:
            target()
        except (TypeError, ValueError, AttributeError):
            continue
        done.append(f"write {number}")
    return done


class Meddler(Verifier):
    """Tries to change everything that it is shown, and writes all its answers into one array."""

    name = "acme.meddler"

    def __init__(self, is_meddling: bool) -> None:
        self._is_meddling = is_meddling
        self._buffer = np.zeros((2, 1 << 16))
        self.done: list[str] = []

    def score(self, batch: Any, context: Any) -> VerifyScores:
        draft = context.draft(batch)
        scores, probs = self._buffer[:, : len(batch)] if self._is_meddling else np.zeros((2, len(batch)))
        scores[:] = draft.scores * (1 + batch.indices[:, 1])
        if self._is_meddling:
            self.done += writes(
                lambda: batch.indices.__setitem__(0, 0),
                lambda: batch.sketch.variables[0].table.__setitem__(0, 7),
                lambda: batch.sketch.variables[0].rows.__setitem__(0, 7),
                lambda: batch.space.symbols.__setitem__("x", None),
                lambda: draft.scores.__setitem__(0, 1e9),
                lambda: draft.symbols.__setitem__("x", None),
                lambda: draft.penalties.__setitem__("x", None),
                lambda: context.profile.sources.__setitem__("x", "y"),
                lambda: context.profile.compute[0].peak_flop_per_sec.clear(),
                lambda: setattr(context.profile, "name", "other"),
            )
        return VerifyScores(scores, probs, "v", True)

    def update(self, batch: Any, measurements: Any, context: Any) -> None:
        if self._is_meddling:
            self.done += writes(
                lambda: batch.indices.__setitem__(0, 0),
                lambda: measurements.append(None),
                lambda: setattr(measurements[0], "run_secs", (1e-9,)),
            )

    def save(self, path: Any) -> Any: ...

    def load(self, path: Any) -> Any: ...

    @hookimpl
    def register_verifiers(self) -> list[Verifier]:
        return [self]

    @hookimpl
    def register_draft_scorers(self) -> list[Any]:
        return [BadDraft()]

    @hookimpl
    def batch_pruned(self, summary: Any) -> None:
        if self._is_meddling:
            self.done += [
                change
                for verdict in summary.verdicts
                for change in writes(
                    lambda verdict=verdict: verdict.evidence.update(x=1.0),
                    lambda verdict=verdict: setattr(verdict, "reason", "because"),
                )
            ]


def test_what_plugins_are_shown_they_cannot_change(run_engine: RunEngine) -> None:
    """The same run with one that tries: the same trials in the same order, and the same verdicts."""
    told: list[tuple[list[str], list[Any]]] = []
    for is_meddling in (False, True):
        store: Store = SqlStore("sqlite://")
        meddler = Meddler(is_meddling)
        options = {"verifier": "acme.meddler", "draft_scorer": "acme.bad", "draft_size": 64, "batch_size": 8}
        run = run_engine([make_task()], plugins={"acme": meddler}, into=store, n_trials=32, **options)
        assert not run.host.failed
        assert meddler.done == []
        told.append(
            (run.asked, [(v.strategy, v.reason, dict(v.evidence)) for v in store.verdicts(make_task().task_id)])
        )
    assert told[0] == told[1]


def test_prints_of_plugins_leave_stdout_alone(run_engine: RunEngine, capsys: pytest.CaptureFixture[str]) -> None:
    def prints(batch: Any, _: Any) -> Any:
        print("looking at", len(batch))
        return np.ones(len(batch), bool)

    class Plugin:
        @hookimpl
        def register_rules(self) -> list[Rule]:
            print("registering")
            rule = BadRule(mask=prints)
            rule.name, rule.kind = "acme.loud", RuleKind.HEURISTIC  # type: ignore[misc]
            return [rule]

    run_engine([make_task()], plugins={"acme": Plugin()}, n_trials=8)
    out, err = capsys.readouterr()
    assert out == ""
    assert "plugin 'acme', register_rules printed: registering\n" in err
    assert "strategy acme.loud printed: looking at " in err
