"""Checks on what strategies return: PluginContractError names the strategy, what came and what was due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prune_engine.candidates import CandidateBatch
from prune_engine.errors import PluginContractError
from prune_engine.read_only import ReadOnlyDict, own_copy
from prune_engine.space import DesignSpace, Int32Array, SpaceRestriction
from prune_engine.strategies import Seeds, TransferProposal
from prune_engine.verdicts import BoolArray, DraftScores, Selection, SelectionReason, VerifyScores

#: What a strategy may raise without ending the run. A KeyboardInterrupt is the user's, so it is not among them.
STRATEGY_FAILURES = (Exception, SystemExit)

_ASKED = "its question about fitness"


def check_mask(strategy: str, mask: object, n: int) -> BoolArray:
    """A rule's mask: bool (n,)."""
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (n,):
        raise _error(strategy, "mask", mask, f"bool ({n},)")
    return mask


def check_restriction(strategy: str, restriction: object, space: DesignSpace) -> SpaceRestriction:
    """A rule's restriction: known variables, bool (m,) each, and something left of the space."""
    if not isinstance(restriction, SpaceRestriction):
        raise _error(strategy, "restriction", restriction, "SpaceRestriction or None")
    for (s, v), keep in restriction.keep.items():
        if not 0 <= s < len(space.sketches) or not 0 <= v < len(space.sketches[s].variables):
            raise _error(strategy, "restriction", f"sketch {s}, variable {v}", "a variable of the space")
        m = len(space.sketches[s].variables[v].table)
        if not isinstance(keep, np.ndarray) or keep.dtype != np.bool_ or keep.shape != (m,):
            raise _error(strategy, "restriction", keep, f"bool ({m},)")
    if space.size and not space.restrict(restriction).size:
        raise _error(strategy, "restriction", f"none of {space.size} candidates left", "at least one left")
    return restriction


def check_draft(strategy: str, scores: object, n: int) -> DraftScores:
    """A draft: scores float64 (n,), finite, >= 0; latencies > 0, penalties in (0, 1]; all columns of length n."""
    if not isinstance(scores, DraftScores):
        raise _error(strategy, "score", scores, "DraftScores")
    _check_scores(strategy, scores.scores, n)
    for name, symbol in scores.symbols.items():
        _check_numbers(strategy, f"symbol {name}", symbol, n)
    for name, penalty in scores.penalties.items():
        _check_numbers(strategy, f"penalty {name}", penalty, n)
        _check_range(strategy, f"penalty {name}", penalty, (penalty > 0) & (penalty <= 1), "values in (0, 1]")
    if scores.latency_secs is not None:
        _check_numbers(strategy, "latency_secs", scores.latency_secs, n, np.dtype(np.float64))
        secs = scores.latency_secs
        _check_range(strategy, "latency_secs", secs, (secs > 0) & np.isfinite(secs), "finite values > 0")
    # Copies: a verifier is shown them, and the draft may write its next answer into the same memory.
    return DraftScores(
        own_copy(scores.scores),
        None if scores.latency_secs is None else own_copy(scores.latency_secs),
        ReadOnlyDict({name: own_copy(column) for name, column in scores.symbols.items()}),
        ReadOnlyDict({name: own_copy(column) for name, column in scores.penalties.items()}),
    )


