"""What a search hands out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from prune_engine.candidates import Candidate
from prune_engine.errors import SpaceError
from prune_engine.space import DesignSpace

if TYPE_CHECKING:
    from prune_engine.api.search import Search


@dataclass(frozen=True, eq=False)
class SearchCandidate:
    """A candidate to measure. Equal only to itself; ``candidate_id`` is the same in every search.

    ``decisions`` are by variable: a value, or the factors of a tile. ``reason`` is why it was chosen: top, explore,
    audit, probe, seed or whitelist, ``why`` the same in words. ``predicted_secs`` is the latency that
    ``predicted_by`` expects, None where nobody can say.
    """

    candidate: Candidate = field(repr=False)
    decisions: Mapping[str, Any]
    reason: str
    why: str
    predicted_secs: float | None
    predicted_by: str | None
    _search: Search = field(repr=False)

    @property
    def candidate_id(self) -> str:
        """What `Search.tell` and the store know it by."""
        return self.candidate.candidate_id

    @property
    def trace(self) -> str:
        """TVM's trace before post-processing, as JSON text. Raises SpaceError for a space that is not TVM's."""
        with self._search._lock:
            text: str = self._tvm.trace(self._space, self.candidate)
        return text

    def schedule(self) -> Any:
        """TVM's Schedule, post-processed: 1 to 3 ms. Raises SpaceError where the compiler refuses it."""
        with self._search._lock:
            return self._tvm.schedule(self._space, self.candidate)

    def module(self) -> Any:
        """The IRModule to build, post-processed. Raises SpaceError as `schedule` does."""
        return self.schedule().mod

    @property
    def _space(self) -> DesignSpace:
        return self._search._steps.state.bench_space

    @property
    def _tvm(self) -> Any:
        place = self._search._place
        if not place.is_tvm:
            raise SpaceError(
                "the space is not TVM's",
                who=f"space {self._search.task.name!r}",
                remedy="What a candidate is, is in its decisions.",
            )
        return place.bench


@dataclass(frozen=True, slots=True)
class Best:
    """The fastest candidate so far, and the median of what was told of it, in seconds."""

    candidate: SearchCandidate
    run_secs: float


def decisions_by_name(space: DesignSpace, candidate: Candidate) -> Mapping[str, Any]:
    """The decisions of a candidate by variable: as the space's owner gave them, or TVM's factors and values."""
    from prune_engine.own_kernels.given import Values

    sketch = space.sketches[candidate.sketch_index]
    found: dict[str, Any] = {}
    for number, (variable, decision) in enumerate(zip(sketch.variables, candidate.decisions, strict=True)):
        if isinstance(sketch.payload, Values):
            row = variable.index_of(decision)
            assert row is not None, "a candidate is of its space"
            found[variable.name] = sketch.payload.given[number][row]
        else:
            found[variable.name] = decision if len(decision) > 1 else decision[0]
    return MappingProxyType(found)
