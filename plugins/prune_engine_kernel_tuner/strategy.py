"""A strategy of Kernel Tuner: measure what the engine ranks first, learn, look around the best, and rank anew."""

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

    def __init__(
        self,
        space: KernelSpace,
        *,
        batch_size: int = 8,
        first_batch_size: int = 8,
        local_share: float = 0.75,
    ) -> None:
        """Measure ``first_batch_size`` configurations before anything is learnt, then ``batch_size`` at a time.

        ``local_share`` of a batch are configurations that differ in one parameter from the best measured, those
        that the engine ranks first among them: symbols that misjudge a kernel mislead an order for long, but not
        a step that was measured. Raises ConfigError for sizes below 1 and a share that is none.
        """
        for who, size in (("batch_size", batch_size), ("first_batch_size", first_batch_size)):
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise ConfigError("is no size", who=who, got=repr(size), expected="a whole number from 1 on")
        if isinstance(local_share, bool) or not isinstance(local_share, int | float) or not 0 <= local_share <= 1:
            raise ConfigError("is no share", who="local_share", got=repr(local_share), expected="from 0 to 1")
        self._space, self._sizes, self._local_share = space, (first_batch_size, batch_size), local_share

    def tune(self, searchspace: Any, runner: Any, tuning_options: Any) -> list[dict[str, Any]]:
        """Measure until the budget is spent; called by Kernel Tuner. Returns its results."""
        cost = cost_function(searchspace, tuning_options, runner)
        kept = np.flatnonzero(self._space.pruned.kept)
        is_here = [searchspace.is_param_config_valid(c) for c in self._space.configurations(kept)]
        absent = kept[~np.array(is_here, dtype=np.bool_)].tolist()
        measured, secs = list[int](), np.empty(0)
        size, usual = self._sizes
        try:
            while rows := self._chosen(size, measured, secs, absent):
                costs = cost.eval_all(self._space.configurations(rows), check_restrictions=False)
                found = _seconds(costs)
                self._space.learn_rows(rows, found)
                measured, secs, size = measured + rows, np.append(secs, found), usual
        except stop_criterion():
            pass  # the budget is spent: the ordinary end
        results: list[dict[str, Any]] = cost.results
        return results

    def _chosen(self, size: int, measured: list[int], secs: NDArray[np.float64], absent: list[int]) -> list[int]:
        """What to measure next, by position: near the best measured, and the rest from everywhere."""
        n_near = round(self._local_share * size)
        near = self._space.near_the_best(measured, secs, n_near, closed=absent)
        rows: list[int] = []
        if near.any():
            rows += self._space.choose(n_near, absent + measured, among=near).tolist()
        rows += self._space.choose(size - len(rows), absent + measured + rows).tolist()
        return rows


def _seconds(costs: list[Any]) -> NDArray[np.float64]:
    """Costs as what grows with run time, NaN for failures. Of several objectives the first counts."""
    first = np.array([c[0] if isinstance(c, list | tuple) else c for c in costs], dtype=np.float64)
    # Kernel Tuner negates objectives of which more is better: their reciprocals order alike.
    with np.errstate(divide="ignore"):
        secs = np.where(first < 0, -1 / first, first)
    return np.where((np.abs(first) < _FAILED_COST) & (first != 0), secs, np.nan)
