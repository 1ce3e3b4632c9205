"""Recordings as a prior: what the verifier learns of kernels measured elsewhere, in a file that later runs take."""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from prune_engine.artifact_files import output_error
from prune_engine.candidates import CandidateBatch, SeenRows
from prune_engine.config import EngineConfig
from prune_engine.contracts import STRATEGY_FAILURES
from prune_engine.errors import ConfigError, OutputError
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.loop.teaching import Lesson
from prune_engine.output_file import check_place
from prune_engine.plugins import PluginHost, PluginRecord
from prune_engine.recorded.judge import Judge
from prune_engine.recorded.ranking import random_lessons
from prune_engine.recorded.spaces import RecordedSpace
from prune_engine.strategies import Verifier
from prune_engine.strategy_set import load_strategies
from prune_engine.verdicts import BoolArray

#: Candidates taught of a kernel by default. Thousands of a table are worth more than hundreds, and what each start
#: from the file costs is little: trees on six times as many rows are learnt in 1.2 s.
N_ROWS = 4096
#: Of a kernel of which fewer ran than this nothing is learnt: its middle, which all is told against, is not known.
MIN_RAN = 16
#: Left-out kernels that an error names.
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class LearntKernel:
    """One recorded space in a prior: ``n_rows`` of its candidates were taught, none where ``left_out`` says why."""

    name: str
    n_candidates: int
    n_failed: int
    n_unmatched: int
    n_rows: int = 0
    left_out: str | None = None


@dataclass(frozen=True, slots=True)
class LearntPrior:
    """What a file was learnt from, in the order given. ``failed_plugins`` are those it had to do without."""

    verifier: str
    kernels: tuple[LearntKernel, ...]
    failed_plugins: tuple[PluginRecord, ...] = ()

    @property
    def learnt(self) -> tuple[LearntKernel, ...]:
        """The kernels that were not left out."""
        return tuple(kernel for kernel in self.kernels if kernel.left_out is None)

    @property
    def n_rows(self) -> int:
        """Candidates taught, of all kernels."""
        return sum(kernel.n_rows for kernel in self.kernels)


def check_prior_place(path: Path, config: EngineConfig) -> None:
    """Raise now what ``learn_prior`` would for options and a place that will not do."""
    _fresh_verifier(config)
    check_place(path)
    if path.exists() and not path.is_file():
        raise OutputError("is no file", who=str(path), expected="a new file, or an earlier prior")
    if not path.is_file() or not path.stat().st_size:
        return
    try:
        _fresh_verifier(config).load(path)
    except STRATEGY_FAILURES as error:  # the plugin boundary; whatever it says, it is no file of this verifier
        raise OutputError(
            "holds something else, which is not overwritten",
            who=str(path),
            got=error.problem if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}",
            expected="a new file, or an earlier prior",
            remedy="Name another place, or move that file away.",
        ) from error


def learn_prior(
    spaces: Sequence[RecordedSpace],
    config: EngineConfig,
    profile: HardwareProfile,
    path: Path,
    *,
    n_rows: int = N_ROWS,
) -> LearntPrior:
    """Teach a fresh verifier recordings of the device that ``profile`` describes; write what it learnt to ``path``.

    ``n_rows`` candidates of each space are taught, drawn by ``config.seed``; those that an earlier space of the
    same task had are not taught again. Sketches that cannot be read are left out if any can: their decisions mean
    something in one kernel only. The file is written whole or not at all, and was tried as a prior.

    Raises:
        ConfigError: the options name no verifier that starts from a file, or there is nothing to learn from.
        PluginContractError: the draft or the verifier fails.
        OutputError: ``path`` cannot be written, or holds something else.
    """
    check_prior_place(path, config)
    judge = Judge(config.model_copy(update={"prior": "none"}), profile)
    readable = [space.only([_of_readable(batch) for batch in space.batches]) for space in spaces]
    are_readable = any(_n_ran(space) >= MIN_RAN for space in readable)
    seen: dict[str, SeenRows] = defaultdict(SeenRows)
    kernels = []
    example: CandidateBatch | None = None
    for whole, of_readable in zip(spaces, readable, strict=True):
        kernel = LearntKernel(whole.name, whole.n_candidates, whole.n_failed, whole.n_unmatched)
        found = _lessons(
            whole, of_readable if are_readable else whole, seen[whole.task.task_id], judge, config, n_rows
        )
        if isinstance(found, str):
            kernels.append(replace(kernel, left_out=found))
            continue
        judge.teach(found)
        example = example or found[0][0].take(np.array([0]))
        kernels.append(replace(kernel, n_rows=sum(len(batch) for batch, _ in found)))
    if example is None:
        told = "; ".join(f"{kernel.name}: {kernel.left_out}" for kernel in kernels[:_MOST_NAMED])
        raise ConfigError(
            "there is nothing to learn a prior from",
            who="recordings",
            got=told or "none that can be read",
            expected=f"a recorded kernel of which {MIN_RAN} candidates ran",
        )
    _write(judge, path, config, profile, example)
    verifier = judge.verifier
    assert verifier is not None, "checked with the place"
    return LearntPrior(verifier.name, tuple(kernels), judge.failed_plugins)


