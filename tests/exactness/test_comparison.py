"""The comparison finds what is wrong in a prediction, and nothing in one that is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from kits.echo_nest import EchoSource, echo
from kits.nest_comparison import differences, merged
from kits.oracle import Realised, case, random_batch

from prune_engine.candidates import CandidateBatch
from prune_engine.symbols.expr import as_expr
from prune_engine.symbols.loop_nest import Index, LoopKind, LoopNest

Spoil = Callable[[LoopNest], LoopNest]


def _first(nest: LoopNest, **changes: object) -> LoopNest:
    return replace(nest, statements=(replace(nest.statements[0], **changes), *nest.statements[1:]))


def _other_extent(nest: LoopNest) -> LoopNest:
    loops = nest.statements[0].loops
    return _first(nest, loops=(replace(loops[0], extent=loops[0].extent * 2), *loops[1:]))


def _other_kind(nest: LoopNest) -> LoopNest:
    loops = nest.statements[0].loops
    return _first(nest, loops=(replace(loops[0], kind=as_expr(int(LoopKind.SERIAL))), *loops[1:]))


def _other_index(nest: LoopNest) -> LoopNest:
    access = nest.statements[0].accesses[0]
    wrong = replace(access, indices=(Index(((0, 2),)), *access.indices[1:]))
    return _first(nest, accesses=(wrong, *nest.statements[0].accesses[1:]))


def _other_width(nest: LoopNest) -> LoopNest:
    access = nest.statements[0].accesses[0]
    wrong = replace(access, indices=(replace(access.indices[0], width=3), *access.indices[1:]))
    return _first(nest, accesses=(wrong, *nest.statements[0].accesses[1:]))


def _other_axis(nest: LoopNest) -> LoopNest:
    axes = nest.statements[0].iterators
    return _first(nest, iterators=(replace(axes[0], extent=as_expr(7)), *axes[1:]))


def _other_buffer(nest: LoopNest) -> LoopNest:
    name, buffer = next(iter(nest.buffers.items()))
    return replace(
        nest, buffers={**nest.buffers, name: replace(buffer, stored_elements=buffer.stored_elements + 1)}
    )


WRONG: dict[str, tuple[Spoil, str]] = {
    "extent": (_other_extent, "loops of"),
    "kind": (_other_kind, "loops of"),
    "unroll": (lambda n: _first(n, unroll_steps=as_expr(3)), "unroll pragma of"),
    "index": (_other_index, "accesses of"),
    "width": (_other_width, "accesses of"),
    "axis": (_other_axis, "axis "),
    "buffer": (_other_buffer, "buffers"),
    "statement": (lambda n: replace(n, statements=n.statements[1:]), "statements"),
    "order": (lambda n: replace(n, statements=(*n.statements[2:], *n.statements[:2])), "statements"),
    "canonical": (lambda n: replace(n, is_canonical=as_expr(0)), "decisions kept"),
    "refused": (lambda n: replace(n, is_refused=as_expr(1)), "legality"),
}


def _built(kind: str) -> tuple[CandidateBatch, Realised]:
    """The first candidate whose first loop does something."""
    space, oracle = case("gemm_bias_relu", kind)
    batch = random_batch(space, space.sketches[0], 20, seed=3)
    for row in range(len(batch)):
        built = oracle.realise(batch.sketch, batch.candidate(row).decisions)
        if built.mod is not None and not built.is_repaired:
            nest = echo(built, is_gpu=kind == "cuda")
            if nest.statements[0].loops[0].extent.constant != 1:
                return batch.take(np.array([row])), built
    raise AssertionError("twenty candidates, none of them usable")


def _predict(batch: CandidateBatch, nest: LoopNest) -> CandidateBatch:
    sketch = replace(batch.sketch, nests=EchoSource(batch.sketch, nest))
    return CandidateBatch(batch.space, sketch, batch.indices)


@pytest.mark.parametrize("kind", ["llvm", "cuda"])
def test_a_right_prediction_shows_no_difference(kind: str) -> None:
    batch, built = _built(kind)
    assert kind == "llvm" or built.is_accepted is not None
    predicted = _predict(batch, echo(built, is_gpu=kind == "cuda"))
    assert not [str(d) for d in differences(predicted, 0, built, is_gpu=kind == "cuda")]


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_prediction_is_found(what: str) -> None:
    batch, built = _built("cuda" if what == "buffer" else "llvm")
    spoil, where = WRONG[what]
    predicted = _predict(batch, spoil(echo(built, is_gpu=what == "buffer")))
    found = list(differences(predicted, 0, built, is_gpu=what == "buffer"))
    assert found
    assert all(d.where.startswith(where) for d in found), [str(d) for d in found]
    assert "TVM built" in str(found[0])


@pytest.mark.parametrize(
    "refusal",
    [{"mod": None, "refusal": "refused by RewriteUnboundBlock"}, {"is_accepted": False}],
    ids=["before-code", "by-the-gpu-check"],
)
def test_a_refusal_must_be_predicted(refusal: dict[str, object]) -> None:
    batch, built = _built("llvm")
    nest = echo(built, is_gpu=False)
    refused = replace(built, **refusal)
    found = list(differences(_predict(batch, nest), 0, refused, is_gpu=False))
    assert [(d.where, d.got) for d in found] == [("legality", "accepted")]
    assert not list(differences(_predict(batch, replace(nest, is_refused=as_expr(1))), 0, refused, is_gpu=False))


def test_a_repaired_candidate_is_only_asked_whether_it_is_one() -> None:
    batch, built = _built("llvm")
    nest = replace(_other_extent(echo(built, is_gpu=False)), is_canonical=as_expr(0))
    repaired = replace(built, decisions=(*built.decisions[:-1], (-1,)))
    assert not list(differences(_predict(batch, nest), 0, repaired, is_gpu=False))


def test_an_init_may_stand_elsewhere() -> None:
    batch, built = _built("llvm")
    nest = echo(built, is_gpu=False)
    assert nest.statements[0].name.endswith("_init")
    moved = replace(nest, statements=(*nest.statements[1:], nest.statements[0]))
    assert not list(differences(_predict(batch, moved), 0, built, is_gpu=False))


def test_neighbouring_parallel_loops_are_one_loop() -> None:
    loops = [(2, "parallel"), (1, "serial"), (3, "parallel"), (4, "serial"), (5, "serial"), (2, "vectorized")]
    assert merged(loops) == [(6, "parallel"), (4, "serial"), (5, "serial"), (2, "vectorized")]


def test_random_candidates_are_the_same_every_time() -> None:
    space, _ = case("gemm_bias_relu", "llvm")
    once, again, other = (random_batch(space, space.sketches[0], 50, seed) for seed in (1, 1, 2))
    assert (once.indices == again.indices).all()
    assert (once.indices != other.indices).any()
    assert once.is_allowed().all()
