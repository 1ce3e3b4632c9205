"""Evaluates schedule transfer: what tuned kernels are worth to other models, and to kernels of awkward sizes.

    python tests/benchmarks/transfer.py [--parts tune move time report] [--budget-seconds 7200]

``tune`` tunes every subject from nothing, which gives the maximum that the others are held against, and the
library. ``move`` gives each model's kernels what the library of all other models has for them (leave one out: no
other length of the same model either), with 0, 4 and 16 measurements per kernel, and once more with transferred
schedules only, and with none; kernels with extents of 127, 197, 1000 and 35 get those of usual sizes. ``seed``
tunes once more, with that library. ``time`` times what was found, kernel by kernel, in turns; ``whole`` whole
models in turns, with onnxruntime. ``command`` is `prune-engine transfer` as a user runs it, which also decides
inside the whole model. ``sources`` measures each model with each single other model as the library, to compare
forms of choosing one. ``report`` writes docs/benchmarks/transfer.md.

The shipped library is switched off throughout. What is done is in the state file and is not done again, so an
evaluation can be spread over many sittings; after a change to what is transferred, --forget its parts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import transfer_report
from transfer_records import ALL, SEARCH_ONLY, SEEDS_ONLY, Moved, NeverBeganError, Record, State, Tuned
from transfer_subjects import AWKWARD_NAMES, DONOR_NAMES, MODEL_NAMES, SIBLINGS, SUBJECTS, sources_of

from prune_engine.errors import PruneEngineError
from prune_engine.library import LibraryEntry

ROOT = Path(__file__).parents[2]
LIMITS = (0, 4, 16)
#: Measurements per kernel where sources are compared: each model meets each other one.
SOURCE_LIMIT = 4
#: Measurements per kernel that the command is run with.
COMMAND_LIMITS = (0, 16)
PARTS = ("tune", "move", "seed", "time", "whole", "command", "sources", "report")
#: What a part's records are called, and those that were made with them.
_OUT_OF_DATE = {
    "tune": ("tuned", "moved", "seeded", "timed", "whole", "command"),
    "move": ("moved", "timed", "whole", "command"),
    "seed": ("seeded", "timed", "whole"),
    "time": ("timed",),
    "whole": ("whole",),
    "command": ("command",),
}
#: Besides measuring: starting, importing, compiling, and timing the whole model.
_OVERHEAD_SECS = 60.0


class Evaluation:
    """The parts, each of which does what is not done yet."""

    def __init__(self, options: argparse.Namespace, state: State) -> None:
        self._options, self._state = options, state
        self._deadline = time.monotonic() + options.budget_seconds if options.budget_seconds else None
        self._folder: Path = options.state.with_suffix("")
        self._models: tuple[str, ...] = tuple(options.models)
        wanted = options.models if options.move_to is None else options.move_to
        self._moved_models = tuple(name for name in self._models if name in wanted)
        self._targets: tuple[str, ...] = (*self._moved_models, *options.kernels)

    def tune(self) -> None:
        """Full tuning of all subjects and of the kernels that only are sources."""
        from transfer_tuning import tune

        names = dict.fromkeys(
            (*self._models, *self._targets, *(s for name in self._targets for s in self._sources(name)))
        )
        names |= dict.fromkeys(name for pair in self._siblings() for name in pair)
        for name in names:
            seconds = self._seconds(name)
            done = self._state.tuned.get(name)
            if done is None or done.seconds < seconds or not self._store(name).exists():
                run = partial(tune, SUBJECTS[name], seconds, *self._setting(), self._store(name))
                self._do("tuned", f"tuning {name}, {seconds:g} s", seconds + _OVERHEAD_SECS, run)

    def move(self) -> None:
        """Every subject with the library of all others, and models of two lengths with the other's."""
        for name in self._targets:
            sources = self._sources(name)
            libraries: dict[str, Sequence[str]] = {ALL: sources}
            if self._options.halves:
                libraries |= {SEEDS_ONLY: sources, SEARCH_ONLY: ()}
            self._move(name, libraries, LIMITS, has_finals=True)
        for name, other in self._siblings():
            self._move(name, {other: (other,)}, LIMITS, has_finals=True)

    def sources(self) -> None:
        """Every model with the library of each other one."""
        for name in self._moved_models:
            libraries = {source: (source,) for source in self._sources(name)}
            self._move(name, libraries, (SOURCE_LIMIT,), has_finals=False)

    def seed(self) -> None:
        """Every model tuned again, with the library of all others."""
        from transfer_tuning import tune_seeded

        for name in self._moved_models:
            done, seconds = self._state.seeded.get(name), self._seconds(name)
            if done is not None and done.seconds >= seconds:
                continue
            if entries := self._entries(self._sources(name)):
                run = partial(tune_seeded, SUBJECTS[name], seconds, *self._setting(), entries)
                self._do("seeded", f"tuning {name} with a library", seconds + _OVERHEAD_SECS, run)

    def time(self) -> None:
        """Kernels in turns."""
        from transfer_timing import contenders, time_kernels

        for tuned, moved in self._finished():
            name, library = moved.subject, moved.library
            if (name, library) in self._state.timed:
                continue
            halves = [one for half in (SEEDS_ONLY, SEARCH_ONLY) if (one := self._state.moved.get((name, half)))]
            is_all = library == ALL
            traces = contenders(
                tuned, moved, self._state.seeded.get(name) if is_all else None, halves if is_all else ()
            )
            run = partial(
                time_kernels, SUBJECTS[name], library, traces, self._options.threads, self._options.repeats
            )
            self._do("timed", f"timing the kernels of {name} from {library}", _OVERHEAD_SECS, run)

    def whole(self) -> None:
        """Whole models in turns."""
        from transfer_timing import contenders, time_whole

        for tuned, moved in self._finished():
            name = moved.subject
            if name in self._moved_models and moved.library == ALL and name not in self._state.whole:
                traces = contenders(tuned, moved, self._state.seeded.get(name))
                run = partial(
                    time_whole, SUBJECTS[name], traces, self._options.threads, self._options.whole_seconds
                )
                self._do("whole", f"timing {name} as a whole", 2 * _OVERHEAD_SECS, run)

    def command(self) -> None:
        """The command, which decides inside the whole model what its big kernels run."""
        from transfer_tuning import transfer

        for name in self._moved_models:
            for measurements in COMMAND_LIMITS:
                if (name, ALL, measurements) in self._state.command or name not in self._state.tuned:
                    continue
                if entries := self._entries(self._sources(name)):
                    run = partial(transfer, SUBJECTS[name], ALL, entries, measurements, self._options.threads)
                    what = f"prune-engine transfer of {name}, {measurements} measurements"
                    self._do("command", what, 4 * _OVERHEAD_SECS, run)

    def report(self) -> None:
        """Write the page."""
        print(
            transfer_report.write(self._state, self._options.out, LIMITS, SOURCE_LIMIT).read_text(encoding="utf-8")
        )

    def _move(
        self, name: str, libraries: Mapping[str, Sequence[str]], limits: Sequence[int], *, has_finals: bool
    ) -> None:
        """Give a subject several libraries in turn, each of which is the sources of that name."""
        from transfer_moves import Mover

        left = {library: of for library, of in libraries.items() if (name, library) not in self._state.moved}
        if name not in self._state.tuned:
            return
        shelves = {of: self._entries(of) for of in map(tuple, left.values())}
        entries = {library: shelves[tuple(of)] for library, of in left.items()}
        if ALL in libraries and not entries.get(ALL, [True]):
            return
        entries = {library: found for library, found in entries.items() if found or library == SEARCH_ONLY}
        if not entries:
            return
        with Mover(SUBJECTS[name], self._options.threads) as mover:
            for library, found in entries.items():
                run = partial(mover.move, library, found, limits, has_finals=has_finals)
                self._do("moved", f"moving {len(found)} entries of {library} to {name}", _OVERHEAD_SECS, run)

    def _entries(self, sources: Sequence[str]) -> list[LibraryEntry]:
        from transfer_tuning import entries_of

        tuned = [name for name in sources if name in self._state.tuned and self._store(name).exists()]
        if missing := sorted(set(sources) - set(tuned)):
            print(f"  not tuned yet: {', '.join(missing)}", file=sys.stderr)
            return []  # a leave-one-out with less is another experiment
        return [entry for name in tuned for entry in entries_of(self._store(name))]

    def _finished(self) -> Iterator[tuple[Tuned, Moved]]:
        """What was tuned and moved to: targets from all others, models of two lengths from each other."""
        for name, library in [*((name, ALL) for name in self._targets), *self._siblings()]:
            tuned, moved = self._state.tuned.get(name), self._state.moved.get((name, library))
            if tuned is not None and moved is not None:
                yield tuned, moved

    def _sources(self, name: str) -> tuple[str, ...]:
        return sources_of(name, self._models)

    def _siblings(self) -> list[tuple[str, str]]:
        return [pair for pair in SIBLINGS if pair[0] in self._moved_models or pair[1] in self._moved_models]

    def _store(self, name: str) -> Path:
        return self._folder / f"{name}.sqlite3"

    def _seconds(self, name: str) -> float:
        is_kernel = name in AWKWARD_NAMES or name in DONOR_NAMES
        return float(self._options.kernel_seconds if is_kernel else self._options.model_seconds)

    def _setting(self) -> tuple[int, int]:
        return self._options.threads, self._options.seed

    def _do(self, kind: str, what: str, needed_secs: float, action: Callable[[], Record]) -> None:
        """Do it, if there is time, and remember what came of it. Where it fails the evaluation goes on."""
        if self._deadline is not None and time.monotonic() + needed_secs > self._deadline:
            print(f"no time left for {what}", file=sys.stderr)
            return
        print(f"{time.strftime('%H:%M:%S')} {what}", flush=True)
        began = time.monotonic()
        try:
            record = action()
        except subprocess.CalledProcessError as error:
            print(f"  failed: {(error.stderr or '').strip()[-500:]}", file=sys.stderr)
        except (PruneEngineError, NeverBeganError) as error:
            print(f"  failed: {error}", file=sys.stderr)
        else:
            self._state.add(kind, record)
            print(f"  done in {time.monotonic() - began:.0f} s", flush=True)


