"""`prune` and `candidates` as functions: spaces that are looked at, while nothing is built or measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prune_engine.api.model_sources import Model, named
from prune_engine.api.progress import LOGGER
from prune_engine.api.requests import PathLike, at_least_one, search_config, study_request
from prune_engine.candidates import Candidate
from prune_engine.errors import SpaceError
from prune_engine.option_names import python_names

if TYPE_CHECKING:
    from prune_engine.census import Census
    from prune_engine.config import EngineConfig
    from prune_engine.funnel import StrategyFailure
    from prune_engine.metaschedule.materialise import Materialiser
    from prune_engine.metaschedule.study import Study
    from prune_engine.space import DesignSpace
    from prune_engine.task import TuningTask

#: Candidates drawn from a space that is too large to be judged completely.
DEFAULT_SAMPLES = 200_000


@dataclass(frozen=True, slots=True)
class PrunedSpace:
    """What rules leave of a kernel's design space.

    ``census`` has sizes, shares and the funnel, a step per rule; it is None where no space could be made, and
    ``error`` says why. Of ``n_sketches`` structures ``n_interpreted`` could be read. ``failed_rules`` says of rules
    that were done without why. ``profile`` names the device.
    """

    task: str
    task_id: str
    profile: str
    census: Census | None
    error: str | None = None
    n_sketches: int = 0
    n_interpreted: int = 0
    failed_rules: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Candidates in the whole space, 0 where there is none."""
        return self.census.full_size if self.census else 0

    @property
    def legal_share(self) -> float | None:
        """The share that can run, of what could be judged; None where nobody judged it."""
        legal = self.census.legal if self.census else None
        return legal.value if legal else None

    @property
    def kept_share(self) -> float | None:
        """The share of the whole space that every rule keeps, None where nothing could be judged."""
        return self.census.kept_of_space if self.census else None


@dataclass(frozen=True)
class ListedCandidate:
    """A legal candidate. ``decisions`` and ``symbols`` are by name, the latter what is worth a look.

    ``trace`` is TVM's trace before post-processing, as JSON text.
    """

    task: str
    task_id: str
    candidate_id: str
    decisions: Mapping[str, int | list[int]]
    symbols: Mapping[str, float] = field(repr=False)
    trace: str = field(repr=False)
    _candidate: Candidate = field(repr=False)
    _space: DesignSpace = field(repr=False)
    _materialiser: Materialiser = field(repr=False)

    def schedule(self) -> Any:
        """TVM's Schedule, post-processed: 1 to 3 ms. Raises SpaceError where the compiler refuses it."""
        from prune_engine.metaschedule.elsewhere import schedule_of

        return schedule_of(self._materialiser, self._space, self._candidate)

    def module(self) -> Any:
        """The IRModule to build, post-processed. Raises SpaceError as `schedule` does."""
        return self.schedule().mod


def prune(
    what: Model,
    *,
    profile: PathLike | None = None,
    target: str | None = None,
    threads: int | None = None,
    task: str | int | None = None,
    samples: int = DEFAULT_SAMPLES,
    seed: int = 0,
    shape: Mapping[str, Sequence[int]] | None = None,
    dim: Mapping[str, int] | None = None,
    disabled_rules: Sequence[str] = (),
    blocked_plugins: Sequence[str] = (),
    plugin_files: Sequence[PathLike] = (),
    strict: bool = False,
) -> list[PrunedSpace]:
    """What the rules leave of each kernel's design space: `prune-engine prune` as a function.

    Args:
        what: a workload such as "gemm:512x512x512", a model or a module, as `tune` takes them.
        profile: the device, by default that of the target; ``target``: by default the profile's.
        task: one kernel only: its name, number or the first letters of its id.
        samples: candidates drawn from a space of more than 4 million; smaller ones are judged completely.

    The others are as in `tune`. Raises ConfigError and its kinds, and ModelImportError.
    """
    import numpy as np

    from prune_engine.census import take_census

    with python_names(), ExitStack() as stack:
        at_least_one("samples", samples)
        config = _study_config(seed, disabled_rules, blocked_plugins, plugin_files, strict)
        study = _study(stack, what, config, target, profile, threads, shape, dim)
        found = []
        for _, one in study.tasks_named(None if task is None else str(task)):
            failures: dict[str, StrategyFailure] = {}
            try:
                space = study.space(one)
            except SpaceError as error:
                found.append(PrunedSpace(one.name, one.task_id, study.device.profile.name, None, str(error)))
                continue
            census = take_census(
                study.pipeline(failures=failures),
                space,
                sample_size=int(samples),
                rng=np.random.default_rng(seed),
                failures=failures,
            )
            found.append(
                PrunedSpace(
                    task=one.name,
                    task_id=one.task_id,
                    profile=study.device.profile.name,
                    census=census,
                    n_sketches=len(space.sketches),
                    n_interpreted=sum(sketch.nests is not None for sketch in space.sketches),
                    failed_rules={name: failure.error for name, failure in failures.items()},
                )
            )
        return found


