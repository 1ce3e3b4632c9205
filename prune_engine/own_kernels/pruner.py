"""The engine without its loop: prune, order and learn for those who measure by themselves, whatever they tune."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prune_engine.candidates import Candidate, CandidateBatch, SeenRows, rows_of
from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError, ProfileError
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.hookspecs import hookimpl
from prune_engine.loop.teaching import Teacher
from prune_engine.measurement import MeasureError, MeasureErrorKind, Measurement
from prune_engine.own_kernels.given import work_out_given
from prune_engine.own_kernels.own_spaces import Decisions, batch_of, whole
from prune_engine.own_kernels.pruning import Pruned, batch_in, pruned
from prune_engine.pipeline import Pipeline
from prune_engine.plugin_host.blocked_names import check_blocked
from prune_engine.plugins import PluginHost
from prune_engine.space import DesignSpace
from prune_engine.stages.standing import as_contract_error, problem_of
from prune_engine.strategies import Rule, Strategy, Verifier
from prune_engine.strategy_set import load_strategies

_FAILED = MeasureError(MeasureErrorKind.RUN_ERROR, "its owner says that it failed")

#: Nothing is built here, and spaces are small enough for the verifier to look at all of it: a draft that misjudges
#: a kernel, as its owner's symbols may, would keep the best from it for good.
_DEFAULTS: Final[Mapping[str, object]] = {"build_aversion": 0.0, "draft_size": 1 << 16}
#: As long as so few were measured, more are drawn for what they teach.
_FEW = 16


class Pruner:
    """Rules, draft and verifier for one device, without compiler, store or measuring.

    Args:
        profile: what the candidates run on: a profile, its name, or the path of a YAML file.
        rules: rules of one's own, beside those of plugins.
        options: of `prune_engine.config.EngineConfig`, such as ``disabled_rules`` or ``prior``.
    """

    def __init__(
        self,
        profile: HardwareProfile | str | os.PathLike[str],
        *,
        rules: Sequence[Rule] = (),
        options: Mapping[str, object] | None = None,
    ) -> None:
        """Load the plugins. Raises ConfigError for a wrong option, ProfileError for a profile there is not."""
        if options is not None and not isinstance(options, Mapping):
            raise ConfigError(
                "are of the wrong type", who="options", got=repr(options)[:80], expected="a mapping, as {'seed': 1}"
            )
        self._config = EngineConfig.of(**{**_DEFAULTS, **(options or {})})
        check_blocked(self._config.blocked_plugins, self._config.plugin_files)
        host = PluginHost(self._config)
        host.load()
        if wrong := [rule for rule in rules if not isinstance(rule, Rule)]:
            raise ConfigError("is no rule", who="rules", got=repr(wrong[0])[:80], expected="objects of kind Rule")
        if rules:
            host.register(_OwnRules(rules), "rules of the caller")
        self._strategies = load_strategies(host, self._config)
        self.profile = _profile(profile, host)
        self._failures: dict[str, str] = {record.name: record.detail for record in host.failed}
        self._pipeline = Pipeline(
            rules=self._strategies.rules,
            draft_scorer=self._strategies.draft_scorer,
            verifier=self._strategies.verifier,
            selector=self._strategies.selector,
            profile=self.profile,
            config=self._config,
            on_failure=self._strategy_failed,
        )
        self._teacher = Teacher(self._strategies, self._pipeline, self.profile, self._strategy_failed)
        self._rng = np.random.default_rng(self._config.seed)

    def prune(self, space: DesignSpace, batch: CandidateBatch | Decisions | None = None) -> Pruned:
        """Say which candidates of a space to keep, why not the others, and in which order to try them.

        ``batch`` is a `CandidateBatch`, or decisions as `own_spaces.batch_of` takes them; None is the whole
        space. Row i of the result is candidate i. Nothing is measured.

        Raises ConfigError for candidates or given symbols that cannot be used, SpaceError for a space that is too
        large to be judged as a whole.
        """
        found = self._batch(space, batch)
        return pruned(self._pipeline, self._strategies.symbols, found, self._failures)

    def learn(self, space: DesignSpace, batch: CandidateBatch | Decisions | None, run_secs: ArrayLike) -> None:
        """Learn what was measured: ``run_secs[i]``, in seconds, is the time of row i, NaN or infinite if it failed.

        Draft and verifier are corrected by it for this space; the verifier ranks once it has enough to go by.
        Raises ConfigError for times of another number, or not above 0.
        """
        found, secs = self._adopted(self._batch(space, batch)), _numbers(run_secs, space)
        if secs.shape != (len(found),) or (secs <= 0).any():
            wrong = secs[secs <= 0][:1] if secs.shape == (len(found),) else secs.shape
            raise ConfigError(
                "cannot be learnt from",
                who=f"run times of {space.task.name!r}",
                got=str(wrong),
                expected=f"seconds > 0, ({len(found)},), NaN for a failure",
            )
        told = np.where(np.isfinite(secs), secs, np.nan).tolist()
        ids = (found.candidate(row).candidate_id for row in range(len(found)))
        lessons = [self._measured(one, value) for one, value in zip(ids, told, strict=True)]
        self._teacher.teach([(found, lessons)])

    def choose(
        self,
        space: DesignSpace,
        batch: CandidateBatch | Decisions | None,
        k: int,
        *,
        measured: Sequence[int] | NDArray[np.integer] = (),
    ) -> NDArray[np.int64]:
        """Choose at most ``k`` rows of a batch to measure next, int64 (k,): the best, some for what they teach.

        ``measured`` are rows that were measured. A share of what guesses drop may be among the chosen, as an audit.

        Raises ConfigError for candidates, a number or rows that there cannot be.
        """
        found = self._adopted(self._batch(space, batch))
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 0:
            raise ConfigError("is no number of candidates", who="k", got=repr(k), expected="a whole number >= 0")
        k = min(int(k), len(found))
        seen = SeenRows()
        seen.add(found.sketch.index, found.indices[_rows(measured, len(found))])
        left = np.flatnonzero(seen.unseen(found))
        share = self._config.first_probe_share if len(measured) < _FEW else self._config.probe_share
        n_probes = min(len(left), int(self._rng.binomial(k, share)))
        probes = found.take(np.sort(self._rng.choice(left, n_probes, replace=False))) if n_probes else None
        result = self._pipeline.run(
            [found], [] if probes is None else [probes], k, seen, self._rng, may_add_audits=False, may_overrule=True
        )
        return self._positions(found, result.candidates)

    def save(self, path: Path) -> bool:
        """Write what the verifier learnt to a file that ``prior`` takes, also of a `Pruner` for another device.

        Returns whether there is one: not without a verifier that takes priors, or if it was taught nothing.
        """
        return self._teacher.save(path)

    def _batch(self, space: DesignSpace, batch: CandidateBatch | Decisions | None) -> CandidateBatch:
        if not isinstance(space, DesignSpace):
            raise ConfigError("is no space", who="space", got=repr(space)[:80], expected="what own_space returns")
        if batch is None:
            return whole(space)
        return batch_in(space, batch) if isinstance(batch, CandidateBatch) else batch_of(space, batch)

    def _adopted(self, batch: CandidateBatch) -> CandidateBatch:
        space = replace(batch.space, symbols=self._strategies.symbols)
        adopted = CandidateBatch(space, space.sketches[batch.sketch.index], batch.indices)
        work_out_given(adopted)
        return adopted

    def _positions(self, batch: CandidateBatch, candidates: Sequence[Candidate]) -> NDArray[np.int64]:
        rows = [rows_of(batch.sketch, candidate.decisions) for candidate in candidates]
        found = [int((batch.indices == row).all(axis=1).argmax()) for row in rows if row is not None]
        return np.array(found, dtype=np.int64)

    def _measured(self, candidate_id: str, secs: float) -> Measurement:
        failed = bool(np.isnan(secs))
        return Measurement(
            candidate_id=candidate_id,
            run_secs=() if failed else (secs,),
            error=_FAILED if failed else None,
            build_secs=0.0,
            device_name=self.profile.name,
            n_threads=1,
            profile_digest=self.profile.digest(),
            measured_at=0.0,
            stage=2,
        )

    def _strategy_failed(self, strategy: Strategy, error: BaseException) -> None:
        """Go on without it, and say so in every result. A prior that cannot be read is the user's to mend."""
        if isinstance(strategy, Verifier) and isinstance(error, ConfigError):
            raise error
        if self._config.strict:
            strict_error = as_contract_error(strategy, error)
            raise strict_error from (None if strict_error is error else error)
        self._failures.setdefault(strategy.name, problem_of(strategy, error))


