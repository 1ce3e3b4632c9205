"""Candidates that crash, hang, multiply, hog, lie and vandalise, tuned by the true engine on the true pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
from kits.misbehaving import DTYPES, SHAPES, TARGET, Kernels
from reliability.figure import Figure

from prune_engine.candidates import Candidate
from prune_engine.config import EngineConfig
from prune_engine.engine import Engine
from prune_engine.measurement import Comparison, MeasuredCandidate, MeasureErrorKind, Measurement
from prune_engine.metaschedule.measure import BuildJob, MeasurePool, MeasureSettings
from prune_engine.metaschedule.measure.jobs import JobResult
from prune_engine.metaschedule.measure.linux import find_marked
from prune_engine.space import DesignSpace
from prune_engine.store.sql import SqlStore
from prune_engine.task import TuningTask
from prune_engine.testing import FakeWorkbench, make_profile, make_task

_MEMORY_LIMIT_BYTES = 256 << 20
_MAX_GROWTH_MIB = 50.0
_BATCH = 26
#: A tree of processes: each starts two more, and all of them stay. Bounded, so that a failed test harms nobody.
_BOMB = "b() { if [ $1 -gt 0 ]; then b $(($1-1)) & b $(($1-1)) & fi; sleep 9876.5; }; b 5"
#: One that flees: each process starts the next, in a session of its own, and ends.
_CHAIN = '[ "$1" -gt 0 ] && exec setsid -f sh "$0" $(($1-1))'

_KERNELS = Kernels()
_CRASH, _TIMEOUT = MeasureErrorKind.CRASH, MeasureErrorKind.RUN_TIMEOUT
_MEMORY, _WRONG = MeasureErrorKind.OUT_OF_MEMORY, MeasureErrorKind.WRONG_RESULT


@dataclass(frozen=True, slots=True)
class Poison:
    """A kind of bad kernel, and the error it must be told as; None where it computes the right thing after all."""

    name: str
    make: Callable[[str], BuildJob]
    error: MeasureErrorKind | None


def poisons(chain: Path) -> tuple[Poison, ...]:
    """Every kind; ``chain`` is the script of the one that flees."""
    shell, calling = _KERNELS.shell, _KERNELS.calling
    return (
        Poison("harmless", _KERNELS.plus, None),
        Poison("segmentation fault", lambda name: shell(name, "kill -SEGV $PPID"), _CRASH),
        Poison("abort", lambda name: calling(name, "abort"), _CRASH),
        Poison("hang", lambda name: calling(name, "pause"), _TIMEOUT),
        Poison("fork bomb", lambda name: shell(name, _BOMB), _TIMEOUT),
        Poison("fork bomb, detached", lambda n: shell(n, f"setsid sh -c '{_BOMB}' >/dev/null 2>&1 &"), None),
        Poison("process that flees", lambda name: shell(name, f"setsid -f sh {chain} 3000"), None),
        Poison("100 GiB at once", lambda name: _KERNELS.workspace(name, 100 << 30), _MEMORY),
        Poison("100 GiB by and by", lambda name: _KERNELS.growing(name, 1600, 64 << 20), _MEMORY),
        Poison("output of 20 MB", lambda name: _KERNELS.printing(name, "x" * 1000, 20_000), None),
        Poison("deletes its folder", lambda name: shell(name, "rm -rf $(readlink /proc/$PPID/cwd)"), None),
        Poison("wrong result", lambda name: _KERNELS.plus(name, 1.01), _WRONG),
        Poison("not a number", lambda name: _KERNELS.plus(name, float("nan")), _WRONG),
    )


#: Every so often one kills the server of the pool itself.
_SERVER_KILLER = Poison(
    "kills the server", lambda name: _KERNELS.shell(name, "kill -9 $(cut -d' ' -f4 /proc/$PPID/stat)"), _CRASH
)
_SERVER_KILLER_EVERY = 97


@dataclass
class PoisonedWorkbench(FakeWorkbench):
    """The fake's spaces, but what is measured are poisons, one kind after the other, on a pool."""

    pool: MeasurePool
    kinds: Sequence[Poison]
    given: dict[str, Poison] = field(default_factory=dict)
    on_batch: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        super().__init__()
        self._made: dict[str, BuildJob] = {}

    def measure_default(self, task: TuningTask) -> MeasuredCandidate:
        """The kernel that all the others are held against."""
        result = self.pool.open_task(task.task_id, self._job("default", self.kinds[0]), SHAPES, DTYPES)
        return MeasuredCandidate(None, self._told(result))

    def measure(
        self,
        space: DesignSpace,
        candidates: Sequence[Candidate],
        incumbent_secs: float | None,
        known_ids: Set[str] = frozenset(),
    ) -> Iterator[MeasuredCandidate]:
        """Give each candidate its poison."""
        self.on_batch()
        by_id = {c.candidate_id: c for c in candidates if c.candidate_id not in known_ids}
        for candidate_id in by_id:
            n = len(self.given) + 1
            is_killer = n % _SERVER_KILLER_EVERY == 0
            self.given[candidate_id] = _SERVER_KILLER if is_killer else self.kinds[n % len(self.kinds)]
        jobs = [self._job(i, self.given[i]) for i in by_id]
        for result in self.pool.measure(space.task.task_id, jobs, incumbent_secs):
            yield MeasuredCandidate(by_id[result.job_id], self._told(result))

    def compare(self, space: DesignSpace, candidates: Sequence[Candidate | None]) -> Comparison:
        """Time what did no harm in turns."""
        ids = [c.candidate_id if c else "default" for c in candidates]
        jobs = [self._job(i, self.given.get(i, self.kinds[0])) for i in ids]
        results = self.pool.compare(space.task.task_id, jobs)
        return Comparison(tuple(ids), tuple(r.run_secs for r in results), tuple(r.error for r in results))

    def _job(self, job_id: str, poison: Poison) -> BuildJob:
        if poison.name not in self._made:
            self._made[poison.name] = poison.make("any")
        return replace(self._made[poison.name], job_id=job_id)

    def _told(self, result: JobResult) -> Measurement:
        return Measurement(
            candidate_id=result.job_id,
            run_secs=result.run_secs,
            error=result.error,
            build_secs=result.build_secs,
            device_name=self.device_name(),
            n_threads=self.n_threads(),
            profile_digest="",
            measured_at=0.0,
            stage=result.stage,
            is_censored=result.is_censored,
        )


