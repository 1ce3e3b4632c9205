"""Small records that are valid, distinct and reproducible."""

from __future__ import annotations

import numpy as np
import pytest

from prune_engine.hardware import DeviceKind
from prune_engine.measurement import MeasureErrorKind
from prune_engine.space import DesignSpace, Sketch, SpaceRestriction, VariableKind
from prune_engine.testing import make_batch, make_measurement, make_profile, make_space, make_task


def test_task_identity_follows_its_arguments() -> None:
    assert make_task() == make_task()
    others = {make_task("other"), make_task(shape=(2, 2, 2)), make_task(target="cuda")}
    assert len({t.task_id for t in others} | {make_task().task_id}) == 4
    assert make_task(weight=3).task_id == make_task().task_id, "the weight is the model's, not the kernel's"


def test_space_has_every_kind_of_variable() -> None:
    space = make_space()
    kinds = [{v.kind for v in sketch.variables} for sketch in space.sketches]
    assert kinds == [{VariableKind.TILE, VariableKind.CATEGORICAL}, set(VariableKind)]
    assert any(len(set(v.probs.tolist())) > 1 for v in space.sketches[0].variables)


def test_batch_is_distinct_reproducible_and_allowed() -> None:
    space = make_space()
    first, again, other = make_batch(200, space=space), make_batch(200, space=space), make_batch(200, seed=1)
    assert len(first) == len(np.unique(first.indices, axis=0)) == 200
    assert (first.indices == again.indices).all()
    assert (first.indices != other.indices).any()
    keep = np.arange(len(space.sketches[0].variables[0].table)) % 3 == 0
    cut = space.restrict(SpaceRestriction({(0, 0): keep}))
    assert keep[make_batch(100, space=cut).indices[:, 0]].all()


def test_batch_of_a_small_sketch_is_all_there_is() -> None:
    space = make_space()
    keep = {(0, v): np.arange(len(variable.table)) < 2 for v, variable in enumerate(space.sketches[0].variables)}
    assert len(make_batch(1000, space=space.restrict(SpaceRestriction(keep)))) == 16
    bare = DesignSpace(make_task(), (Sketch(0, "bare", ()),))
    assert make_batch(5, space=bare).indices.shape == (1, 0)
    nothing = {(0, 0): np.zeros(len(space.sketches[0].variables[0].table), dtype=np.bool_)}
    assert len(make_batch(5, space=space.restrict(SpaceRestriction(nothing)))) == 0


def test_measurement() -> None:
    assert make_measurement(run_secs=(1.0, 3.0, 2.0)).latency_secs == 2.0
    failed = make_measurement("x", error=MeasureErrorKind.CRASH)
    assert (failed.latency_secs, failed.error and failed.error.kind) == (None, MeasureErrorKind.CRASH)


@pytest.mark.parametrize("kind", DeviceKind)
def test_profile(kind: DeviceKind) -> None:
    profile = make_profile(kind, vector_bytes=32)
    assert profile.kind is kind
    assert profile.value("limits.vector_bytes") == 32
    assert make_profile(kind, vector_bytes=None).value("limits.vector_bytes") is None
