"""The functions as other languages call them: arguments checked, handles in and out, arrays as tensors.

Their signatures are promised, see `abi`: arguments are only added, at the end, with a default.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm_ffi
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from prune_engine.errors import SpaceError
from prune_engine.ffi import abi
from prune_engine.ffi.answers import pruned_record, space_record
from prune_engine.ffi.arguments import TensorError, instance, json_object, plain_map, text
from prune_engine.ffi.handles import LOCK, Profile, Space, open_space
from prune_engine.ffi.options import checked
from prune_engine.ffi.sessions import Session
from prune_engine.ffi.table_spaces import check_declared
from prune_engine.ffi.tensors import columns, matrix, row_numbers, tensor_of
from prune_engine.space import Int32Array

#: What is registered, by name.
FUNCTIONS: dict[str, Callable[..., Any]] = {}
_PREFIX = "prune_engine."
_NO_OPTIONS = "{}"


class PruneOptions(BaseModel):
    """What a search is to find. ``explore_size`` candidates are looked at, at most ``count`` of them kept."""

    model_config = ConfigDict(extra="forbid", strict=True)

    count: int | None = Field(default=None, ge=1, le=1 << 20)
    explore_size: int = Field(default=2048, ge=1, le=1 << 20)
    seed: int = Field(default=0, ge=0, lt=2**31)


def _register(function: Callable[..., Any]) -> Callable[..., Any]:
    name = _PREFIX + "".join(part.capitalize() for part in function.__name__.split("_"))
    FUNCTIONS[name] = function
    return function


@_register
def abi_version() -> int:
    """The version of these functions, 1000 * major + minor."""
    return abi.abi_version()


@_register
def check_abi(version: int) -> None:
    """Raise prune_engine.AbiError unless a program built for this version can use these functions."""
    abi.check_abi(instance(version, int, "prune_engine.CheckAbi", "a version number"))


@_register
def load_profile(name_or_path: str, options: str = _NO_OPTIONS) -> Profile:
    """A hardware profile by name, by the path of a YAML file, or ``auto``, with the strategies that judge by it.

    ``options`` is a JSON object: ``threads``, ``draft_scorer``, ``disabled_rules``, ``blocked_plugins``,
    ``plugin_files``.
    """
    who = "prune_engine.LoadProfile"
    name = text(name_or_path, f"{who}, name_or_path", "the name or the path of a profile")
    with LOCK:
        return Profile(name, json_object(options, f"{who}, options"), who)


@_register
def describe_profile(profile: Profile) -> str:
    """The profile as JSON: ``profile``, ``found`` (where), ``rules``, ``draft_scorer``, ``failed_plugins``."""
    handle = _profile(profile, "prune_engine.DescribeProfile")
    strategies = handle.strategies
    return json.dumps(
        {
            "profile": handle.profile.model_dump(mode="json"),
            "found": handle.found,
            "rules": [
                {"name": rule.name, "kind": rule.kind.value}
                for rule in strategies.rules
                if rule.name not in handle.config.disabled_rules
            ],
            "draft_scorer": strategies.draft_scorer.name if strategies.draft_scorer else None,
            "failed_plugins": {record.name: record.summary for record in handle.failed_plugins},
        }
    )


@_register
def load_space(source: str | tvm_ffi.Map) -> Space:
    """A design space of a JSON object, or of a map with the same keys whose values may be TVM's objects.

    One of the keys ``workload``, ``module`` and ``sketches`` says what kind of space it is.
    """
    who = "prune_engine.LoadSpace"
    with LOCK:
        return open_space(plain_map(source, f"{who}, source"), who)


@_register
def describe_space(space: Space) -> str:
    """The space as JSON: its size, and of each sketch whether it was read, and its variables with their sizes."""
    return json.dumps(space_record(_space(space, "prune_engine.DescribeSpace")))


@_register
def choice_table(space: Space, sketch: int, variable: int) -> tvm_ffi.Tensor:
    """What the rows of a variable mean: int32 (m, p), m choices of p numbers."""
    who = "prune_engine.ChoiceTable"
    handle = _space(space, who)
    number = _number(sketch, len(handle.space.sketches), f"{who}, sketch")
    variables = handle.space.sketches[number].variables
    return tensor_of(variables[_number(variable, len(variables), f"{who}, variable")].table)


@_register
def rows_of_decisions(space: Space, decisions: tvm_ffi.Tensor, sketch: int = 0) -> tvm_ffi.Tensor:
    """Row numbers int32 (n, v) of decisions int32 (n, w): the numbers of all variables of a sketch side by side.

    Raises prune_engine.TensorError for a decision that its table does not hold.
    """
    who = "prune_engine.RowsOfDecisions"
    handle = _space(space, who)
    variables = handle.space.sketches[_number(sketch, len(handle.space.sketches), f"{who}, sketch")].variables
    numbers = matrix(decisions, sum(v.table.shape[1] for v in variables), f"{who}, decisions")
    rows = np.empty((len(numbers), len(variables)), dtype=np.int32)
    start = 0
    for at, variable in enumerate(variables):
        part = numbers[:, start : start + variable.table.shape[1]]
        start += variable.table.shape[1]
        # Few distinct choices among many candidates: each is looked up once.
        distinct, inverse = np.unique(part, axis=0, return_inverse=True)
        found = [variable.index_of(choice) for choice in distinct.tolist()]
        if None in found:
            row = int(np.flatnonzero(inverse.reshape(-1) == found.index(None))[0])
            raise TensorError(
                "a decision that is no choice of its variable",
                who=f"{who}, candidate {row}, variable {variable.name!r}",
                got=part[row].tolist(),
                expected=f"one of the {len(variable.table):,} rows of its choice table",
            )
        rows[:, at] = np.array(found, dtype=np.int32)[inverse.reshape(-1)]
    return tensor_of(rows)


@_register
def mask_candidates(
    space: Space,
    rows: tvm_ffi.Tensor,
    profile: Profile,
    sketch: int = 0,
    symbols: tvm_ffi.Map | None = None,
) -> tvm_ffi.Tensor:
    """What the rules say of candidates, uint8 (n,): bit 0 is set where one is legal, bit 1 where all rules keep it.

    ``rows`` int32 (n, v) are row numbers of the sketch's choice tables; ``symbols`` are columns (n,), int64 or
    float64, of symbols that the space declares.
    """
    with LOCK:
        session, indices, given = _asked(space, rows, profile, sketch, symbols, "prune_engine.MaskCandidates")
        return tensor_of(session.flags(sketch, indices, given) if len(indices) else np.empty(0, dtype=np.uint8))


@_register
def score_candidates(
    space: Space,
    rows: tvm_ffi.Tensor,
    profile: Profile,
    sketch: int = 0,
    symbols: tvm_ffi.Map | None = None,
) -> tvm_ffi.Tensor:
    """What a search may climb on, float64 (n,): 0 where a rule drops a candidate, else 1 / predicted seconds.

    Arguments as of MaskCandidates. All that are kept score 1 in a sketch that could not be read.
    """
    with LOCK:
        session, indices, given = _asked(space, rows, profile, sketch, symbols, "prune_engine.ScoreCandidates")
        return tensor_of(session.scores(sketch, indices, given) if len(indices) else np.empty(0))


@_register
def prune_search_space(space: Space | str | tvm_ffi.Map, profile: Profile | str, options: str = _NO_OPTIONS) -> str:
    """Search a space, or judge the candidates that came with it: JSON with ``kept`` and ``verdicts``.

    ``space`` and ``profile`` are handles, or what LoadSpace and LoadProfile take. ``options`` is a JSON object:
    ``count`` (64, or all that came with the space), ``explore_size``, ``seed``.
    """
    who = "prune_engine.PruneSearchSpace"
    with LOCK:
        chosen = checked(PruneOptions, json_object(options, f"{who}, options"), f"{who}, options")
        judge = load_profile(profile) if isinstance(profile, str) else _profile(profile, who)
        handle = space if isinstance(space, Space) else load_space(space)
        return json.dumps(pruned_record(handle, judge, chosen.count, chosen.explore_size, chosen.seed))


def _asked(
    space: object, rows: object, profile: object, sketch: object, symbols: object, who: str
) -> tuple[Session, Int32Array, dict[str, NDArray[Any]]]:
    """The arguments of a batch, checked: row numbers int32 (n, v), and symbols by name."""
    # What is as it must be costs no call: a batch meets this between milliseconds of other work.
    handle = space if isinstance(space, Space) else _space(space, who)
    judge = profile if isinstance(profile, Profile) else _profile(profile, who)
    limits = handle.row_limits
    if type(sketch) is int and 0 <= sketch < len(limits):
        number = sketch
    else:
        number = _number(sketch, len(limits), f"{who}, sketch")
    indices = row_numbers(rows, limits[number], f"{who}, rows")
    given: dict[str, NDArray[Any]] = {}
    if symbols is not None:
        given = columns(symbols, len(indices), f"{who}, symbols")
        check_declared(given, handle.declared, f"{who}, symbols")
    return judge.session(handle), indices, given


def _space(value: object, who: str) -> Space:
    return instance(value, Space, f"{who}, space", "a handle of LoadSpace")


def _profile(value: object, who: str) -> Profile:
    return instance(value, Profile, f"{who}, profile", "a handle of LoadProfile")


def _number(value: object, n: int, who: str) -> int:
    number = instance(value, int, who, "an integer")
    if not 0 <= number < n:
        raise SpaceError("there is none of this number", who=who, got=number, expected=f"0 to {n - 1}")
    return number
