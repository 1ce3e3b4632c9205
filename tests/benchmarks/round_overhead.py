"""What deciding costs: a round of a task by stage, from exploring to materialised candidates.

    python tests/benchmarks/round_overhead.py [--rounds 5] [--batch 32] [--threads 2] [--only WORKLOAD]

Strategies, target and profile are those of `tune` on this machine; only measuring is left out: latencies are the
draft's times a lognormal error, so that the verifier has something to learn. Stages exclude those within them: what
the verifier asks of the draft counts as draft. Reading loop structures is a stage of its own, whoever asks first.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import machine
import numpy as np

from prune_engine.candidates import Candidate, CandidateBatch, SeenRows, rows_of
from prune_engine.config import EngineConfig
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.loop.undisturbed import undisturbed
from prune_engine.measurement import Measurement
from prune_engine.metaschedule.materialise import Materialised, Materialiser
from prune_engine.metaschedule.targets import resolve_target
from prune_engine.metaschedule.workloads.loading import load_tasks
from prune_engine.pipeline import Pipeline
from prune_engine.plugins import PluginHost
from prune_engine.space import Int32Array, Sketch
from prune_engine.strategies import DraftScorer, Rule, ScoreContext, Strategy, Verifier
from prune_engine.strategy_set import load_strategies
from prune_engine.symbols.evaluate import TableValues
from prune_engine.symbols.structure import NestGroup, NestSource
from prune_engine.testing import make_measurement
from prune_engine.verdicts import BoolArray, DraftScores, Float64Array, VerifyScores

WORKLOADS = (
    "gemm:512x512x512",
    "conv2d:1x64x56x56,64x3x3,p1",
    "conv2d:1x96x56x56,96x3x3,p1,g96",
    "softmax:12x128x128",
    "layer_norm:128x768",
)
STAGES = ("explore", "read", "rules", "draft", "verify", "select", "materialise", "learn")
#: Standard deviation of a latency's error, of its logarithm.
_ERROR = 0.3


@dataclass
class StageClock:
    """Seconds by stage, of the processor and of the wall; a stage within another one stops that one's clock."""

    secs: dict[str, list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0, 0.0]))
    _running: list[str] = field(default_factory=list)
    _since: tuple[float, float] = (0.0, 0.0)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Time what is done inside."""
        self._switch()
        self._running.append(stage)
        try:
            yield
        finally:
            self._switch()
            self._running.pop()

    def _switch(self) -> None:
        now = time.process_time(), time.perf_counter()
        if self._running:
            spent = self.secs[self._running[-1]]
            spent[0] += now[0] - self._since[0]
            spent[1] += now[1] - self._since[1]
        self._since = now


class TimedRule(Rule):
    """A rule whose masks are timed."""

    def __init__(self, rule: Rule, clock: StageClock) -> None:
        self.name, self.kind, self.order = rule.name, rule.kind, rule.order  # type: ignore[misc]
        self._rule, self._clock = rule, clock
        self.restrict, self.reason = rule.restrict, rule.reason  # type: ignore[method-assign]

    def mask(self, batch: CandidateBatch, profile: HardwareProfile) -> BoolArray:
        """What the rule says."""
        with self._clock("rules"):
            return self._rule.mask(batch, profile)


class TimedDraft(DraftScorer):
    """A draft that is timed."""

    def __init__(self, draft: DraftScorer, clock: StageClock) -> None:
        self.name, self._draft, self._clock = draft.name, draft, clock  # type: ignore[misc]

    def score(self, batch: CandidateBatch, profile: HardwareProfile) -> DraftScores:
        """What the draft says."""
        with self._clock("draft"):
            return self._draft.score(batch, profile)

    def update(self, batch: CandidateBatch, measurements: Sequence[Measurement], profile: HardwareProfile) -> None:
        """Pass on."""
        self._draft.update(batch, measurements, profile)


class TimedVerifier(Verifier):
    """A verifier that is timed."""

    def __init__(self, verifier: Verifier, clock: StageClock) -> None:
        self.name, self._verifier, self._clock = verifier.name, verifier, clock  # type: ignore[misc]

    def score(self, batch: CandidateBatch, context: ScoreContext) -> VerifyScores:
        """What the verifier says."""
        with self._clock("verify"):
            return self._verifier.score(batch, context)

    def update(self, batch: CandidateBatch, measurements: Sequence[Measurement], context: ScoreContext) -> None:
        """Pass on."""
        self._verifier.update(batch, measurements, context)

    def save(self, path: Path) -> None:
        """Pass on."""
        self._verifier.save(path)

    def load(self, path: Path) -> None:
        """Pass on."""
        self._verifier.load(path)


class TimedSource:
    """A NestSource whose readings are timed."""

    def __init__(self, source: NestSource, clock: StageClock) -> None:
        self._source, self._clock = source, clock
        self.n_structures: set[int] = set()

    @property
    def tables(self) -> TableValues:
        """As they are."""
        return self._source.tables

    def groups(self, indices: Int32Array) -> Sequence[NestGroup]:
        """The structures of candidates."""
        with self._clock("read"):
            found = self._source.groups(indices)
        self.n_structures.update(id(group.nest) for group in found)
        return found

    def canonical(self, indices: Int32Array) -> BoolArray:
        """Whose decisions are those that run."""
        with self._clock("read"):
            return self._source.canonical(indices)


@dataclass(frozen=True)
class Round:
    """One round: seconds by stage, (processor, wall); how many candidates were proposed and materialised."""

    secs: dict[str, tuple[float, float]]
    n_proposed: int
    n_made: int
    n_structures: int


class Tuner:
    """One task's rounds without the measuring."""

    def __init__(self, workload: str, n_threads: int, batch: int) -> None:
        self.clock, self._batch = StageClock(), batch
        config = EngineConfig()
        host = PluginHost(config)
        host.load()
        strategies = load_strategies(host, config)
        target = resolve_target("native", n_threads)
        self._profile = ProfileRegistry().choose("auto", n_threads=n_threads).profile
        assert strategies.draft_scorer is not None
        assert strategies.verifier is not None
        self._learners: tuple[DraftScorer, Verifier] = strategies.draft_scorer, strategies.verifier
        self._explorer, self._plain_draft = strategies.explorer, type(strategies.draft_scorer)()
        self._pipeline = Pipeline(
            rules=[_timed_rule(rule, self.clock) for rule in strategies.rules],
            draft_scorer=TimedDraft(strategies.draft_scorer, self.clock),
            verifier=TimedVerifier(strategies.verifier, self.clock),
            selector=strategies.selector,
            profile=self._profile,
            config=config,
            on_failure=_raise,
        )
        (task,) = load_tasks(workload, target)
        self._materialiser = Materialiser(task, config.seed)
        with self.clock("open"):
            space = replace(self._materialiser.design_space(), symbols=strategies.symbols)
            self._sources: list[TimedSource] = []
            space = replace(space, sketches=tuple(map(self._timed, space.sketches)))
            self._space, _ = self._pipeline.restrict(space)
        self._config, self._seen = config, SeenRows()
        self._rng, self._noise = np.random.default_rng(0), np.random.default_rng(1)

    def round(self) -> Round:
        """Propose, prune, materialise, learn."""
        clock, space = self.clock, self._space
        clock.secs.clear()
        with undisturbed(), clock("explore"):
            proposals = self._explorer.propose(space, self._config.explore_size, self._pipeline.fitness, self._rng)
        with undisturbed(), clock("select"):
            result = self._pipeline.run(proposals, [], self._batch, self._seen, self._rng)
        with clock("materialise"):
            made = [self._materialiser.materialise(space, candidate) for candidate in result.candidates]
        taken = [one.candidate for one in made if isinstance(one, Materialised)]
        self._learn(taken)
        secs = {stage: (spent[0], spent[1]) for stage, spent in clock.secs.items()}
        n_structures = len(set().union(*(source.n_structures for source in self._sources)))
        return Round(secs, sum(map(len, proposals)), len(taken), n_structures)

    def _learn(self, taken: Sequence[Candidate]) -> None:
        for sketch in self._space.sketches:
            rows = [rows_of(sketch, c.decisions) for c in taken if c.sketch_index == sketch.index]
            known = [row for row in rows if row is not None]
            if not known:
                continue
            batch = CandidateBatch(self._space, sketch, np.stack(known))
            self._seen.add(sketch.index, batch.indices)
            measurements = [make_measurement(f"c{i}", s) for i, s in enumerate(self._latencies(batch))]
            with self.clock("learn"):
                self._learners[0].update(batch, measurements, self._profile)
                self._explorer.update(batch, measurements)
                self._learners[1].update(batch, measurements, self._pipeline.scoring.context)
                self._pipeline.scoring.forget()

    def _latencies(self, batch: CandidateBatch) -> list[float]:
        secs: Float64Array = 1.0 / self._plain_draft.score(batch, self._profile).scores
        return [float(s) for s in secs * self._noise.lognormal(0, _ERROR, len(secs))]

    def _timed(self, sketch: Sketch) -> Sketch:
        if sketch.nests is None:
            return sketch
        self._sources.append(TimedSource(sketch.nests, self.clock))
        return replace(sketch, nests=self._sources[-1])