def check_verify(strategy: str, scores: object, n: int) -> VerifyScores:
    """A verifier's scores: float64 (n,), finite, >= 0; probabilities in [0, 1]; kinship int32 (n, t)."""
    if not isinstance(scores, VerifyScores):
        raise _error(strategy, "score", scores, "VerifyScores")
    _check_scores(strategy, scores.scores, n)
    probs = scores.degradation_prob
    _check_numbers(strategy, "degradation_prob", probs, n, np.dtype(np.float64))
    _check_range(strategy, "degradation_prob", probs, (probs >= 0) & (probs <= 1), "values in [0, 1]")
    if not isinstance(scores.skip_above, float | int) or not 0 <= scores.skip_above <= 1:
        raise _error(strategy, "skip_above", repr(scores.skip_above), "a number in [0, 1]")
    if not isinstance(scores.skip_basis, str) or "\n" in scores.skip_basis:
        raise _error(strategy, "skip_basis", repr(scores.skip_basis), "a line of text")
    kinship = scores.kinship
    if kinship is not None and not (
        isinstance(kinship, np.ndarray) and kinship.dtype == np.int32 and kinship.ndim == 2 and len(kinship) == n
    ):
        raise _error(strategy, "kinship", kinship, f"int32 ({n}, t) or None")
    return replace(
        scores,
        scores=own_copy(scores.scores),
        degradation_prob=own_copy(probs),
        kinship=None if kinship is None else own_copy(kinship),
    )


def check_batches(strategy: str, batches: object, space: DesignSpace) -> tuple[CandidateBatch, ...]:
    """An explorer's or a transfer's proposal: batches of this space, indices within the allowed rows.

    They come back with the space's own sketches, so that a strategy's copy of one can do no harm.
    """
    if isinstance(batches, str) or not isinstance(batches, Sequence):
        raise _error(strategy, "propose", batches, "a sequence of CandidateBatch")
    checked = []
    for batch in batches:
        if not isinstance(batch, CandidateBatch):
            raise _error(strategy, "propose", batch, "a sequence of CandidateBatch")
        if batch.space.task.task_id != space.task.task_id:
            raise _error(strategy, "propose", f"a batch of task {batch.space.task.name}", space.task.name)
        index = batch.sketch.index
        if not 0 <= index < len(space.sketches) or batch.sketch.sketch_id != space.sketches[index].sketch_id:
            raise _error(strategy, "propose", f"sketch {index} {batch.sketch.sketch_id}", "a sketch of the space")
        _check_indices(strategy, batch.indices, space, index)
        checked.append(CandidateBatch(space, space.sketches[index], batch.indices))
    return tuple(checked)


def check_transfer(strategy: str, proposal: object, space: DesignSpace, limit: int) -> TransferProposal:
    """A transfer's proposal: seeds of this space, a source, a policy and a preference each, at most ``limit``."""
    if not isinstance(proposal, TransferProposal):
        raise _error(strategy, "propose", proposal, "TransferProposal")
    if not all(isinstance(one, Seeds) for one in proposal.seeds):
        raise _error(strategy, "propose", proposal.seeds, "Seeds")
    batches = check_batches(strategy, [one.batch for one in proposal.seeds], space)
    n = sum(map(len, batches)) + len(proposal.rewritten)
    if n > limit:
        raise _error(strategy, "propose", f"{n} seeds", f"at most {limit}")
    if len({batch.sketch.index for batch in batches}) < len(batches):
        raise _error(strategy, "propose", "several batches of one sketch", "at most one per sketch")
    for one in proposal.seeds:
        preference = one.preference
        if not isinstance(preference, np.ndarray) or preference.shape != (len(one.batch),):
            raise _error(strategy, "propose", preference, f"preference float64 ({len(one.batch)},)")
        if not np.isfinite(preference).all():
            raise _error(strategy, "propose", preference, "finite preferences")
        if not len(one.sources) == len(one.policies) == len(one.batch):
            got = f"{len(one.sources)} sources and {len(one.policies)} policies"
            raise _error(strategy, "propose", got, f"{len(one.batch)} of each")
    checked = (replace(one, batch=batch) for one, batch in zip(proposal.seeds, batches, strict=True))
    return replace(proposal, seeds=tuple(checked))