def measure(folder: Path, n: int, limit_secs: float) -> Figure:
    """Tune ``n`` poisoned candidates; ``folder`` is the temporary folder of this process, and empty.

    A hang costs ``limit_secs``; a machine under load must not take longer for the others.
    """
    chain = folder.parent / "chain.sh"
    chain.write_text(_CHAIN)
    own = psutil.Process()
    memory: list[Mapping[str, float]] = []
    pool = MeasurePool(
        MeasureSettings(
            target=TARGET,
            n_threads=1,
            n_builders=2,
            run_timeout_secs=limit_secs,
            memory_limit_bytes=_MEMORY_LIMIT_BYTES,
        )
    )
    bench = PoisonedWorkbench(pool, poisons(chain), on_batch=lambda: memory.append(_memory_mib(own)))
    config = EngineConfig.of(
        n_trials=n,
        batch_size=_BATCH,
        first_batch_size=_BATCH,
        explorer="explore.uniform",
        draft_scorer=None,
        verifier=None,
        selector="select.epsilon-greedy",
        plateau_trials=10**6,
        transfer=False,
        harvest=False,
    )
    task, store = make_task(), SqlStore("sqlite://")
    with pool:
        result = Engine(config, bench, store, make_profile()).run([task])
        pool_folder = str(pool._folder.path)  # type: ignore[union-attr]
        memory.append(_memory_mib(own))
        lingering = [pid for pid in find_marked(pool_folder) if "measure.server" not in _command(pid)]
    stored = {row.candidate_id: row.measurement for row in store.candidates(task.task_id, "fake-cpu", 2)}
    store.close()
    told = {i: m.error.kind if m.error else None for i, m in stored.items() if i in bench.given}
    planted = Counter(p.error.value for p in bench.given.values() if p.error)
    # The first batches load what is loaded once.
    settled = memory[min(2, len(memory) - 2) :]
    growth_mib = max(max(m[who] for m in settled) - settled[0][who] for who in settled[0])
    return Figure(
        "poisons",
        len(bench.given),
        {
            "candidates without a measurement": n - len(told),
            "candidates told as something else": sum(bench.given[i].error is not kind for i, kind in told.items()),
            "runs that did not end normally": int(result.stop_reason != "trials"),
            "failures more or fewer in the census": sum((planted - Counter(result.census)).values())
            + sum((Counter(result.census) - planted).values()),
            "processes alive after the last candidate": len(lingering),
            "processes alive after the run": len(find_marked(pool_folder)),
            "files left": len(list(folder.rglob("*"))),
        },
        {"growth of memory, MiB": (round(growth_mib, 1), _MAX_GROWTH_MIB)},
        {
            "candidates_by_poison": dict(Counter(p.name for p in bench.given.values())),
            "census": dict(result.census),
            "time_limit_secs": limit_secs,
            "told_as_something_else": [
                f"{bench.given[i].name}: {stored[i].error or 'no error'}"[:300]
                for i, kind in told.items()
                if bench.given[i].error is not kind
            ][:20],
        },
    )


def _memory_mib(own: psutil.Process) -> Mapping[str, float]:
    """Resident memory of this process and of the server."""
    found = {"own": own.memory_info().rss / 2**20, "server": 0.0}
    for child in own.children():
        if "measure.server" in _command(child.pid):
            found["server"] = child.memory_info().rss / 2**20
    return found


def _command(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return ""
