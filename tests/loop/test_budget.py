"""How many candidates the next batch gets."""

from __future__ import annotations

from typing import Any

import pytest

from prune_engine.config import EngineConfig
from prune_engine.loop.budget import Budget
from prune_engine.loop.task_state import TaskState
from prune_engine.testing import make_space, make_task


def sizes(n: int, **options: Any) -> list[int]:
    """The sizes of the next ``n`` batches of a lone task."""
    budget = Budget(EngineConfig.of(**options), lambda: False)
    state = TaskState(make_task(), make_space())
    found = []
    for _ in range(n):
        found.append(budget.batch_size(state, [state]))
        state.n_trials += found[-1]
    return found


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [8, 8, 8, 8, 16, 16]),
        ({"first_trials": 0}, [16, 16, 16, 16, 16, 16]),
        ({"first_trials": 12}, [8, 4, 16, 16, 16, 16]),
        ({"batch_size": 4}, [4, 4, 4, 4, 4, 4]),
        ({"first_batch_size": 1, "first_trials": 3}, [1, 1, 1, 16, 16, 16]),
        ({"n_trials": 50}, [8, 8, 8, 8, 16, 2]),
    ],
)
def test_batches_are_small_at_first(options: dict[str, Any], expected: list[int]) -> None:
    assert sizes(6, **options) == expected