def main() -> int:
    """Do the parts asked for, as far as the seconds go."""
    options = _options()
    state = State(options.state)
    if options.forget:
        forget(state, options.forget, {*options.models, *options.kernels})
    evaluation = Evaluation(options, state)
    for part in PARTS:
        if part in options.parts:
            getattr(evaluation, part)()
    return 0


def forget(state: State, parts: Sequence[str], subjects: set[str]) -> None:
    """Drop what these parts found of some subjects, and what was made of that."""
    kinds = {kind for part in parts for kind in _OUT_OF_DATE.get(part, ())}

    def is_unwanted(kind: str, subject: str, library: str | None) -> bool:
        several = (ALL, SEEDS_ONLY, SEARCH_ONLY)
        is_single_source = kind == "moved" and library not in several and (subject, library) not in SIBLINGS
        is_made = ("sources" in parts or "tune" in parts) if is_single_source else kind in kinds
        return is_made and subject in subjects

    state.forget(is_unwanted)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    models = [name for name in SUBJECTS if name not in (*AWKWARD_NAMES, *DONOR_NAMES)]
    parser.add_argument("--models", nargs="*", choices=models, default=list(MODEL_NAMES))
    parser.add_argument(
        "--move-to", nargs="*", choices=models, help="of the models those that are moved to; the others are sources"
    )
    parser.add_argument(
        "--halves",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also transferred schedules only, and none: three times as long",
    )
    parser.add_argument("--kernels", nargs="*", choices=AWKWARD_NAMES, default=list(AWKWARD_NAMES))
    parser.add_argument("--model-seconds", type=float, default=300.0, help="of the full tuning of a model")
    parser.add_argument("--kernel-seconds", type=float, default=60.0, help="of the full tuning of a single kernel")
    parser.add_argument("--whole-seconds", type=float, default=30.0, help="of timing a whole model")
    parser.add_argument("--repeats", type=int, default=8, help="of timing a kernel in turns")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget-seconds", type=float, help="start nothing that would not end by then")
    parser.add_argument(
        "--forget",
        nargs="+",
        choices=[part for part in PARTS if part != "report"],
        default=[],
        help="drop what these parts found of the models and kernels named: it is out of date",
    )
    parser.add_argument("--state", type=Path, default=ROOT / "build" / "transfer.jsonl")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
