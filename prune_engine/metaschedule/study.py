"""Design spaces under the strategies that prune them, for any target and device: nothing is built or measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from prune_engine.errors import ConfigError, PluginContractError
from prune_engine.funnel import StrategyFailure
from prune_engine.metaschedule.materialise import Materialiser, module_to_json
from prune_engine.metaschedule.sketch_structure import structure_of
from prune_engine.metaschedule.study_device import StudyRequest, chosen_device
from prune_engine.metaschedule.workloads.loading import check_source, load_tasks
from prune_engine.pipeline import Pipeline
from prune_engine.plugins import PluginHost
from prune_engine.space import DesignSpace, Sketch
from prune_engine.strategies import Explorer, Rule, Strategy
from prune_engine.strategy_set import Strategies, load_strategies
from prune_engine.task import TuningTask
from prune_engine.verdicts import RuleKind


class Study:
    """The tasks of a model or workload for one device, the space of each, and the rules of its profile."""

    def __init__(self, request: StudyRequest, *, say: Callable[[str], None]) -> None:
        """Load plugins, choose target and profile, import the tasks. ``say`` is told of what is out of order.

        Raises ConfigError (an option or a workload name), TargetError, ProfileError and ModelImportError.
        """
        self._say, self._config = say, request.config
        check_source(request.what, request.shapes, request.dims)  # before anything that takes seconds
        self._host = PluginHost(request.config)
        self._host.load()
        self._told: set[str] = set()
        self._tell_failures()
        self._strategies: Strategies = load_strategies(self._host, request.config)
        self.device = chosen_device(request, self._host, say)
        self._tell_failures()
        self.tasks: Sequence[TuningTask] = load_tasks(
            request.what, self.device.target, shapes=request.shapes, dims=request.dims
        )
        if not self.tasks:
            raise ConfigError("holds no kernel to look at", who=request.what, expected="at least one operator")
        self._materialisers: dict[str, Materialiser] = {}

    @property
    def host(self) -> PluginHost:
        """Who loaded the plugins."""
        return self._host

    @property
    def explorer(self) -> Explorer:
        """The active explorer."""
        return self._strategies.explorer

    @property
    def judges_legality(self) -> bool:
        """Whether any LEGALITY rule is active."""
        active = (rule for rule in self._strategies.rules if rule.name not in self._config.disabled_rules)
        return any(rule.kind is RuleKind.LEGALITY for rule in active)

    @property
    def heuristics(self) -> frozenset[str]:
        """The names of the loaded rules that are guesses."""
        return frozenset(rule.name for rule in self._strategies.rules if rule.kind is RuleKind.HEURISTIC)

    def pipeline(
        self, keep: Callable[[Rule], bool] = lambda _: True, failures: dict[str, StrategyFailure] | None = None
    ) -> Pipeline:
        """The active rules that ``keep`` says True of, in the engine's order; ``failures`` is filled by name.

        The draft is that of the options, if they name one.
        """
        noted = {} if failures is None else failures

        def failed(strategy: Strategy, error: BaseException) -> None:
            noted[strategy.name] = StrategyFailure(_problem(error), getattr(strategy, "kind", None))
            self._strategy_failed(strategy, error)

        return Pipeline(
            rules=[rule for rule in self._strategies.rules if keep(rule)],
            draft_scorer=self._strategies.draft_scorer,
            verifier=None,
            selector=self._strategies.selector,
            profile=self.device.profile,
            config=self._config,
            on_failure=failed,
        )

    def materialiser(self, task: TuningTask) -> Materialiser:
        """A task's compiler. Raises SpaceError."""
        if task.task_id not in self._materialisers:
            self._materialisers[task.task_id] = Materialiser(task, self._config.seed)
        return self._materialisers[task.task_id]

    def space(self, task: TuningTask) -> DesignSpace:
        """A task's design space, unrestricted, with every registered symbol. Raises SpaceError."""
        return replace(self.materialiser(task).design_space(), symbols=self._strategies.symbols)

    def structure(self, sketch: Sketch) -> list[str]:
        """What a sketch's structure is, in phrases."""
        return structure_of(sketch)

    def module_json(self, task: TuningTask) -> str:
        """A task's IRModule, as ``tvm.ir.load_json`` reads it: what its traces are to be replayed on."""
        return module_to_json(task.mod)

    def tasks_named(self, wanted: str | None) -> list[tuple[int, TuningTask]]:
        """The tasks, each with its number from 1: all, or those of a name, a number or the first letters of an id.

        Raises ConfigError if there is none.
        """
        numbered = list(enumerate(self.tasks, 1))
        if wanted is None:
            return numbered
        found = [(n, t) for n, t in numbered if wanted in (t.name, str(n))]
        found = found or [(n, t) for n, t in numbered if len(wanted) >= 6 and t.task_id.startswith(wanted)]
        if not found:
            names = ", ".join(f"{n} ({t.name})" for n, t in numbered[:12])
            more = f" and {len(numbered) - 12} more" if len(numbered) > 12 else ""
            raise ConfigError("no such task", who="--task", got=repr(wanted), expected=f"one of: {names}{more}")
        return found

    def _strategy_failed(self, strategy: Strategy, error: BaseException) -> None:
        """Say so, once, and go on without it. Raises PluginError with ``strict``."""
        problem = _problem(error)
        why = problem if strategy.name in problem else f"strategy {strategy.name}: {problem}"
        self._say_once(f"warning: {why}; it is left out")
        self._host.fail(self._strategies.owners.get(strategy.name, strategy.name), why)

    def _tell_failures(self) -> None:
        for record in self._host.failed:
            self._say_once(f"warning: plugin {record.name} {record.summary}")

    def _say_once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._say(line)


def _problem(error: BaseException) -> str:
    return str(error) if isinstance(error, PluginContractError) else f"{type(error).__name__}: {error}"
