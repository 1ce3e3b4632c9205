"""What the strategy proposes of a library: which entries, in what order, and what is a miss."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from prune_engine_transfer.donors import instruction_set, shape_distance
from prune_engine_transfer.refit import RefitTransfer

from prune_engine.candidates import CandidateBatch
from prune_engine.contracts import check_transfer
from prune_engine.library import KernelClass, LibraryEntry, LibraryQuery
from prune_engine.space import DesignSpace, VariableKind
from prune_engine.strategies import TransferContext, TransferProposal
from prune_engine.testing import make_batch, make_entries, make_profile, make_space, make_task

Row = tuple[int, tuple[int, ...]]
SHAPE = (128, 96, 64)


class Shelf:
    """A library of these entries; remembers what it was asked."""

    def __init__(self, entries: Sequence[LibraryEntry]) -> None:
        self.entries, self.asked = entries, list[LibraryQuery]()

    def find(self, query: LibraryQuery) -> Sequence[LibraryEntry]:
        self.asked.append(query)
        wanted = {key: getattr(query, key) for key in ("device_name", "n_threads", "model")}
        found = [
            entry
            for entry in self.entries
            if query.strict in (None, entry.kernel_class.strict)
            and query.anchor in (None, entry.kernel_class.anchor)
            and all(value in (None, getattr(entry, key)) for key, value in wanted.items())
        ]
        return sorted(found, key=lambda entry: -entry.flop_per_sec)[: query.limit]


def entries_of(
    n: int = 3, shape: tuple[int, int, int] = SHAPE, seed: int = 0, **changed: Any
) -> list[LibraryEntry]:
    """The best ``n`` of a search on a kernel of this shape; each has the trace of its tiles."""
    batch = make_batch(n, space=make_space(make_task("source", shape=shape)), seed=seed)
    entries = make_entries(batch, [1e-3 * (i + 1) for i in range(n)], **changed)
    return [replace(entry, trace_json=trace_of(entry), entry_id="") for entry in entries]


def trace_of(entry: LibraryEntry) -> str:
    instructions: list[object] = [["GetSBlock", [], ["matmul", "main"], ["b0"]]]
    decisions: list[object] = []
    for n, choice in enumerate(entry.choices):
        parts = [f"v{n}{part}" for part in range(len(choice.values))]
        kind = {VariableKind.TILE: "SamplePerfectTile", VariableKind.CATEGORICAL: "SampleCategorical"}
        decisions.append([len(instructions), list(choice.values)])
        instructions.append([kind.get(choice.kind, "SampleComputeLocation"), [f"l{n}"], [], parts])
        if choice.kind is VariableKind.TILE:
            instructions.append(["Split", [f"l{n}", *parts], [], []])
    return json.dumps([instructions, decisions])


def ones(batch: CandidateBatch) -> np.ndarray:
    return np.ones(len(batch))


def proposed(
    entries: Sequence[LibraryEntry],
    *,
    shape: tuple[int, int, int] = SHAPE,
    limit: int = 16,
    fitness: Callable[[CandidateBatch], np.ndarray] = ones,
    space: DesignSpace | None = None,
) -> TransferProposal:
    space = space or make_space(make_task("wanted", shape=shape))
    context = TransferContext(Shelf(entries), "testing-device", 2, make_profile(), fitness)
    transfer = RefitTransfer()
    return check_transfer(transfer.name, transfer.propose(space.task, space, context, limit), space, limit)


def in_order(proposal: TransferProposal) -> list[tuple[str, str, Row | None]]:
    """Policy, source and candidate of all that is proposed, first to measure first."""
    found: list[tuple[float, str, str, Row | None]] = []
    for seeds in proposal.seeds:
        rows = [(seeds.batch.sketch.index, tuple(row)) for row in seeds.batch.indices.tolist()]
        found += zip(seeds.preference.tolist(), seeds.policies, seeds.sources, rows, strict=True)
    found += [(one.preference, one.policy, one.source, None) for one in proposal.rewritten]
    return [one[1:] for one in sorted(found, key=lambda one: -one[0])]


def test_schedules_of_this_very_kernel_come_first_as_they_are_best_first() -> None:
    own, others = entries_of(3), entries_of(3, shape=(64, 48, 32), seed=1)

    def fitness(batch: CandidateBatch) -> np.ndarray:  # would have it otherwise
        return np.linspace(1, 2, len(batch))

    first = in_order(proposed([*others, *own], fitness=fitness))[:3]
    assert [policy for policy, _, _ in first] == ["copy"] * 3
    assert [source for _, source, _ in first] == [entry.entry_id for entry in own]
    space = make_space(make_task("wanted", shape=SHAPE))
    for (_, _, row), entry in zip(first, own, strict=True):
        assert row is not None
        decisions = CandidateBatch(space, space.sketches[row[0]], np.array([row[1]], dtype=np.int32)).candidate(0)
        assert decisions.decisions == tuple(choice.values for choice in entry.choices)


def test_what_this_device_ran_is_proposed_whatever_the_rules_say() -> None:
    def nothing(batch: CandidateBatch) -> np.ndarray:
        return np.zeros(len(batch))

    own, others = entries_of(2), entries_of(2, shape=(64, 48, 32), seed=1)
    assert [policy for policy, _, _ in in_order(proposed([*own, *others], fitness=nothing))] == ["copy"] * 2
    elsewhere = [replace(entry, device_name="another", entry_id="") for entry in own]
    refused = proposed(elsewhere, fitness=nothing)
    assert refused.seeds == ()
    assert refused.misses["any", "a rule drops it"] > 0


def test_the_fitter_come_first_of_one_kernel() -> None:
    def fitness(batch: CandidateBatch) -> np.ndarray:
        return 1.0 + batch.column(0)[:, 1]

    proposal = proposed(entries_of(1, shape=(64, 48, 32)), fitness=fitness, limit=100)
    space = make_space(make_task("wanted", shape=SHAPE))
    seeds = [row for _, _, row in in_order(proposal) if row]
    values = [int(space.sketches[s].variables[0].table[rows[0]][1]) for s, rows in seeds]
    assert values == sorted(values, reverse=True)
    assert values[0] > values[-1]


def test_other_devices_are_behind() -> None:
    far = [replace(entry, n_threads=8, entry_id="") for entry in entries_of(1, shape=(64, 48, 32))]
    near = entries_of(1, shape=(32, 24, 16), seed=5)
    sources = [source for _, source, _ in in_order(proposed([*far, *near], limit=60))]
    assert set(sources) == {far[0].entry_id, near[0].entry_id}
    assert sources == sorted(sources, key=lambda source: source != near[0].entry_id)


def test_padded_traces_alternate_with_candidates_and_those_rounded_up_are_rare() -> None:
    near = entries_of(6, shape=(64, 48, 32))
    far = [replace(entry, n_threads=8, entry_id="") for entry in entries_of(6, shape=(64, 48, 32), seed=1)]
    found = in_order(proposed([*near, *far], shape=(127, 96, 64), limit=400))
    policies = [policy for policy, _, _ in found]
    n_padded = sum(policy == "pad" for policy, source, _ in found if source in {e.entry_id for e in near})
    assert n_padded >= 3
    assert policies[: 2 * n_padded : 2] == ["pad"] * n_padded
    assert "ceil" not in policies[:7]
    assert policies.index("ceil") == 7 + min(n_padded, 8)
    sources = [source in {e.entry_id for e in near} for _, source, _ in found]
    assert sources == sorted(sources, reverse=True)


@pytest.mark.parametrize("target", ["cuda -arch=sm_80", '{"kind":"cuda","arch":"sm_80"}', "llvmish"], ids=str)
def test_another_kind_of_target_is_a_miss(target: str) -> None:
    proposal = proposed(entries_of(3, target=target))
    assert in_order(proposal) == []
    assert proposal.misses == {("any", "was tuned for another kind of target"): 3}
    assert proposal.n_sources == {}


@pytest.mark.parametrize("target", ["llvm -mcpu=znver4", '{"kind":"llvm","mattr":["+avx2"]}'], ids=str)
def test_other_instructions_come_behind_and_promise_nothing(target: str) -> None:
    same = [replace(entry, n_threads=64, entry_id="") for entry in entries_of(2)]
    other = entries_of(2, seed=1, target=target)
    proposal = proposed([*other, *same], limit=500)
    assert proposal.n_sources == {"strict": 4}
    sources = [source in {entry.entry_id for entry in same} for _, source, _ in in_order(proposal)]
    assert {True, False} <= set(sources)
    assert sources == sorted(sources, reverse=True)
    assert proposed(entries_of(3, target=target)).goal_flop_per_sec is None


def test_a_kernel_without_a_class_is_a_miss() -> None:
    space = make_space(make_task("wanted", shape=SHAPE))
    unknown = replace(space, task=replace(space.task, kernel_class=None))
    assert proposed(entries_of(3), space=unknown).misses == {("any", "the kernel's class is not known"): 1}


def test_another_class_is_nothing() -> None:
    kernel = KernelClass("other", "other", "conv", ())
    assert proposed(entries_of(3, kernel_class=kernel)) == TransferProposal()


def test_a_class_with_the_same_anchor_gives_tiles_but_no_traces() -> None:
    kernel = KernelClass(
        "other", "testing-matmul", "matmul + relu", (("matmul.i", 64), ("matmul.j", 48), ("matmul.k", 32))
    )
    proposal = proposed(
        entries_of(2, shape=(64, 48, 32), kernel_class=kernel, sketch_id="other"), shape=(127, 96, 64), limit=500
    )
    assert proposal.n_sources == {"anchor": 2}
    assert proposal.rewritten == ()
    assert {seeds.batch.sketch.index for seeds in proposal.seeds} == {0, 1}


def test_an_entry_that_is_tiled_otherwise_is_a_miss() -> None:
    entry = entries_of(1)[0]
    broken = replace(entry, choices=entry.choices[1:], sketch_id="other", entry_id="")
    assert proposed([broken]).misses == {("any", "no sketch of the kernel is tiled alike"): 1}


@pytest.mark.parametrize("values", [(0, 8, 8), (64, -1, -1)], ids=str)
def test_broken_factors_are_a_miss_and_the_others_serve(values: tuple[int, ...]) -> None:
    good, bad = entries_of(2, shape=(64, 48, 32))
    choices = (replace(bad.choices[0], values=values), *bad.choices[1:])
    proposal = proposed([good, replace(bad, choices=choices, entry_id="")])
    assert proposal.misses["any", "its factors are no numbers above 0"] == 1
    assert {source for _, source, _ in in_order(proposal)} == {good.entry_id}


def test_broken_extents_and_targets_stop_nothing() -> None:
    good, *bad = entries_of(3, shape=(64, 48, 32))
    kernel = replace(good.kernel_class, axes=(("matmul.i", 0), ("matmul.j", -4), ("matmul.k", 32)))
    broken = [replace(bad[0], kernel_class=kernel, entry_id=""), replace(bad[1], target='{"kind"', entry_id="")]
    proposal = proposed([good, *broken], limit=500)
    assert proposal.misses["any", "was tuned for another kind of target"] == 1
    assert {source for _, source, _ in in_order(proposal)} == {good.entry_id, broken[0].entry_id}


def test_a_prime_extent() -> None:
    """No row is a repair of such tiles: they have to be replaced, or the last one cut short."""
    proposal = proposed(entries_of(3, shape=(64, 48, 32)), shape=(127, 96, 64), limit=500)
    policies = {policy for policy, _, _ in in_order(proposal)}
    assert {"nearest", "ceil"} <= policies
    assert proposal.misses["repair", "breaks the limit on innermost factors"] > 0
    assert len({one.source for one in proposal.rewritten if one.policy == "ceil"}) == 3


def test_a_row_that_a_rule_cut_is_no_repair() -> None:
    space = make_space(make_task("wanted", shape=SHAPE))
    entry = entries_of(1)[0]
    first = space.sketches[0].variables[0]
    row = first.index_of(entry.choices[0].values)
    cut = first.restrict(np.arange(len(first.table)) != row)
    sketch = replace(space.sketches[0], variables=(cut, *space.sketches[0].variables[1:]))
    proposal = proposed([entry], space=replace(space, sketches=(sketch, space.sketches[1])))
    assert proposal.misses["repair", "a rule cut the factors"] == 1
    assert {policy for policy, _, _ in in_order(proposal)} == {"nearest"}


def test_an_unreadable_trace_is_a_miss_and_its_decisions_serve() -> None:
    entry = replace(entries_of(1, shape=(64, 48, 32))[0], trace_json="broken", entry_id="")
    proposal = proposed([entry], shape=(127, 96, 64))
    assert proposal.misses["ceil", "its trace cannot be read"] == 1
    assert proposal.seeds
    assert proposal.rewritten == ()


@pytest.mark.parametrize("limit", [0, 1, 5, 16, 40])
def test_seeds_and_traces_share_the_limit_and_are_distinct(limit: int) -> None:
    entries = entries_of(8, shape=(64, 48, 32))
    axes = (("matmul.i", 64), ("matmul.j", 48), ("matmul.k", 33))  # another kernel with the same schedules
    kernel = replace(entries[0].kernel_class, axes=axes)
    again = [replace(entry, kernel_class=kernel, entry_id="") for entry in entries]
    found = in_order(proposed([*entries, *again], shape=(127, 96, 64), limit=limit))
    assert len(found) == limit
    rows = [row for _, _, row in found if row]
    assert len(rows) == len(set(rows))


def test_the_library_is_not_read_whole() -> None:
    shelf = Shelf(entries_of(2))
    space = make_space(make_task("wanted", shape=SHAPE))
    RefitTransfer().propose(
        space.task, space, TransferContext(shelf, "testing-device", 2, make_profile(), ones), 16
    )
    assert shelf.asked
    assert all(query.limit for query in shelf.asked)


@pytest.mark.parametrize(
    ("changed", "is_goal"),
    [
        ({}, True),
        ({"n_trials": 63}, False),  # a short search does not say what there is
        ({"device_name": "another"}, False),
        ({"n_threads": 8}, False),
    ],
    ids=str,
)
def test_the_goal_is_what_full_searches_reached_here(changed: dict[str, Any], is_goal: bool) -> None:
    entries = entries_of(3, **changed)
    goal = proposed(entries).goal_flop_per_sec
    assert goal == (max(entry.flop_per_sec for entry in entries) if is_goal else None)


def test_a_small_kernel_sets_no_goal_for_a_big_one() -> None:
    small = entries_of(1, shape=(32, 16, 16))
    assert proposed(small).goal_flop_per_sec is None


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("llvm -num-cores 2", '{"kind":"llvm","num-cores":64,"keys":["cpu"]}', True),
        ("llvm -mcpu=znver4 -num-cores=2", '{"kind":"llvm","mcpu":"znver4","num-cores":8}', True),
        ("llvm -mcpu=znver4", "llvm -mcpu=znver3", False),
        ("llvm -mattr=+avx2,+fma", '{"kind":"llvm","mattr":["+fma","+avx2"]}', True),
        ("llvm -mattr=+avx2", "llvm", False),
        ('{"kind":"cuda","arch":"sm_80"}', '{"kind":"cuda","arch":"sm_90"}', False),
        ("", "llvm", False),
    ],
)
def test_instruction_sets(one: str, other: str, is_same: bool) -> None:
    assert (instruction_set(one) == instruction_set(other)) == is_same


def test_the_distance_of_shapes() -> None:
    ours = KernelClass("s", "a", "", (("x.i", 8), ("x.j", 8)))
    assert shape_distance(KernelClass("s", "a", "", (("y.i", 16), ("y.j", 2))), ours) == 3
    assert shape_distance(KernelClass("t", "a", "", (("x.j", 4), ("z.i", 2))), ours) == 1
    assert shape_distance(ours, ours) == 0