class _OwnRules:
    """Brings the caller's rules in as a plugin would."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = list(rules)

    @hookimpl
    def register_rules(self) -> list[Rule]:
        return self._rules


def _numbers(run_secs: ArrayLike, space: DesignSpace) -> NDArray[np.float64]:
    try:
        return np.asarray(run_secs, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(
            "cannot be learnt from",
            who=f"run times of {space.task.name!r}",
            got=str(error),
            expected="seconds > 0, NaN for a failure",
        ) from error


def _rows(measured: object, n: int) -> NDArray[np.int64]:
    """Rows of a batch of n, int64. Raises ConfigError."""
    rows = np.asarray(() if measured is None else measured)
    if rows.ndim != 1 or (rows.size and (rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= n)):
        raise ConfigError(
            "are no rows of the batch",
            who="measured",
            got=repr(measured)[:80],
            expected=f"numbers from 0 to {n - 1}",
        )
    return rows.astype(np.int64)


def _profile(profile: HardwareProfile | str | os.PathLike[str], host: PluginHost) -> HardwareProfile:
    if isinstance(profile, HardwareProfile):
        return profile
    if isinstance(profile, os.PathLike):
        profile = os.fspath(profile)
    if not isinstance(profile, str):
        raise ConfigError(
            "is of the wrong type",
            who="profile",
            got=f"{type(profile).__name__} {profile!r}"[:80],
            expected="a HardwareProfile, or the name or the YAML file of one as text",
        )
    collected = host.collect("register_hardware_profiles")
    computed = [(name, item) for name, item in collected if isinstance(item, HardwareProfile)]
    registry = ProfileRegistry(computed)
    try:
        return registry.resolve(profile)
    except ProfileError:
        # Plugins know devices by other names: those that their runtimes or compilers use.
        found = host.first("resolve_hardware_profile", target=profile, profiles=registry.profiles())
        if isinstance(found, HardwareProfile):
            return found
        raise
