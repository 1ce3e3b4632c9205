"""The only importer of Kernel Tuner, which need not be installed until something of it is used."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from prune_engine.errors import ConfigError

#: What its solver raises, of several kinds, where a restriction leaves a parameter no value at all.
_EMPTY = "empty sequence"


def searchspace_of(tune_params: dict[str, list[Any]], restrictions: object, max_threads: int) -> Any:
    """Kernel Tuner's own search space: every configuration that the restrictions allow. None if there is none.

    Raises ConfigError for restrictions that it cannot read.
    """
    try:
        from kernel_tuner.searchspace import Searchspace
    except ImportError as error:
        raise _missing(error) from error
    try:
        searched = Searchspace(tune_params, restrictions, max_threads)
    except Exception as error:  # whatever is wrong with a restriction is raised as it comes
        if isinstance(error, ValueError) and _EMPTY in str(error):
            return None
        raise ConfigError(
            "Kernel Tuner cannot make a search space of it",
            who="restrictions",
            got=f"{type(error).__name__}: {error}",
            expected="what tune_kernel takes: strings, functions, constraints, or a list of them",
            remedy="It reads the source of lambdas: give each a line of its own, or write a string or a function.",
        ) from error
    return searched if searched.size else None


def row_numbers(searched: Any, tune_params: dict[str, list[Any]]) -> NDArray[np.int32]:
    """The configurations of a search space as positions of their values, int32 (n, v)."""
    if not any(isinstance(value, bool) for values in tune_params.values() for value in values):
        return np.ascontiguousarray(searched.get_list_param_indices_numpy(), dtype=np.int32)
    # Kernel Tuner's own takes True for the position 1, wherever it stands.
    columns = zip(*searched.list, strict=True)
    at = [{value: row for row, value in enumerate(values)} for values in tune_params.values()]
    rows = [[known[value] for value in column] for known, column in zip(at, columns, strict=True)]
    return np.ascontiguousarray(np.array(rows, dtype=np.int32).T)


def cost_function(searchspace: Any, tuning_options: Any, runner: Any) -> Any:
    """What a strategy of Kernel Tuner measures with: configurations in, costs out."""
    try:
        from kernel_tuner.strategies.common import CostFunc
    except ImportError as error:
        raise _missing(error) from error
    return CostFunc(searchspace, tuning_options, runner, scaling=False, snap=False)


def stop_criterion() -> type[Exception]:
    """What Kernel Tuner raises when the budget is spent."""
    from kernel_tuner.util import StopCriterionReached

    stop: type[Exception] = StopCriterionReached
    return stop


def _missing(error: ImportError) -> ConfigError:
    return ConfigError(
        "Kernel Tuner cannot be imported",
        who="prune_engine_kernel_tuner",
        got=str(error),
        expected="the package kernel-tuner",
        remedy='Install it: pip install "prune-engine[kernel-tuner]".',
    )