def check_asked(strategy: str, batch: object, space: DesignSpace) -> None:
    """What an explorer asks the fitness of: a batch of this space, rows of its choice tables, the cut ones too."""
    if not isinstance(batch, CandidateBatch):
        raise _error(strategy, _ASKED, batch, "a CandidateBatch")
    index = batch.sketch.index
    is_known = batch.space.task.task_id == space.task.task_id and 0 <= index < len(space.sketches)
    if not is_known or batch.sketch.sketch_id != space.sketches[index].sketch_id:
        raise _error(strategy, _ASKED, f"sketch {index} of task {batch.space.task.name}", "a sketch of the space")
    sizes = np.array([len(variable.table) for variable in batch.sketch.variables])
    # Looked at on every call, so only the bounds are: a row that was cut does no harm.
    outside = (batch.indices < 0) | (batch.indices >= sizes)
    if outside.any():
        row, variable = np.argwhere(outside)[0]
        name = batch.sketch.variables[variable].name
        found = f"row {batch.indices[row, variable]} of {name}"
        raise _error(strategy, _ASKED, found, f"rows of its choice table, 0 to {sizes[variable] - 1}")


def check_selection(strategy: str, selection: object, n: int, k: int) -> Selection:
    """A selection: at most k distinct positions below n, a reason each; something where there is something."""
    if not isinstance(selection, Selection):
        raise _error(strategy, "select", selection, "Selection")
    indices = selection.indices
    if not isinstance(indices, np.ndarray) or indices.ndim != 1 or not np.issubdtype(indices.dtype, np.integer):
        raise _error(strategy, "select", indices, f"int64 (<= {k},)")
    if len(indices) > k or len(selection.reasons) != len(indices) or len(np.unique(indices)) != len(indices):
        raise _error(strategy, "select", indices, f"at most {k} distinct positions with a reason each")
    if len(indices) and not (indices.min() >= 0 and indices.max() < n):
        raise _error(strategy, "select", f"positions {indices.min()} to {indices.max()}", f"positions below {n}")
    if not all(isinstance(reason, SelectionReason) for reason in selection.reasons):
        raise _error(strategy, "select", f"reasons {selection.reasons}", "a SelectionReason each")
    if not len(indices) and min(n, k):
        raise _error(strategy, "select", f"nothing out of {n}", f"between 1 and {min(n, k)} positions")
    return Selection(indices.astype(np.int64), tuple(selection.reasons))


def _check_indices(strategy: str, indices: Int32Array, space: DesignSpace, sketch: int) -> None:
    variables = space.sketches[sketch].variables
    if indices.shape[1] != len(variables):
        raise _error(strategy, "propose", indices, f"int32 (n, {len(variables)})")
    for v, variable in enumerate(variables):
        if len(indices) and not np.isin(indices[:, v], variable.rows).all():
            raise _error(strategy, "propose", f"rows of {variable.name} that are not allowed", "allowed rows")


def _check_scores(strategy: str, scores: object, n: int) -> None:
    if not isinstance(scores, np.ndarray) or scores.shape != (n,) or scores.dtype != np.float64:
        raise _error(strategy, "score", scores, f"float64 ({n},)")
    if not np.isfinite(scores).all() or (scores < 0).any():
        raise _error(strategy, "score", "NaN, infinite or negative values", "finite values >= 0")


def _check_numbers(strategy: str, what: str, column: object, n: int, dtype: np.dtype[Any] | None = None) -> None:
    """A column of numbers, of one dtype if that is given."""
    is_column = isinstance(column, np.ndarray) and column.shape == (n,) and column.dtype.kind in "iuf"
    if not is_column or (dtype is not None and column.dtype != dtype):  # type: ignore[attr-defined]
        raise _error(strategy, what, column, f"{dtype or 'numbers'} ({n},)")


def _check_range(strategy: str, what: str, column: NDArray[Any], is_within: BoolArray, expected: str) -> None:
    if not is_within.all():
        raise _error(strategy, what, f"values from {column.min()} to {column.max()}", expected)


def _error(strategy: str, what: str, got: object, expected: str) -> PluginContractError:
    if isinstance(got, np.ndarray):
        got = f"{got.dtype} {got.shape}"
    elif not isinstance(got, str):
        got = type(got).__name__
    return PluginContractError(
        f"{what} broke its contract",
        who=f"strategy {strategy}",
        got=got,
        expected=expected,
        remedy="Report it to the plugin's author, or block the plugin.",
    )
