"""Every hook a plugin can implement, and the two markers. No logic.

Hooks *register strategy objects*; the engine orders and calls those. Arguments only ever grow, and a plugin
names only those it wants.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    import typer

    from prune_engine.config import EngineConfig
    from prune_engine.hardware.schema import HardwareProfile
    from prune_engine.lifecycle import EngineInfo, PruneSummary, TaskSummary
    from prune_engine.measurement import MeasuredCandidate
    from prune_engine.plugins import PluginRecord
    from prune_engine.store.base import Store
    from prune_engine.strategies import (
        DraftScorer,
        Explorer,
        Library,
        Rule,
        ScheduleTransfer,
        Selector,
        Verifier,
    )
    from prune_engine.symbols.table import SymbolDef
    from prune_engine.task import TuningTask
    from prune_engine.verdicts import Verdict

PROJECT = "prune_engine"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def register_rules(config: EngineConfig) -> Iterable[Rule]:  # type: ignore[empty-body]
    """Return rules. The engine runs LEGALITY before HEURISTIC, then by declared order, then by name."""


@hookspec
def register_explorers(config: EngineConfig) -> Iterable[Explorer]:  # type: ignore[empty-body]
    """Return explorers. One is active, named by ``config.explorer``."""


@hookspec
def register_draft_scorers(config: EngineConfig) -> Iterable[DraftScorer]:  # type: ignore[empty-body]
    """Return draft scorers. At most one is active, named by ``config.draft_scorer``."""


@hookspec
def register_verifiers(config: EngineConfig) -> Iterable[Verifier]:  # type: ignore[empty-body]
    """Return verifiers. At most one is active, named by ``config.verifier``."""


@hookspec
def register_selectors(config: EngineConfig) -> Iterable[Selector]:  # type: ignore[empty-body]
    """Return selectors. One is active, named by ``config.selector``."""


@hookspec
def register_transfers(config: EngineConfig) -> Iterable[ScheduleTransfer]:  # type: ignore[empty-body]
    """Return schedule transfers. All are asked, in declared order; their seeds are deduplicated."""


@hookspec
def register_libraries(config: EngineConfig) -> Iterable[Library]:  # type: ignore[empty-body]
    """Return libraries of tuned kernels that come with the plugin; not asked for without ``builtin_library``."""


@hookspec
def register_symbols(config: EngineConfig) -> Iterable[SymbolDef]:  # type: ignore[empty-body]
    """Return symbol definitions. Two of one name are an error."""


@hookspec
def register_hardware_profiles() -> Iterable[HardwareProfile]:  # type: ignore[empty-body]
    """Return computed profiles. YAML files need no hook."""


@hookspec
def register_commands(cli: typer.Typer) -> None:
    """Add commands to the command line."""


@hookspec(firstresult=True)
def resolve_hardware_profile(target: str, profiles: Mapping[str, HardwareProfile]) -> HardwareProfile | None:
    """Pick the profile for a target, or return None to leave it to others."""


@hookspec(firstresult=True)
def open_store(url: str) -> Store | None:
    """Open the store behind a URL, or return None if the URL is not yours."""


@hookspec(historic=True)
def engine_started(info: EngineInfo) -> None:
    """Told once per engine; plugins registered later hear of it too."""


@hookspec(historic=True)
def plugin_failed(record: PluginRecord) -> None:
    """Told for every plugin or strategy that failed and was set aside."""


@hookspec
def task_started(task: TuningTask) -> None:
    """Told before a task's first batch of this run."""


@hookspec
def batch_pruned(task: TuningTask, summary: PruneSummary) -> None:
    """Told after stages 1 to 5 of a batch."""


@hookspec
def batch_measured(task: TuningTask, measured: Sequence[MeasuredCandidate]) -> None:
    """Told after a batch was measured and stored."""


@hookspec
def task_finished(task: TuningTask, summary: TaskSummary) -> None:
    """Told when a task gets no more trials in this run."""


@hookspec
def explain_candidate(task: TuningTask, trail: Sequence[Verdict]) -> Iterable[str]:  # type: ignore[empty-body]
    """Return sentences that add to the explanation of a candidate's verdicts."""
