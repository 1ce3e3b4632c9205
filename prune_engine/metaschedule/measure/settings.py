"""Options of the measuring processes."""

from __future__ import annotations

from dataclasses import dataclass, field

import psutil

from prune_engine.errors import ConfigError
from prune_engine.hardware.host import usable_cpus
from prune_engine.metaschedule.measure.timing import TimingPlan


def usable_cores() -> int:
    """How many processors this process may run on, which in a container are fewer than the machine has."""
    return len(usable_cpus())


def default_memory_limit_bytes() -> int:
    """Half of the machine's memory: one candidate must never be able to bring the machine down."""
    return int(psutil.virtual_memory().total // 2)


@dataclass(frozen=True, slots=True)
class MeasureSettings:
    """How candidates are built and run.

    ``target`` is TVM's target as JSON text. ``n_threads`` is what every kernel runs on. Timeouts exclude
    the time a process was paused for somebody else's timing; a task's default schedule gets
    ``default_schedule_patience`` times as long, because an untuned kernel may be very slow and without it
    there is nothing to check the others against. Once ``typical_builds`` builds of a task are done, a build
    that takes ``slow_build_ratio`` times their median is given up, though never before
    ``min_build_timeout_secs``: hugely unrolled code takes a processor for as long as dozens of others.
    ``memory_limit_bytes`` counts what a build or a kernel with its arguments allocates on top of the
    compiler that is already in memory. ``seed`` makes the inputs. ``flush_cache`` evicts the arguments from
    the processor's caches before every timed call; ``pin_cpus`` keeps kernels on the same ``n_threads``
    processors. With ``hold_against_pace`` latencies are as at the pace of the start (`pace`). ``fp_tolerance`` is
    the relative error that is accepted of floating-point results; None is what suits their type. Once an untuned
    kernel has run for ``stress_budget_secs`` on inputs that are hard on numbers, it is tried on no more of them.
    """

    target: str
    n_threads: int
    n_builders: int = field(default_factory=usable_cores)
    build_timeout_secs: float = 20.0
    typical_builds: int = 8
    slow_build_ratio: float = 16.0
    min_build_timeout_secs: float = 4.0
    run_timeout_secs: float = 10.0
    default_schedule_patience: float = 6.0
    memory_limit_bytes: int = field(default_factory=default_memory_limit_bytes)
    flush_cache: bool = False
    pin_cpus: bool = True
    hold_against_pace: bool = True
    fp_tolerance: float | None = None
    stress_budget_secs: float = 1.0
    seed: int = 0
    start_timeout_secs: float = 120.0
    timing: TimingPlan = field(default_factory=TimingPlan)

    def __post_init__(self) -> None:
        for name in ("n_threads", "n_builders", "build_timeout_secs", "run_timeout_secs", "memory_limit_bytes"):
            if getattr(self, name) <= 0:
                raise ConfigError(
                    f"{name} must be positive", who="measurement settings", got=getattr(self, name), expected="> 0"
                )
