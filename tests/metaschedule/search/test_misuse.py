"""PruneEngineSearch called out of order, with options of the wrong type, with what is not its own."""

from __future__ import annotations

from typing import Any

import pytest
from kits.search_contexts import context_of, ran, started, tiled

from prune_engine.errors import ConfigError, ProfileError, SearchStateError, SpaceError
from prune_engine.hardware import DeviceKind
from prune_engine.testing import make_profile


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


def test_candidates_of_others_are_passed_over(ms: Any, gemm: Any, strategy: Any) -> None:
    theirs = started(ms, context_of(ms, gemm, strategy(), tiled), 4, 2).generate_measure_candidates()
    made = strategy()
    ours = started(ms, context_of(ms, gemm, made, tiled), 4, 2)
    ours.notify_runner_results(theirs, ran(ms, theirs))
    assert made.counts.n_ran == 0


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
