"""Where only TVM can tell whether it takes a candidate, the nest says so: nothing else is refused unforeseen."""

from __future__ import annotations

import numpy as np
from kits.oracle import Oracle, random_batch

from prune_engine.metaschedule.materialise import Materialiser
from prune_engine.metaschedule.targets import resolve_target
from prune_engine.metaschedule.workloads.loading import load_tasks
from prune_engine.symbols.evaluate import evaluate


def test_windows_split_across_their_rows() -> None:
    (task,) = load_tasks("avg_pool2d:1x8x14x14,3x3,s2,p1", resolve_target("llvm", 4))
    space, oracle = Materialiser(task, seed=0).design_space(), Oracle(task)
    n_unsure = n_unforeseen = 0
    for sketch in space.sketches[1:]:
        assert sketch.nests is not None
        batch = random_batch(space, sketch, 150)
        batch = batch.take(sketch.nests.canonical(batch.indices))
        for row in range(min(len(batch), 30)):
            (group,) = sketch.nests.groups(batch.indices[row : row + 1])
            columns = evaluate(
                [group.nest.is_unsure, group.nest.is_refused], sketch.nests.tables, batch.indices[row : row + 1]
            )
            is_unsure, is_refused = (bool(np.any(column)) for column in columns)
            is_legal = oracle.realise(sketch, batch.candidate(row).decisions).is_legal
            assert is_unsure or is_legal is not is_refused, batch.candidate(row)
            n_unsure += is_unsure
            n_unforeseen += is_unsure and not is_legal
    assert n_unsure > n_unforeseen > 0
