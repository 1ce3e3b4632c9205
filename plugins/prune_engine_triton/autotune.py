"""`prune_configs_by` of `triton.autotune`: drop what cannot run, and tell what the rest would take."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np

from prune_engine.errors import ConfigError, SpaceError
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.own_kernels.own_spaces import batch_of, own_space
from prune_engine.own_kernels.pruner import Pruner
from prune_engine.own_kernels.pruning import Pruned
from prune_engine_triton.footprints import Footprint

_MS_PER_SEC = 1e3
#: What Triton launches with where a configuration does not say.
_LAUNCH: Final = {"num_warps": 4, "num_stages": 3, "num_ctas": 1}
_SOME_DRAFT: Final = "the engine's own"
#: Estimates that are remembered, of all problem sizes together.
_MAX_KNOWN = 1 << 16


class Config(Protocol):
    """What is read of a `triton.Config`."""

    kwargs: Mapping[str, Any]

    def all_kwargs(self) -> dict[str, Any]:
        """Meta-parameters and launch options together."""


def prune_configs_by(
    profile: HardwareProfile | str | os.PathLike[str],
    footprint: Footprint,
    *,
    top_k: int | float | None = None,
    name: str = "kernel",
    **options: object,
) -> dict[str, Any]:
    """Make the dictionary that ``triton.autotune(..., prune_configs_by=...)`` takes.

    Args:
        profile: the device: a profile, its name, or the path of a YAML file.
        footprint: what a configuration needs and does, such as `prune_engine_triton.matmul`.
        top_k: how many configurations Triton measures of those that are left, or the share of them; by default all.
        name: of the kernel, in messages.
        options: of `prune_engine.config.EngineConfig`, such as ``disabled_rules``.

    ``early_config_prune`` returns the configurations that no rule drops, best first; it raises SpaceError, naming
    the limits, if none is left. ``perf_model`` returns milliseconds; it is there if the footprint says enough for
    that.

    Raises ConfigError for options that cannot be used, or for ``top_k`` without a model to choose by.
    """
    if not isinstance(footprint, Footprint):
        raise ConfigError(
            "is of the wrong type",
            who="footprint",
            got=f"{type(footprint).__name__} {footprint!r}"[:80],
            expected="a Footprint, such as matmul(), elementwise() or Footprint({...})",
        )
    if top_k is not None:
        _check_top_k(top_k)
    pruner = Pruner(profile, options={"verifier": None, **options})
    judge = ConfigJudge(pruner, footprint, name)
    made: dict[str, Any] = {"early_config_prune": judge.early_config_prune}
    if judge.has_model and options.get("draft_scorer", _SOME_DRAFT) is not None:
        made["perf_model"] = judge.perf_model
        made["top_k"] = 1.0 if top_k is None else top_k
    elif top_k is not None:
        raise ConfigError(
            "there is nothing to choose them by",
            who="top_k",
            got=str(top_k),
            expected="a draft; grid_blocks, threads_per_block, flops_total or traffic_dram_bytes in the footprint",
            remedy="Add them (Footprint.with_symbols), or leave top_k out.",
        )
    return made


class ConfigJudge:
    """Judges configurations of one kernel on one device, a whole list at a time."""

    def __init__(self, pruner: Pruner, footprint: Footprint, name: str) -> None:
        self._pruner, self._footprint, self._name = pruner, footprint, name
        #: Milliseconds by everything that is a number or a text: arguments and configuration.
        self._millis: dict[frozenset[tuple[str, Any]], float] = {}

    @property
    def has_model(self) -> bool:
        """Whether the footprint has what an estimate of time needs."""
        has = set(self._footprint.symbols)
        return {"threads_per_block", "grid_blocks"} <= has and bool(has & {"flops_total", "traffic_dram_bytes"})

    def early_config_prune(
        self, configs: Sequence[Config], named_args: Mapping[str, Any], **kwargs: Any
    ) -> list[Any]:
        """The configurations that can run, best first; called by Triton. Raises SpaceError if there is none."""
        arguments = _plain({**named_args, **kwargs})
        result = self._judged([{**arguments, **_LAUNCH, **_plain(config.all_kwargs())} for config in configs])
        if not result.n_kept:
            raise SpaceError(
                "not one configuration can be used",
                who=f"Triton kernel {self._name!r} on {self._pruner.profile.name}",
                got=f"{len(configs)} configurations; "
                + "; ".join(f"{v.count} dropped by {v.strategy}: {v.reason}" for v in result.verdicts),
                expected="at least one within the limits of the device",
                remedy="Add smaller tiles, fewer stages or fewer warps, or correct the footprint.",
            )
        return [configs[row] for row in result.order]

    def perf_model(self, **everything: Any) -> float:
        """Milliseconds that one configuration would take, infinite for one that cannot run; called by Triton."""
        one = {**_LAUNCH, **_plain(everything)}
        key = frozenset(one.items())
        if key not in self._millis:  # it was not among those that were pruned before
            self._judged([one])
        return self._millis[key]

    def _judged(self, configs: Sequence[Mapping[str, Any]]) -> Pruned:
        """Judge configurations with all arguments, and remember what each of them takes."""
        names, partly = self._names(configs)
        columns = {name: [config[name] for config in configs] for name in names}
        choices = {name: list(dict.fromkeys(column)) for name, column in columns.items()}
        try:
            space = own_space(self._name, choices, self._footprint.symbols, dtype=self._footprint.dtype)
            result = self._pruner.prune(space, batch_of(space, columns))
        except ConfigError as error:
            if not partly:
                raise
            first = min(partly.values())
            lacking = f"configuration {first} without {', '.join(n for n, i in partly.items() if i == first)}"
            raise ConfigError(
                "configurations have different meta-parameters, and what its footprint needs cannot be told",
                who=f"Triton kernel {self._name!r}",
                got=f"{lacking}; {error}",
                expected=f"all of: {', '.join((*names, *partly))}",
            ) from error
        if len(self._millis) + len(configs) > _MAX_KNOWN:
            self._millis.clear()
        secs = np.full(len(configs), np.nan) if result.latency_secs is None else result.latency_secs
        millis = np.where(result.kept, secs * _MS_PER_SEC, np.inf)
        keys = (frozenset(config.items()) for config in configs)
        self._millis.update(zip(keys, millis.tolist(), strict=True))
        return result

    def _names(self, configs: Sequence[Mapping[str, Any]]) -> tuple[list[str], dict[str, int]]:
        """What all configurations say; and what some say, with the number of the first that does not.

        The latter, such as a limit of registers, is no column. Raises ConfigError where all lack an argument.
        """
        who = f"Triton kernel {self._name!r}"
        if not configs:
            raise ConfigError("there are no configurations", who=who, expected="at least one")
        named = list(dict.fromkeys(name for config in configs for name in config))
        partly: dict[str, int] = {}
        for number, config in enumerate(configs):
            for name in named:
                if name not in config:
                    partly.setdefault(name, number)
        names = [name for name in named if name not in partly]
        if lacking := [name for name in self._footprint.needs if name not in names]:
            raise ConfigError(
                "its footprint needs arguments that the kernel was not given as numbers",
                who=who,
                got=f"no {', '.join(lacking)} among {', '.join(names)}",
                remedy="Name the kernel's own arguments, as in matmul(m='rows', n='columns', k='depth').",
            )
        return names, partly


def _check_top_k(top_k: object) -> None:
    """Raise ConfigError for what Triton would refuse, or of which it would measure nothing."""
    is_count = isinstance(top_k, int) and not isinstance(top_k, bool) and top_k >= 1
    if not is_count and not (isinstance(top_k, float) and 0 < top_k <= 1):
        raise ConfigError(
            "is no number of configurations",
            who="top_k",
            got=repr(top_k),
            expected="a whole number from 1 on, or a share of them: more than 0.0, at most 1.0",
        )


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers and texts, as Python's own: tensors say nothing that is looked at, and NaN says nothing at all."""
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
    told = {name: value for name, value in plain.items() if isinstance(value, int | float | str)}
    return {name: value for name, value in told.items() if not (isinstance(value, float) and math.isnan(value))}