def list_candidates(
    what: Model,
    n: int = 512,
    *,
    target: str | None = None,
    profile: PathLike | None = None,
    threads: int | None = None,
    task: str | int | None = None,
    heuristics: bool = False,
    explorer: str = "explore.uniform",
    seed: int = 0,
    shape: Mapping[str, Sequence[int]] | None = None,
    dim: Mapping[str, int] | None = None,
    disabled_rules: Sequence[str] = (),
    blocked_plugins: Sequence[str] = (),
    plugin_files: Sequence[PathLike] = (),
    strict: bool = False,
) -> list[ListedCandidate]:
    """At most ``n`` distinct legal candidates of each kernel: `prune-engine candidates` as a function.

    With ``heuristics`` guesses are applied, too. The others are as in `prune`.

    Raises SpaceError if no kernel has one; ConfigError and its kinds, and ModelImportError.
    """
    with python_names(), ExitStack() as stack:
        at_least_one("n", n)
        config = _study_config(seed, disabled_rules, blocked_plugins, plugin_files, strict, explorer)
        study = _study(stack, what, config, target, profile, threads, shape, dim)
        tasks = study.tasks_named(None if task is None else str(task))
        found = [listed for _, one in tasks for listed in _listed(study, one, int(n), heuristics, seed)]
        if not found:
            raise SpaceError(
                "no legal candidate was found",
                who=", ".join(one.name for _, one in tasks)[:200],
                expected="at least one that the target can run",
                remedy="`prune` with the same arguments tells which rule cuts how many.",
            )
        return found


def _listed(study: Study, task: TuningTask, n: int, heuristics: bool, seed: int) -> list[ListedCandidate]:
    import numpy as np

    from prune_engine.metaschedule.candidate_lines import candidate_lines, compiler_check
    from prune_engine.proposals import Proposer
    from prune_engine.verdicts import RuleKind

    try:
        space = study.space(task)
    except SpaceError as error:
        LOGGER.warning("%s: %s", task.name, error)
        return []
    materialiser = study.materialiser(task)
    proposals = Proposer(
        space,
        study.pipeline(lambda rule: heuristics or rule.kind is RuleKind.LEGALITY),
        study.explorer,
        compiler_check(materialiser, space),
        np.random.default_rng(seed),
    ).propose(n)
    found = []
    for line, owner, row in zip(candidate_lines(proposals, task), proposals.owners, proposals.rows, strict=True):
        record = json.loads(line)
        found.append(
            ListedCandidate(
                task=task.name,
                task_id=task.task_id,
                candidate_id=record["candidate_id"],
                decisions=record["decisions"],
                symbols=record["symbols"],
                trace=json.dumps(record["trace"], separators=(",", ":")),
                _candidate=proposals.batches[owner].candidate(int(row)),
                _space=space,
                _materialiser=materialiser,
            )
        )
    return found


def _study_config(
    seed: int,
    disabled_rules: Sequence[str],
    blocked_plugins: Sequence[str],
    plugin_files: Sequence[PathLike],
    strict: bool,
    explorer: str = "explore.uniform",
) -> EngineConfig:
    return search_config(
        seconds=None,
        draft=None,
        verifier=None,
        seed=seed,
        disabled_rules=disabled_rules,
        blocked_plugins=blocked_plugins,
        plugin_files=plugin_files,
        strict=strict,
        explorer=explorer,
    )


def _study(
    stack: ExitStack,
    what: Model,
    config: EngineConfig,
    target: str | None,
    profile: PathLike | None,
    threads: int | None,
    shape: Mapping[str, Sequence[int]] | None,
    dim: Mapping[str, int] | None,
) -> Study:
    """Open a study; a model that is in memory lies in a file as long as ``stack`` is open."""
    from prune_engine.metaschedule.study import Study

    source = stack.enter_context(named(what))
    request = study_request(source, config, target=target, profile=profile, threads=threads, shape=shape, dim=dim)
    return Study(request, say=lambda line: LOGGER.warning("%s", line.removeprefix("warning: ")))
