"""Ask and tell on spaces of one's own: no compiler is needed."""

from __future__ import annotations

import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import prune_engine as pe
from prune_engine.errors import ConfigError, SpaceError, TellError

CHOICES = {
    "block": [16, 64, 256, 1024, 2048],
    "unroll": [1, 2, 4],
    "layout": ["row", "column"],
    "fast": [False, True],
}
#: Candidates of 2048 threads per block cannot run on the GPU that is asked about.
N_LEGAL = 4 * 3 * 2 * 2


def opened(**options) -> pe.Search:
    given = {
        "name": "a-kernel",
        "symbols": {"threads_per_block": "block"},
        "profile": "nvidia/a100",
        "verifier": "none",
    }
    return pe.Search(CHOICES, **{**given, **options})


def cost(candidate: pe.SearchCandidate) -> float:
    of = candidate.decisions
    return 1e-3 * (1 + abs(math.log2(of["block"]) - 8) + of["unroll"] + (of["layout"] == "row") + of["fast"])


def test_a_whole_search_finds_the_best_that_can_run() -> None:
    with opened() as search:
        found = []
        while candidates := search.ask(7):
            for candidate in candidates:
                search.tell(candidate, run_secs=cost(candidate))
            found += candidates
        assert len(found) == N_LEGAL
        assert search.is_finished
        assert search.stop_reason == "exhausted"
        assert search.best is not None
        assert dict(search.best.candidate.decisions) == {
            "block": 256,
            "unroll": 1,
            "layout": "column",
            "fast": False,
        }
        assert search.best.run_secs == cost(search.best.candidate)
        assert search.n_told == N_LEGAL


def test_decisions_are_the_values_that_were_given() -> None:
    with opened() as search:
        for candidate in search.ask(N_LEGAL):
            for name, value in candidate.decisions.items():
                assert value in CHOICES[name]
                assert type(value) is type(CHOICES[name][0])


def test_results_are_told_by_candidate_or_id_as_numbers_repeats_or_arrays() -> None:
    with opened() as search:
        a, b, c, d = search.ask(4)
        search.tell(a, run_secs=2e-3)
        search.tell(b.candidate_id, run_secs=[1e-3, 5e-3, 1.5e-3])
        search.tell(c, run_secs=np.array([3e-3, 3e-3]))
        search.tell(d, error=RuntimeError("out of memory"))
        assert search.best is not None
        assert search.best.candidate is b
        assert search.best.run_secs == 1.5e-3
        assert search.pending == ()


@pytest.mark.parametrize(
    "run_secs",
    [math.nan, -1.0, 0.0, math.inf, 10**400, "fast", b"1", True, [], [1e-3, None], object()],
    ids=lambda value: repr(value)[:12],
)
def test_what_is_no_latency_is_refused(run_secs: object) -> None:
    with opened() as search:
        (candidate,) = search.ask()
        with pytest.raises(TellError, match=candidate.candidate_id):
            search.tell(candidate, run_secs=run_secs)
        assert search.pending == (candidate.candidate_id,)


def test_a_candidate_of_another_search_is_refused() -> None:
    with opened() as search, opened(name="another") as other:
        (candidate,) = other.ask()
        with pytest.raises(TellError, match="was not asked for"):
            search.tell(candidate, run_secs=1e-3)
        with pytest.raises(TellError, match="is no candidate"):
            search.tell(None, run_secs=1e-3)
        with pytest.raises(TellError, match="neither"):
            other.tell(candidate)


@pytest.mark.parametrize("n", [0, -1, 1.5, "3", True])
def test_how_many_is_a_whole_number(n: object) -> None:
    with opened() as search, pytest.raises(ConfigError, match="n: cannot be used"):
        search.ask(n)


def test_a_store_lets_a_later_search_go_on(tmp_path: Path) -> None:
    file = tmp_path / "told.sqlite3"
    with opened(store=file) as search:
        told = search.ask(10)
        for candidate in told:
            search.tell(candidate, run_secs=cost(candidate))
        left = search.ask(5)
    with opened(store=file) as search:
        assert search.n_told == 10
        assert search.best is not None
        assert search.best.run_secs == min(map(cost, told))
        assert search.best.candidate.decisions
        rest = {one.candidate_id for one in search.ask(1000)}
        assert len(rest) == N_LEGAL - 10
        assert {one.candidate_id for one in left} <= rest
    with opened(store=file, device="another") as search:
        assert search.n_told == 0


def test_a_closed_search_says_so() -> None:
    search = opened()
    (candidate,) = search.ask()
    search.close()
    search.close()
    with pytest.raises(TellError, match="is closed"):
        search.ask()
    with pytest.raises(TellError, match="is closed"):
        search.tell(candidate, run_secs=1e-3)


def test_what_changes_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="shape, target: without effect"):
        opened(target="llvm", shape={"x": (1,)})


def test_wrong_options_are_called_as_in_python() -> None:
    with pytest.raises(ConfigError, match=r"^plateau: "):
        opened(plateau=0)
    with pytest.raises(ConfigError, match=r"^blocked_plugins: no plugin"):
        opened(blocked_plugins=["nobody"])
    with pytest.raises(ConfigError, match="disabled_rules: cannot be used"):
        opened(disabled_rules="rules.launch")
    with pytest.raises(ConfigError, match="device: cannot be used"):
        opened(device=" ")
    for option in ("store", "profile"):
        with pytest.raises(ConfigError, match=f"{option}: cannot be used; got 5"):
            opened(**{option: 5})


@pytest.mark.parametrize("is_in_memory", [True, False], ids=["memory", "file"])
def test_threads_may_share_a_search(is_in_memory: bool, tmp_path: Path) -> None:
    def work(search: pe.Search) -> None:
        while asked := search.ask(2):
            for candidate in asked:
                search.tell(candidate, run_secs=cost(candidate))

    with opened(store=None if is_in_memory else tmp_path / "store.sqlite3") as search:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, [search] * 4))  # raises what a thread raised
        assert search.n_told == N_LEGAL
        assert search.best is not None


def test_there_is_no_schedule_of_a_space_that_is_not_tvms() -> None:
    with opened() as search:
        (candidate,) = search.ask()
        for ask in (lambda: candidate.trace, candidate.schedule, candidate.module):
            with pytest.raises(SpaceError, match="not TVM's"):
                ask()


def test_tvm_is_not_imported() -> None:
    program = (
        "import sys, prune_engine as pe\n"
        "search = pe.Search({'a': [1, 2, 3], 'b': [1, 2]}, name='x')\n"
        "for one in search.ask(3): search.tell(one, run_secs=1e-3)\n"
        "search.ask(3); search.close(); print('tvm' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert (run.stdout, run.stderr) == ("False\n", "")