def _timed_rule(rule: Rule, clock: StageClock) -> Rule:
    return rule if type(rule).mask is Rule.mask else TimedRule(rule, clock)


def _raise(strategy: Strategy, error: BaseException) -> None:
    raise error


def line(name: str, rounds: Sequence[Round], number: int) -> str:
    """Milliseconds by stage: processor time, and in all also wall time; medians over the rounds."""

    def ms(stage: str) -> float:
        return 1000 * statistics.median(r.secs.get(stage, (0.0, 0.0))[number] for r in rounds)

    total = 1000 * statistics.median(sum(spent[number] for spent in r.secs.values()) for r in rounds)
    cells = [f"{ms(stage):.0f}" for stage in STAGES]
    return "| " + " | ".join([name, f"{total:.0f}", *cells, str(rounds[-1].n_structures)]) + " |"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32, help="candidates materialised per round")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", action="append", help="a workload; may be repeated")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print("| ms | all | " + " | ".join(STAGES) + " | structures |\n" + "|---" * (len(STAGES) + 3) + "|")
    record: dict[str, object] = {"machine": machine.describe()}
    for workload in options.only or WORKLOADS:
        tuner = Tuner(workload, options.threads, options.batch)
        opened = tuner.clock.secs["open"]
        rounds = [tuner.round() for _ in range(max(options.rounds, 1))]
        print(f"| {workload}: opened in {1000 * opened[0]:.0f} ms | " + " | " * (len(STAGES) + 2))
        for what, number in (("processor", 0), ("wall", 1)):
            print(line(f"first round, {what}", rounds[:1], number), flush=True)
            if rounds[1:]:
                print(line(f"later rounds, {what}", rounds[1:], number), flush=True)
        record[workload] = {
            "opened_secs": opened,
            "rounds": [{"secs": r.secs, "n_proposed": r.n_proposed, "n_made": r.n_made} for r in rounds],
        }
    if options.json:
        options.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
