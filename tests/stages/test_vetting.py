"""What only the compiler can judge is shown to it before it takes a place in a batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kits.engine import RunEngine, small_space, stored_ids
from kits.pipeline import Draft, Made, assert_adds_up, pipeline, truth

from prune_engine.candidates import Candidate, CandidateBatch, SeenRows
from prune_engine.pipeline import PruneResult
from prune_engine.stages.vetting import unsure
from prune_engine.store.base import Store
from prune_engine.symbols.table import SymbolDef
from prune_engine.testing import FakeWorkbench, make_batch, make_task
from prune_engine.verdicts import DraftScores, Outcome


class Compiler:
    """Refuses what ``refuses`` is True of; remembers what it was asked."""

    def __init__(self, refuses: Any) -> None:
        self._refuses, self.asked = refuses, []

    def __call__(self, candidate: Candidate) -> str | None:
        self.asked.append(candidate.candidate_id)
        return "a dynamic loop" if self._refuses(candidate) else None


def run(made: Made, batch: CandidateBatch, compiler: Compiler, k: int = 8) -> PruneResult:
    return made[0].run([batch], [], k, SeenRows(), np.random.default_rng(0), compiler)


def drafted() -> Made:
    return pipeline(draft=Draft(lambda batch: DraftScores(truth(batch))))


def is_odd(candidate: Candidate) -> bool:
    return int(candidate.candidate_id, 16) % 2 == 1


def test_what_is_refused_is_replaced_by_the_next_best() -> None:
    batch, compiler = make_batch(200), Compiler(is_odd)
    assert batch.is_opaque
    result = run(drafted(), batch, compiler)
    assert_adds_up(result)
    ranked = [batch.candidate(int(row)) for row in np.argsort(-truth(batch), kind="stable")]
    even = [c.candidate_id for c in ranked if not is_odd(c)]
    assert [c.candidate_id for c in result.candidates] == even[:8]
    assert result.refused
    assert all(map(is_odd, result.refused))
    dropped = [v for v in result.verdicts if v.outcome is Outcome.DROPPED and v.strategy == "compiler"]
    assert [v.candidate_id for v in dropped] == [c.candidate_id for c in result.refused]
    assert {v.reason for v in dropped} == {"a dynamic loop"}
    # Nobody is asked about twice, and nobody who is not chosen.
    assert sorted(compiler.asked) == sorted({*even[:8], *(c.candidate_id for c in result.refused)})


def test_nobody_is_asked_about_what_is_sure() -> None:
    batch, compiler = make_batch(200), Compiler(is_odd)
    symbols = {"is_unsure": SymbolDef("is_unsure", "0 or 1", "", "", lambda b: np.int64(b.indices[:, 0] % 2), "")}
    space = replace(batch.space, symbols=symbols)
    read = CandidateBatch(space, replace(batch.sketch, nests=object()), batch.indices)  # type: ignore[arg-type]
    assert 0 < unsure(read).sum() < len(read)
    result = run(drafted(), read, compiler)
    assert_adds_up(result)
    first = read.sketch.variables[0]
    rows = {c.candidate_id: first.index_of(c.decisions[0]) for c in (*result.candidates, *result.refused)}
    assert {rows[i] % 2 for i in compiler.asked} == {1}  # type: ignore[operator]
    assert any(is_odd(c) for c in result.candidates)
    assert not any(is_odd(c) and rows[c.candidate_id] % 2 for c in result.candidates)  # type: ignore[operator]


@pytest.mark.parametrize("n", [5, 200])
def test_a_compiler_that_refuses_everything_is_not_asked_for_ever(n: int) -> None:
    compiler = Compiler(lambda _: True)
    result = run(drafted(), make_batch(n), compiler, k=4)
    assert_adds_up(result)
    assert result.candidates == ()
    assert len(compiler.asked) == len(result.refused) == min(n, 32)


def test_an_engine_measures_only_what_is_not_refused(run_engine: RunEngine, store: Store) -> None:
    task = make_task()
    compiler = Compiler(is_odd)
    bench = FakeWorkbench(
        spaces={task.task_id: small_space(task, 24)}, refused=lambda candidate: compiler(candidate) is not None
    )
    run = run_engine([task], bench, n_trials=64)
    measured = [i for i in stored_ids(store, task) if i != "default"]
    assert measured
    assert not any(int(i, 16) % 2 for i in measured)
    verdicts = [v for v in store.verdicts(task.task_id) if v.strategy == "compiler"]
    # Each once: what was refused is not proposed again, and takes no trial.
    assert sorted(compiler.asked) == sorted({*measured, *(str(v.candidate_id) for v in verdicts)})
    assert len(verdicts) == 24 - len(measured)
    assert run.result.tasks[0].summary.n_trials == len(measured)
