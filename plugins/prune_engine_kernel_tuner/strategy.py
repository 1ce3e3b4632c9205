"""A strategy of Kernel Tuner: measure what the engine ranks first, learn, and rank the rest anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prune_engine.errors import ConfigError
from prune_engine_kernel_tuner.package import cost_function, stop_criterion

if TYPE_CHECKING:
    from prune_engine_kernel_tuner.space import KernelSpace

#: Kernel Tuner's cost of a configuration that failed is the largest float.
_FAILED_COST = 1e300


class PruneEngineStrategy:
    """For ``tune_kernel(..., strategy=...)``: use it for one run, with the parameters of the same `KernelSpace`.

    It ends with the budget (``strategy_options={"max_fevals": ...}`` or ``time_limit``), or when every kept
    configuration was measured. Only configurations that Kernel Tuner's search space has as well are measured.
    """

    def __init__(self, space: KernelSpace, *, batch_size: int = 16, first_batch_size: int = 8) -> None:
        """Measure ``first_batch_size`` configurations before anything is learnt, then ``batch_size`` at a time.

        Raises ConfigError for sizes below 1.
        """
        for who, size in (("batch_size", batch_size), ("first_batch_size", first_batch_size)):
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise ConfigError("is no size", who=who, got=repr(size), expected="a whole number from 1 on")
        self._space, self._sizes = space, (first_batch_size, batch_size)

    def tune(self, searchspace: Any, runner: Any, tuning_options: Any) -> list[dict[str, Any]]:
        """Measure until the budget is spent; called by Kernel Tuner. Returns its results."""
        cost = cost_function(searchspace, tuning_options, runner)
        kept = np.flatnonzero(self._space.pruned.kept)
        is_here = [searchspace.is_param_config_valid(c) for c in self._space.configurations(kept)]
        done = kept[~np.array(is_here, dtype=np.bool_)].tolist()
        size, usual = self._sizes
        try:
            while len(rows := self._space.choose(size, done)):
                costs = cost.eval_all(self._space.configurations(rows), check_restrictions=False)
                self._space.learn_rows(rows.tolist(), _seconds(costs))
                done += rows.tolist()
                size = usual
        except stop_criterion():
            pass  # the budget is spent: the ordinary end
        results: list[dict[str, Any]] = cost.results
        return results


def _seconds(costs: list[Any]) -> NDArray[np.float64]:
    """Costs as what grows with run time, NaN for failures. Of several objectives the first counts."""
    first = np.array([c[0] if isinstance(c, list | tuple) else c for c in costs], dtype=np.float64)
    # Kernel Tuner negates objectives of which more is better: their reciprocals order alike.
    with np.errstate(divide="ignore"):
        secs = np.where(first < 0, -1 / first, first)
    return np.where((np.abs(first) < _FAILED_COST) & (first != 0), secs, np.nan)
