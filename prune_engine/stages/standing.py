"""Which strategies are still used: one that failed is set aside for the run, a rule may be off for one task."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from prune_engine.errors import PluginContractError
from prune_engine.plugin_host import call_guard
from prune_engine.strategies import Rule, Strategy

P = ParamSpec("P")
T = TypeVar("T")

#: Told of a strategy that raised; may raise itself to stop the run.
OnFailure = Callable[[Strategy, BaseException], None]


class Standing:
    """What the stages ask before they ask a strategy."""

    def __init__(self, on_failure: OnFailure, limit_secs: float | None = None) -> None:
        """``limit_secs`` is what one call of a strategy may take, None sets no limit."""
        self.on_failure, self._limit_secs = on_failure, limit_secs
        self._aside: set[str] = set()
        self._off: set[tuple[str, str]] = set()

    def ask(self, strategy: Strategy, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function of a strategy, see `call_guard.call`."""
        return call_guard.call(f"strategy {strategy.name}", self._limit_secs, function, *args, **kwargs)

    def is_active(self, strategy: Strategy) -> bool:
        """Whether a strategy is still used: it never failed."""
        return strategy.name not in self._aside

    def set_aside(self, strategy: Strategy, error: BaseException) -> None:
        """Use a strategy no more in this run, and report why."""
        self._aside.add(strategy.name)
        self.on_failure(strategy, error)

    def is_used(self, rule: Rule, task_id: str) -> bool:
        """Whether a rule judges candidates of a task."""
        return rule.name not in self._aside and (rule.name, task_id) not in self._off

    def switch_off(self, rule_name: str, task_id: str) -> None:
        """Let a rule judge no more candidates of a task."""
        self._off.add((rule_name, task_id))


def as_contract_error(strategy: Strategy, error: BaseException) -> PluginContractError:
    """What a strategy raised, as the error that ends a strict run."""
    if isinstance(error, PluginContractError):
        return error
    return PluginContractError(
        "raised an exception",
        who=f"strategy {strategy.name}",
        got=f"{type(error).__name__}: {error}",
        remedy="Report it to the plugin's author, block the plugin, or run without strict.",
    )


def problem_of(strategy: Strategy, error: BaseException) -> str:
    """What a strategy raised, in one sentence that names it."""
    problem = str(error) if isinstance(error, PluginContractError) else f"{type(error).__name__}: {error}"
    return problem if strategy.name in problem else f"strategy {strategy.name}: {problem}"
