"""From options to a request: what the commands and the functions of the same names share."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, SupportsIndex, TypeVar

from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError
from prune_engine.result_folder import RESULTS

if TYPE_CHECKING:
    from prune_engine.metaschedule.study_device import StudyRequest
    from prune_engine.metaschedule.tune import TuneRequest

T = TypeVar("T")

#: Where a thing lies on the disk, or what is called so.
PathLike = str | os.PathLike[str]

#: What tuning may take if nobody says.
DEFAULT_SECS = 300.0
#: Sizes that no axis has.
_MAX_SIZE = 2**31 - 1


def search_config(
    *,
    seconds: float | None,
    trials: int | None = None,
    draft: str | None = "draft.symbols",
    verifier: str | None = "lightgbm.residual",
    disabled_rules: Sequence[str] = (),
    blocked_plugins: Sequence[str] = (),
    plugin_files: Sequence[PathLike] = (),
    **options: object,
) -> EngineConfig:
    """The engine's options; ``draft`` and ``verifier`` may be "none". Raises ConfigError.

    ``options`` are others of `EngineConfig`, by its own names.
    """
    from prune_engine.plugin_host.blocked_names import check_blocked

    config = EngineConfig.of(
        n_trials=trials,
        budget_secs=seconds,
        draft_scorer=None if draft in ("none", None) else draft,
        verifier=None if verifier in ("none", None) else verifier,
        disabled_rules=several("disabled_rules", disabled_rules),
        blocked_plugins=several("blocked_plugins", blocked_plugins),
        plugin_files=tuple(map(Path, several("plugin_files", plugin_files))),
        **options,
    )
    check_blocked(config.blocked_plugins, config.plugin_files)
    return config


def model_request(
    model: PathLike,
    config: EngineConfig,
    *,
    out: PathLike | None,
    shape: Mapping[str, Sequence[int]] | None,
    dim: Mapping[str, int] | None,
    target: str,
    threads: int | None,
    profile: PathLike,
    store: PathLike | None,
    build_timeout: float | None = None,
    run_timeout: float | None = None,
    memory: int | str | None = None,
    flush_cache: bool = False,
    policy: PathLike | None = None,
    decisions: bool = True,
    decisions_size: int | str = "64M",
    library_path: Path | None = None,
    is_decided_in_network: bool = False,
) -> TuneRequest:
    """What `tune_model` takes. Without ``out`` the result goes to tuned/MODEL.

    ``memory`` and ``decisions_size`` are bytes, or text such as 8G. Raises ConfigError.
    """
    from prune_engine.metaschedule.tune import TuneRequest
    from prune_engine.metaschedule.workloads.loading import result_name
    from prune_engine.option_values import threads_or_default

    what = path_text("model", model)
    if threads is not None:
        at_least_one("threads", threads)
    return TuneRequest(
        model_path=Path(what),
        out_dir=Path(path_text("out", out)) if out is not None else RESULTS / result_name(what),
        n_threads=threads_or_default(threads),
        config=config,
        target=target,
        profile=path_text("profile", profile),
        store_url=None if store is None else path_text("store", store),
        shapes=shapes_of(shape),
        dims=dims_of(dim),
        build_timeout_secs=_seconds("build_timeout", build_timeout),
        run_timeout_secs=_seconds("run_timeout", run_timeout),
        memory_limit_bytes=None if memory is None else n_bytes("memory", memory),
        flush_cache=flush_cache,
        policy_path=None if policy is None else Path(path_text("policy", policy)),
        decision_bytes=n_bytes("decisions_size", decisions_size) if decisions else 0,
        library_path=library_path,
        is_decided_in_network=is_decided_in_network,
    )


def study_request(
    source: str,
    config: EngineConfig,
    *,
    target: str | None,
    profile: PathLike | None,
    threads: int | None,
    shape: Mapping[str, Sequence[int]] | None,
    dim: Mapping[str, int] | None,
) -> StudyRequest:
    """What `Study` takes: a space to look at, of a workload or a file. Raises ConfigError."""
    from prune_engine.metaschedule.study_device import StudyRequest

    if threads is not None:
        at_least_one("threads", threads)
    named = None if profile is None else path_text("profile", profile)
    return StudyRequest(source, config, target, named, threads, shapes_of(shape), dims_of(dim))


def shapes_of(shape: Mapping[str, Sequence[int]] | None) -> dict[str, tuple[int, ...]]:
    """Whole shapes by the name of the input. Raises ConfigError."""
    if shape is not None and not isinstance(shape, Mapping):
        raise _wrong("shape", shape, "a mapping such as {'x': (1, 3, 224, 224)}")
    found: dict[str, tuple[int, ...]] = {}
    for name, sizes in (shape or {}).items():
        if isinstance(sizes, str) or not isinstance(sizes, Iterable):
            raise _wrong(f"shape of {name!r}", sizes, "sizes such as (1, 3, 224, 224)")
        found[name] = tuple(_size(f"shape of {name!r}", size) for size in sizes)
    return found


def dims_of(dim: Mapping[str, int] | None) -> dict[str, int]:
    """Sizes of symbolic dimensions by their name. Raises ConfigError."""
    if dim is not None and not isinstance(dim, Mapping):
        raise _wrong("dim", dim, "a mapping such as {'batch': 1}")
    return {name: _size(f"dim {name!r}", size) for name, size in (dim or {}).items()}


def several(who: str, names: Sequence[T]) -> tuple[T, ...]:
    """A sequence of names; a single one in its place is a mistake. Raises ConfigError."""
    if isinstance(names, str | os.PathLike) or not isinstance(names, Iterable):
        raise _wrong(who, names, "a sequence, such as a list of one")
    return tuple(names)


def at_least_one(who: str, value: object) -> int:
    """A whole number from 1 on. Raises ConfigError."""
    # NumPy's integers are welcome, True is not.
    if isinstance(value, bool) or not isinstance(value, SupportsIndex) or value.__index__() < 1:
        raise _wrong(who, value, "a whole number from 1 on")
    return value.__index__()


def n_bytes(who: str, size: int | str) -> int:
    """Bytes, given as a number or as 8G. Raises ConfigError."""
    from prune_engine.option_values import parse_bytes

    return parse_bytes(str(size), "--" + who.replace("_", "-"))


def path_text(who: str, value: object) -> str:
    """What names a thing on the disk, as text. Raises ConfigError."""
    if not isinstance(value, str | os.PathLike):
        raise _wrong(who, value, "a name or path, as text or a Path")
    return os.fsdecode(value)


def _size(who: str, size: object) -> int:
    found = at_least_one(who, size)
    if found > _MAX_SIZE:
        raise _wrong(who, size, f"at most {_MAX_SIZE}")
    return found


def _seconds(who: str, secs: float | None) -> float | None:
    if secs is None:
        return None
    if isinstance(secs, bool) or not isinstance(secs, int | float) or not (math.isfinite(secs) and secs > 0):
        raise _wrong(who, secs, "seconds, more than 0")
    return float(secs)


def _wrong(who: str, got: object, expected: str) -> ConfigError:
    return ConfigError("cannot be used", who=who, got=repr(got)[:200], expected=expected)