def _fresh_verifier(config: EngineConfig) -> Verifier:
    """The verifier that the options name, untaught. Raises ConfigError if it would not start from a file."""
    host = PluginHost(config)
    host.load()
    verifier = load_strategies(host, config.model_copy(update={"prior": "none"})).verifier
    if verifier is None or not verifier.takes_prior:
        raise ConfigError(
            "starts from no file, so nothing can be learnt for it"
            if verifier
            else "there is no verifier that could know another device",
            who=f"verifier {verifier.name}" if verifier else "verifier",
            expected="a verifier that takes priors",
            remedy="Choose another by --verifier.",
        )
    return verifier


def _lessons(
    whole: RecordedSpace, usable: RecordedSpace, seen: SeenRows, judge: Judge, config: EngineConfig, n_rows: int
) -> list[Lesson] | str:
    """What to teach of a space, or why there is nothing."""
    if whole.best_secs is None:
        return "no candidate of it ran"
    if usable.best_secs is None:
        return "no sketch of it that ran can be read, and its decisions tell nothing of other kernels"
    new = usable.only([seen.unseen(batch) for batch in usable.batches])
    if not new.n_candidates:
        return "all of it was recorded in an earlier source, too"
    lessons = random_lessons(judge.adopted(new), n_rows, config.seed)
    n_ran = sum(one.latency_secs is not None for _, measurements in lessons for one in measurements)
    if n_ran < MIN_RAN:
        return f"only {n_ran} of {sum(len(batch) for batch, _ in lessons)} candidates ran, and it takes {MIN_RAN}"
    for batch in new.batches:
        seen.add(batch.sketch.index, batch.indices)
    return lessons


def _of_readable(batch: CandidateBatch) -> BoolArray:
    return np.full(len(batch), not batch.is_opaque)


def _n_ran(space: RecordedSpace) -> int:
    return space.n_candidates - space.n_failed


def _write(
    judge: Judge, path: Path, config: EngineConfig, profile: HardwareProfile, example: CandidateBatch
) -> None:
    """Save beside the place, see that a run could start from it, and put it there."""
    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent) as folder:
            staged = Path(folder) / path.name
            judge.save(staged)
            _try(staged, path, config, profile, example)
            with staged.open("rb") as file:
                os.fsync(file.fileno())
            staged.replace(path)
    except OSError as error:
        raise output_error(error, path) from error


def _try(staged: Path, path: Path, config: EngineConfig, profile: HardwareProfile, example: CandidateBatch) -> None:
    """Let a verifier start from a file. Raises ConfigError if it would refuse it."""
    try:
        Judge(config.model_copy(update={"prior": str(staged)}), profile).scores([example])
    except ConfigError as error:
        raise ConfigError(
            "what was learnt is no prior, so it was not written",
            who=str(path),
            got=str(error.got or error.problem),
            expected=error.expected,
        ) from error
