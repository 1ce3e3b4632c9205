"""A workbench whose measuring is somebody else's: it knows spaces, and runs nothing."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence, Set

from prune_engine.candidates import Candidate
from prune_engine.measurement import Comparison, MeasuredCandidate
from prune_engine.space import DesignSpace
from prune_engine.task import TuningTask


class ElsewhereBench:
    """Implements `prune_engine.measurement.Workbench` for `Engine.steps`, with a space that is there already."""

    def __init__(self, space: DesignSpace, device_name: str, n_threads: int) -> None:
        self._space, self._device_name, self._n_threads = space, device_name, n_threads

    def design_space(self, task: TuningTask) -> DesignSpace:  # noqa: ARG002
        """The space given."""
        return self._space

    def device_name(self) -> str:
        """The name given."""
        return self._device_name

    def n_threads(self) -> int:
        """The number given."""
        return self._n_threads

    def refusal(self, space: DesignSpace, candidate: Candidate) -> str | None:  # noqa: ARG002
        """None: there is no compiler to ask."""
        return None

    def measure_defaults(self, tasks: Sequence[TuningTask]) -> Generator[tuple[TuningTask, MeasuredCandidate]]:
        """Not here."""
        raise NotImplementedError("candidates are measured elsewhere")

    def measure(
        self,
        space: DesignSpace,
        candidates: Sequence[Candidate],
        incumbent_secs: float | None,
        known_ids: Set[str] = frozenset(),
    ) -> Iterator[MeasuredCandidate]:
        """Not here."""
        raise NotImplementedError("candidates are measured elsewhere")

    def compare(self, space: DesignSpace, candidates: Sequence[Candidate | None]) -> Comparison:
        """Not here."""
        raise NotImplementedError("candidates are measured elsewhere")

    def close(self) -> None:
        """Nothing to stop."""
