"""A kernel's tunable parameters as a design space, and what the engine leaves of them for Kernel Tuner."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch
from prune_engine.errors import ConfigError, SpaceError
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.own_kernels.given import DecisionColumns, GivenSymbol
from prune_engine.own_kernels.own_spaces import batch_of, decisions_of, own_space
from prune_engine.own_kernels.pruner import Pruner
from prune_engine.own_kernels.pruning import Pruned
from prune_engine.verdicts import BoolArray
from prune_engine_kernel_tuner.neighbourhood import near_the_best
from prune_engine_kernel_tuner.package import row_numbers, searchspace_of
from prune_engine_kernel_tuner.results import Results, read_results
from prune_engine_kernel_tuner.strategy import PruneEngineStrategy

#: Kernel Tuner's own names for the dimensions of a block.
_BLOCK_SIZES = ("block_size_x", "block_size_y", "block_size_z")
#: More threads than any block has: the limit is the profile's, so that what it drops is counted.
_NO_LIMIT = 2**31 - 1


def kernel_space(
    tune_params: Mapping[str, Sequence[Any]],
    restrictions: object = None,
    *,
    profile: HardwareProfile | str,
    symbols: Mapping[str, GivenSymbol] | None = None,
    name: str = "kernel",
    dtype: str = "float32",
    n_results: int | None = None,
    block_size_names: Sequence[str] = _BLOCK_SIZES,
    elsewhere: tuple[str | Path | Results, HardwareProfile | str] | None = None,
    **options: object,
) -> KernelSpace:
    """Prune what Kernel Tuner would tune.

    Args:
        tune_params: the values of each parameter, as for ``tune_kernel``.
        restrictions: as for ``tune_kernel``: strings, functions, constraints, or a list of them.
        profile: the device: a profile, its name, or the path of a YAML file.
        symbols: what a configuration needs and does, see `prune_engine.own_kernels.given.with_symbols`.
            ``threads_per_block`` is the product of the block sizes if it is not given.
        name: of the kernel: what is learnt is kept by it.
        dtype: what the kernel computes in.
        n_results: how many elements it writes.
        block_size_names: as for ``tune_kernel``.
        elsewhere: results of the same kernel on another device, and that device's profile: what the order starts
            from, until there are results of this one.
        options: of `prune_engine.config.EngineConfig`.

    Raises ConfigError for parameters, symbols or options that cannot be used, and SpaceError if no configuration is
    left, with what dropped them.
    """
    _check(tune_params, block_size_names, elsewhere)
    blocks = [block for block in block_size_names if block in tune_params]
    given = dict(symbols or {})
    if blocks:
        given.setdefault("threads_per_block", _product_of(blocks))
    space = own_space(name, tune_params, given, dtype=dtype, n_results=n_results)
    params = {parameter: list(values) for parameter, values in tune_params.items()}
    searched = searchspace_of(params, restrictions, _NO_LIMIT)
    if searched is None:
        raise SpaceError(
            "its restrictions leave no configuration",
            who=f"kernel {name!r}",
            got=f"restrictions {restrictions!r}"[:200],
        )
    batch = CandidateBatch(space, space.sketches[0], row_numbers(searched, params))
    if elsewhere is None:
        return KernelSpace(batch, Pruner(profile, options=options), restrictions)
    source, there = elsewhere
    other = KernelSpace(batch, Pruner(there, options={**options, "prior": "none"}), restrictions, may_be_empty=True)
    other.learn(source)
    with tempfile.TemporaryDirectory(prefix="prune_engine_") as folder:
        model = Path(folder) / "verifier.model"
        if not other.save(model):
            raise ConfigError(
                "there is no verifier that learns from another device",
                who=f"kernel {name!r}",
                expected="the option `verifier` to name one that takes priors",
                remedy="Leave `elsewhere` out, or the option `verifier`.",
            )
        return KernelSpace(batch, Pruner(profile, options={**options, "prior": str(model)}), restrictions)


class KernelSpace:
    """The configurations that restrictions allow, judged by the engine.

    ``pruned`` is what it says of each, in the order of Kernel Tuner's search space (``configurations``).
    """

    def __init__(
        self, batch: CandidateBatch, pruner: Pruner, restrictions: object, *, may_be_empty: bool = False
    ) -> None:
        """Judge the configurations. Raises SpaceError if none is kept."""
        self._batch, self._pruner, self._restrictions = batch, pruner, restrictions
        self._names = tuple(variable.name for variable in batch.sketch.variables)
        self.pruned: Pruned = pruner.prune(batch.space, batch)
        if not self.pruned.n_kept and not may_be_empty:
            raise SpaceError(
                "no configuration is left",
                who=f"kernel {batch.space.task.name!r}",
                got=f"{len(batch):,} that the restrictions allow; "
                + "; ".join(f"{v.count:,} dropped by {v.strategy}: {v.reason}" for v in self.pruned.verdicts),
                remedy="Add smaller values, correct the symbols, or leave a rule out by `disabled_rules`.",
            )

    @property
    def tune_params(self) -> dict[str, list[Any]]:
        """The parameters without values that no kept configuration has, in their order."""
        rows = self._batch.indices[self.pruned.kept]
        given = self._values()
        return {
            name: [given[i][row] for row in np.unique(rows[:, i]).tolist()] for i, name in enumerate(self._names)
        }

    @property
    def restrictions(self) -> list[object]:
        """For ``tune_kernel``: the restrictions given, and one that only kept configurations meet."""
        given = self._restrictions
        listed = list(given) if isinstance(given, list | tuple) else [] if given is None else [given]
        return [*listed, self._is_kept()]

    @property
    def order(self) -> list[tuple[Any, ...]]:
        """The kept configurations, best first, as tuples in the order of the parameters."""
        return self.configurations(self.pruned.order)

    def configurations(self, rows: NDArray[np.int64] | Sequence[int]) -> list[tuple[Any, ...]]:
        """Configurations by position, as tuples in the order of the parameters."""
        return [tuple(one.values()) for one in decisions_of(self._batch, rows)]

    def strategy(
        self, *, batch_size: int = 8, first_batch_size: int = 8, local_share: float = 0.75
    ) -> PruneEngineStrategy:
        """A ``strategy`` for ``tune_kernel`` that measures in the engine's order and learns as it goes.

        See `PruneEngineStrategy` for what the arguments mean.
        """
        return PruneEngineStrategy(
            self, batch_size=batch_size, first_batch_size=first_batch_size, local_share=local_share
        )

    def learn(
        self,
        source: str | Path | Results | Sequence[Mapping[str, Any]],
        *,
        objective: str = "time",
        higher_is_better: bool = False,
    ) -> int:
        """Learn from results of this kernel on this device, and order anew. Returns how many were of this space.

        Raises ConfigError for results that cannot be read, or of which none is of this space.
        """
        found = source
        if not isinstance(found, Results):
            found = read_results(found, objective=objective, higher_is_better=higher_is_better)
        values = [set(of) for of in self._values()]
        told = [tuple(config.get(name) for name in self._names) for config in found.configurations]
        is_here = [all(_in(v, of) for v, of in zip(one, values, strict=True)) for one in told]
        if not any(is_here):
            example = f", such as {dict(zip(self._names, told[0], strict=True))}" if told else ""
            raise ConfigError(
                "no result is of this space",
                who=f"kernel {self._batch.space.task.name!r}",
                got=f"{len(told)} results{example}",
                expected=f"values of {', '.join(self._names)} that the space has",
            )
        columns = zip(*(one for one, here in zip(told, is_here, strict=True) if here), strict=True)
        batch = batch_of(self._batch.space, dict(zip(self._names, map(list, columns), strict=True)))
        self._pruner.learn(self._batch.space, batch, found.run_secs[np.array(is_here)])
        self.pruned = self._pruner.prune(self._batch.space, self._batch)
        return int(sum(is_here))

    def choose(self, k: int, measured: Sequence[int] = (), *, among: BoolArray | None = None) -> NDArray[np.int64]:
        """At most ``k`` kept configurations to measure next, by position; ``measured`` are left out.

        ``among`` bool (n,) are those to choose from; all of them by default.
        """
        if wrong := [row for row in measured if not 0 <= row < len(self._batch)]:
            raise ConfigError(
                "is no configuration of the space",
                who="measured",
                got=repr(wrong[0]),
                expected=f"positions from 0 to {len(self._batch) - 1}",
            )
        is_asked = self.pruned.kept.copy()
        if among is not None:
            # With what was measured, by whose number the engine knows how much there is to learn yet.
            is_measured = np.zeros(len(self._batch), dtype=np.bool_)
            is_measured[np.asarray(measured, dtype=np.int64)] = True
            is_asked &= among | is_measured
        kept = np.flatnonzero(is_asked)
        at = np.full(len(self._batch), -1)
        at[kept] = np.arange(len(kept))
        done = at[np.asarray(measured, dtype=np.int64)]
        rows = self._pruner.choose(self._batch.space, self._batch.take(kept), k, measured=done[done >= 0])
        return kept[rows]

    def near_the_best(
        self, measured: Sequence[int], run_secs: NDArray[np.float64], n: int, *, closed: Sequence[int] = ()
    ) -> BoolArray:
        """Kept configurations one step from the best measured, bool (n,): see `neighbourhood.near_the_best`.

        What was measured and ``closed`` is left out.
        """
        is_open = self.pruned.kept.copy()
        is_open[np.asarray([*measured, *closed], dtype=np.int64)] = False
        return near_the_best(
            self._batch.indices, is_open, np.asarray(measured, dtype=np.int64), np.asarray(run_secs), n
        )

    def learn_rows(self, rows: Sequence[int], run_secs: NDArray[np.float64]) -> None:
        """Learn what was measured of configurations by position; NaN for failures. The order stays as it is."""
        self._pruner.learn(self._batch.space, self._batch.take(np.asarray(rows, dtype=np.int64)), run_secs)

    def save(self, path: Path) -> bool:
        """Write what was learnt, see `prune_engine.own_kernels.pruner.Pruner.save`."""
        return self._pruner.save(path)

    def _values(self) -> list[tuple[Any, ...]]:
        """The values of each parameter as they were given."""
        n = max(len(variable.table) for variable in self._batch.sketch.variables)
        sketch = self._batch.sketch
        rows = np.minimum(np.arange(n)[:, None], [len(v.table) - 1 for v in sketch.variables]).astype(np.int32)
        listed = decisions_of(CandidateBatch(self._batch.space, sketch, np.ascontiguousarray(rows)), range(n))
        return [tuple(one[v.name] for one in listed[: len(v.table)]) for v in sketch.variables]

    def _is_kept(self) -> Callable[..., bool]:
        kept = set(self.configurations(np.flatnonzero(self.pruned.kept)))
        names = self._names

        def is_kept(*values: Any, **params: Any) -> bool:
            # Kernel Tuner calls it with a dictionary, with values in order, or with values by name.
            if len(values) == 1 and isinstance(values[0], Mapping):
                params, values = dict(values[0]), ()
            return (tuple(params[name] for name in names) if params else tuple(values)) in kept

        return is_kept


def _check(tune_params: object, block_size_names: object, elsewhere: object) -> None:
    """Raise ConfigError for arguments of the wrong type."""
    is_list = isinstance(block_size_names, Sequence) and not isinstance(block_size_names, str)
    wrong = (
        (
            "tune_params",
            tune_params,
            isinstance(tune_params, Mapping),
            "a dictionary of parameters and their values",
        ),
        ("block_size_names", block_size_names, is_list, "a list of names of parameters"),
        (
            "elsewhere",
            elsewhere,
            elsewhere is None or (isinstance(elsewhere, tuple | list) and len(elsewhere) == 2),
            "results on another device, and its profile: two things in a tuple",
        ),
    )
    for who, value, is_right, expected in wrong:
        if not is_right:
            raise ConfigError("is of the wrong type", who=who, got=repr(value)[:80], expected=expected)


def _in(value: object, values: set[Any]) -> bool:
    try:
        return value in values
    except TypeError:  # a list in a file
        return False


def _product_of(blocks: Sequence[str]) -> Callable[[DecisionColumns], NDArray[np.generic]]:
    def threads(columns: DecisionColumns) -> NDArray[np.generic]:
        product = np.ones(1, dtype=np.int64)
        for block in blocks:
            product = product * columns[block].astype(np.int64)
        return product

    return threads
