"""Ask and tell: the engine's search for those who measure by themselves."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from prune_engine.api.model_sources import Model
from prune_engine.api.progress import watched
from prune_engine.api.requests import PathLike, at_least_one, path_text, search_config
from prune_engine.api.search_candidates import Best, SearchCandidate, decisions_by_name
from prune_engine.api.search_places import Place, place_of_model, place_of_space
from prune_engine.candidates import Candidate
from prune_engine.errors import TellError
from prune_engine.measurement import MeasureError, MeasureErrorKind, WritesSchedules
from prune_engine.option_names import python_names
from prune_engine.space import DesignSpace

if TYPE_CHECKING:
    from prune_engine.hardware.schema import HardwareProfile
    from prune_engine.loop.steps import Proposal
    from prune_engine.own_kernels.own_spaces import Value
    from prune_engine.task import TuningTask

#: What is searched: a model or workload, a space, or the values of parameters by name.
Searched: TypeAlias = "Model | DesignSpace | Mapping[str, Sequence[Value]]"


class Search:
    """A search that proposes candidates, and is told how fast they are. Use it as a context manager, or close it.

    ::

        search = Search("gemm:512x512x512", profile="auto", seed=0)
        while not search.is_finished:
            for candidate in search.ask(8):
                search.tell(candidate, run_secs=measure(candidate.module()))
        print(search.best)

    Results may be told in any order, in parts, and after more was asked for. No candidate is proposed twice; one
    that is never told only costs its place. The same seed, questions and answers give the same search.
    Threads may share one: they take turns.
    """

    def __init__(
        self,
        what: Searched,
        *,
        target: str | None = None,
        profile: PathLike | None = None,
        threads: int | None = None,
        shape: Mapping[str, Sequence[int]] | None = None,
        dim: Mapping[str, int] | None = None,
        task: str | int | None = None,
        name: str = "search",
        symbols: Mapping[str, Any] | None = None,
        store: PathLike | None = None,
        device: str | None = None,
        seed: int = 0,
        plateau: int = 96,
        explorer: str = "explore.evolution",
        draft: str | None = "draft.symbols",
        verifier: str | None = "lightgbm.residual",
        selector: str = "select.diverse",
        prior: PathLike = "builtin",
        disabled_rules: Sequence[str] = (),
        blocked_plugins: Sequence[str] = (),
        plugin_files: Sequence[PathLike] = (),
        transfer: bool = True,
        builtin_library: bool = True,
        strict: bool = False,
    ) -> None:
        """Open the space, and take in what the store has of it.

        Args:
            what: a workload such as "gemm:512x512x512", a model or module as `tune` takes them; a `DesignSpace`; or
                parameters with their values, {"block": [32, 64], "unroll": [1, 2, 4]}.
            target: TVM's target, native or a GPU such as cuda/a100; by default the profile's. ``profile``: the
                hardware profile, by default that of the target's device; of this machine for a space of one's own.
            threads: that kernels run on; ``shape`` and ``dim``: as in `tune`.
            task: which kernel, by name, number or id, where there are several.
            name: of a space that is given by parameters: what is stored is kept under it. ``symbols``: what a
                candidate of it needs and does, such as {"shared_bytes_per_block": lambda c: 4 * c["block"]}.
            store: file or URL that keeps what is told, so that a later search goes on; in memory by default.
            device: what you measure on, by default the profile's name. What was told of another is not taken in.
            plateau: `is_finished` after so many results without gain.

        The others are as in `tune`. Nothing of TVM is needed for a space of one's own.

        Raises ConfigError and its kinds, ModelImportError, SpaceError where no space can be made, StoreError.
        """
        from prune_engine.engine import Engine
        from prune_engine.store.open import open_store

        with python_names():
            config = search_config(
                seconds=None,
                seed=seed,
                plateau_trials=plateau,
                explorer=explorer,
                draft=draft,
                verifier=verifier,
                selector=selector,
                prior=str(prior),
                disabled_rules=disabled_rules,
                blocked_plugins=blocked_plugins,
                plugin_files=plugin_files,
                transfer=transfer,
                builtin_library=builtin_library,
                strict=strict,
            )
            with watched(False, takes_signals=False) as (observer, _):
                if isinstance(what, DesignSpace | Mapping):
                    given = {"target": target, "shape": shape, "dim": dim, "task": task}
                    place = place_of_space(what, config, given, profile, threads, name, symbols, device)
                else:
                    place = place_of_model(
                        what,
                        config,
                        observer.on_status,
                        target=target,
                        profile=profile,
                        threads=threads,
                        shape=shape,
                        dim=dim,
                        task=None if task is None else str(task),
                        symbols=symbols,
                        device=device,
                    )
                self._place: Place = place
                self._store = open_store("sqlite://" if store is None else path_text("store", store))
                try:
                    engine = Engine(
                        config, place.bench, self._store, place.profile, host=place.host, observer=observer
                    )
                    self._steps = engine.steps(place.task)
                except BaseException:
                    self._store.close()
                    raise
        self._is_closed = False
        self._lock = threading.RLock()
        self._asked: dict[str, SearchCandidate] = {}

    def ask(self, n: int = 1) -> list[SearchCandidate]:
        """At most ``n`` new candidates, the most promising first where anybody can say; [] if none is left.

        Learns what was told since the last call. May be called before that was told which is pending.
        """
        with self._lock, python_names():
            self._check_open()
            at_least_one("n", n)
            proposals = self._steps.ask(int(n))
            found = [self._made(proposal) for proposal in proposals]
            self._asked.update({one.candidate_id: one for one in found})
        return found

    def tell(
        self,
        candidate: SearchCandidate | str,
        *,
        run_secs: float | Iterable[float] | None = None,
        error: str | MeasureError | None = None,
    ) -> None:
        """Say how long one call of a candidate takes, or each of several repeats; or how it failed.

        ``candidate`` may be its id. It is in the store when this returns.

        Raises TellError for a candidate that is unknown or told already, seconds that are no positive finite
        numbers, and where there is neither a latency nor an error, or both. Nothing has changed then.
        """
        identity = candidate.candidate_id if isinstance(candidate, SearchCandidate) else candidate
        if not isinstance(identity, str):
            raise TellError(
                "is no candidate",
                who="tell",
                got=f"{type(candidate).__name__} {candidate!r}"[:80],
                expected="what ask returned, or its candidate_id",
            )
        if isinstance(error, str):
            error = MeasureError(MeasureErrorKind.RUN_ERROR, error or "it failed")
        elif error is not None and not isinstance(error, MeasureError):
            error = MeasureError(MeasureErrorKind.RUN_ERROR, f"{type(error).__name__}: {error}")
        with self._lock:
            self._check_open()
            secs = _seconds(identity, run_secs)
            text = self._text(identity) if secs else None
            self._steps.tell(identity, run_secs=secs, error=error, trace_json=text)

    def tell_untuned(self, run_secs: float | Iterable[float]) -> None:
        """Say how long the kernel takes as it is, untuned: `untuned_secs`. Reports tell gains against it.

        Raises TellError for what is no latency, and where it is known.
        """
        with self._lock:
            self._check_open()
            self._steps.tell_untuned(_seconds("untuned", run_secs))

    @property
    def untuned_secs(self) -> float | None:
        """What was told of the untuned kernel, in this search or an earlier one on the store; None if nothing."""
        return self._steps.state.default_secs

    @property
    def best(self) -> Best | None:
        """The fastest candidate told of, in this search or an earlier one on the store; None before the first."""
        best = self._steps.best
        if best is None:
            return None
        candidate = self._asked.get(best.candidate.candidate_id) or SearchCandidate(
            candidate=best.candidate,
            decisions=self._decisions(best.candidate),
            reason="",
            why="told in an earlier search",
            predicted_secs=None,
            predicted_by=None,
            _search=self,
        )
        return Best(candidate, best.latency_secs)

    @property
    def is_finished(self) -> bool:
        """Whether the engine would stop: ``stop_reason`` says why. `ask` goes on as long as there is anything."""
        return self._steps.stop_reason is not None

    @property
    def stop_reason(self) -> str | None:
        """exhausted, plateau, converged (the verifier expects no gain), transferred, nothing_to_tune; or None."""
        return self._steps.stop_reason

    @property
    def pending(self) -> tuple[str, ...]:
        """The ids of what was asked for and not told of, in that order."""
        return tuple(candidate.candidate_id for candidate in self._steps.pending)

    @property
    def n_told(self) -> int:
        """How many results are known, those of earlier searches on the store included."""
        return self._steps.state.n_trials

    @property
    def task(self) -> TuningTask:
        """The kernel, with TVM's module of it, if it is one of TVM's."""
        return self._place.task

    @property
    def space(self) -> DesignSpace:
        """What may be asked of, after rules cut what they are sure of or think little of."""
        return self._steps.state.space or self._place.space

    @property
    def profile(self) -> HardwareProfile:
        """The device that it is about."""
        return self._place.profile

    def close(self) -> None:
        """Close the store. What is pending is forgotten: another search may ask for it."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            try:
                self._steps.close()
            finally:
                self._store.close()

    def __enter__(self) -> Search:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        best = self.best
        told = f"{self.n_told} told, {len(self.pending)} pending"
        found = f", best {best.run_secs * 1e3:.3f} ms" if best else ""
        return f"<Search {self.task.name} on {self.profile.name}: {told}{found}>"

    def _made(self, proposal: Proposal) -> SearchCandidate:
        return SearchCandidate(
            candidate=proposal.candidate,
            decisions=self._decisions(proposal.candidate),
            reason=proposal.reason.value,
            why=proposal.why,
            predicted_secs=proposal.predicted_secs,
            predicted_by=proposal.predicted_by,
            _search=self,
        )

    def _decisions(self, candidate: Candidate) -> Mapping[str, Any]:
        return decisions_by_name(self._steps.state.bench_space, candidate)

    def _text(self, candidate_id: str) -> str | None:
        """The compiler's text of a pending candidate, for the store: whoever reads that can replay it."""
        bench = self._place.bench
        found = next((one for one in self._steps.pending if one.candidate_id == candidate_id), None)
        if found is None or not isinstance(bench, WritesSchedules):
            return None
        return bench.schedule_text(self._steps.state.bench_space, found)

    def _check_open(self) -> None:
        if self._is_closed:
            raise TellError("is closed", who="search", remedy="Open another one, with the same store.")


def _seconds(identity: str, run_secs: object) -> tuple[float, ...]:
    """Repeats as numbers; none for None. Raises TellError."""
    if run_secs is None:
        return ()
    is_several = isinstance(run_secs, Iterable) and not isinstance(run_secs, str | bytes)
    many: Any = run_secs if is_several else (run_secs,)
    try:
        found = tuple(map(_number, many))
    except (TypeError, ValueError, OverflowError) as error:
        raise TellError(
            "no latency",
            who=f"candidate {identity}",
            got=f"run_secs {run_secs!r}"[:80],
            expected="seconds of one call, or of several repeats",
        ) from error
    if not found:
        raise TellError(
            "no latency",
            who=f"candidate {identity}",
            got="no repeats",
            expected="at least one",
            remedy="Say error='...' of a candidate that failed.",
        )
    return found


def _number(value: Any) -> float:
    if isinstance(value, bool | str | bytes | bytearray):  # some of which float() would take
        raise TypeError("no number")
    return float(value)
