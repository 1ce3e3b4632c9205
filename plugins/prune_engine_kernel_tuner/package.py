"""The only importer of Kernel Tuner, which need not be installed until something of it is used."""

from __future__ import annotations

from typing import Any

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
        ) from error
    return searched if searched.size else None


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
