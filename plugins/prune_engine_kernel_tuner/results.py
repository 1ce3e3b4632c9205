"""Read what Kernel Tuner measured: cache files, T4 files, and the lists that `tune_kernel` returns."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prune_engine.bounded_files import json_of, read_maybe_gzipped
from prune_engine.errors import ConfigError

#: What a cache file has in the place of a number for a configuration that did not run, and the key beside it.
_ERRORS = ("ErrorConfig", "InvalidConfig", "CompilationFailedConfig", "RuntimeFailedConfig")
_ERROR_KEY = "__error__"
_SECS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "usec", "\u00b5s", "\u03bcs", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), 1e-9),
}
_USUAL_UNIT = "ms"


@dataclass(frozen=True, slots=True)
class Results:
    """Measured configurations. ``run_secs`` float64 (n,) belongs to ``configurations``, NaN for what failed.

    ``device_name`` is None where the file does not say. With an objective of which more is better, ``run_secs`` are
    its reciprocals: they order alike.
    """

    configurations: tuple[Mapping[str, Any], ...]
    run_secs: NDArray[np.float64]
    device_name: str | None = None


def read_results(
    source: str | Path | Sequence[Mapping[str, Any]], *, objective: str = "time", higher_is_better: bool = False
) -> Results:
    """Read a cache file or a T4 file, maybe gzipped or not closed, or take the list of `tune_kernel`.

    Raises ConfigError for a file that is neither, or that has no result with the objective.
    """
    if isinstance(source, str | Path):
        who, content = str(source), _content(Path(source))
    elif isinstance(source, Mapping) or not isinstance(source, Iterable):
        raise _not_results("results of tune_kernel", f"{type(source).__name__} {source!r}"[:80])
    else:
        who, content = "results of tune_kernel", list(source)
    if isinstance(content, list):
        found, device = [_of_line(line, objective) for line in content], None
    elif isinstance(content.get("cache"), dict):
        found = [_of_line(line, objective) for line in content["cache"].values()]
        names, device = content.get("tune_params_keys"), content.get("device_name")
        if isinstance(names, list):
            found = [({k: v for k, v in config.items() if k in names}, secs) for config, secs in found]
    elif isinstance(content.get("results"), list):
        metadata = content.get("metadata")
        unit = str(metadata.get("timeunit", _USUAL_UNIT)) if isinstance(metadata, Mapping) else _USUAL_UNIT
        found, device = [_of_t4(entry, objective, unit, who) for entry in content["results"]], None
    else:
        raise _not_results(who, f"an object with {', '.join(map(str, content)) or 'nothing'}"[:100])
    secs = np.array([value for _, value in found], dtype=np.float64)
    if not np.isfinite(secs).any():
        raise ConfigError(
            "holds no configuration that ran",
            who=who,
            got=f"{len(found)} results without a number for {objective!r}",
            expected="results with the objective that was tuned for",
            remedy="Name it as `objective`.",
        )
    with np.errstate(divide="ignore"):
        secs = np.where(secs > 0, 1 / secs if higher_is_better else secs, np.nan)
    return Results(tuple(config for config, _ in found), secs, device if isinstance(device, str) else None)


def _content(path: Path) -> Any:
    try:
        text = read_maybe_gzipped(path).decode("utf-8-sig").strip()
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        raise ConfigError("cannot be read", who=str(path), got=problem, expected="a JSON file") from error
    try:
        content = json_of(text)
    except ValueError as error:
        # Kernel Tuner appends to a cache, and closes its brackets only at the end.
        try:
            content = json.loads(text.rstrip(",") + "}\n}")
        except (ValueError, RecursionError):
            raise _not_results(str(path), f"{type(error).__name__}: {error}") from error
    if not isinstance(content, dict | list):
        raise _not_results(str(path), type(content).__name__)
    return content


def _not_results(who: str, got: str) -> ConfigError:
    return ConfigError(
        "is no file of Kernel Tuner's results",
        who=who,
        got=got,
        expected="a cache file (tune_kernel(..., cache=...)) or a T4 file (store_output_file)",
    )


def _of_line(line: object, objective: str) -> tuple[Mapping[str, Any], float]:
    """One result as Kernel Tuner has it in memory and in caches: parameters and measurements side by side."""
    if not isinstance(line, Mapping):
        raise _not_results("results of tune_kernel", f"a {type(line).__name__} among the results")
    value = line.get(objective)
    failed = _ERROR_KEY in line or any(str(v) in _ERRORS for v in line.values() if isinstance(v, str))
    return line, math.nan if failed else _number(value) * (_SECS[_USUAL_UNIT] if objective == "time" else 1.0)


def _of_t4(entry: object, objective: str, timeunit: str, who: str) -> tuple[Mapping[str, Any], float]:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("configuration"), Mapping):
        raise _not_results(who, "a result without a configuration")
    if entry.get("invalidity", "correct") != "correct":
        return entry["configuration"], math.nan
    for measured in _objects(entry.get("measurements")):
        if measured.get("name") == objective:
            is_time = objective.startswith("time")
            unit = str(measured.get("unit") or (timeunit if is_time else "")).strip()
            if is_time and unit.lower() not in _SECS:
                raise ConfigError(
                    "a time in a unit that is not known",
                    who=who,
                    got=repr(unit),
                    expected="s, ms, us or ns, or the words for them",
                )
            return entry["configuration"], _number(measured.get("value")) * _SECS.get(unit.lower(), 1.0)
    return entry["configuration"], math.nan


def _objects(found: object) -> Iterable[Mapping[str, Any]]:
    return (one for one in found if isinstance(one, Mapping)) if isinstance(found, list) else ()


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return math.nan
    try:
        number = float(value)
    except OverflowError:
        return math.nan
    return number if math.isfinite(number) else math.nan
