"""The parts of the quality report: each reads recorded spaces and returns tables and marks."""

from __future__ import annotations

import itertools
import json
import math
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from prune_engine_draft.priors import PRIORS_FILE, family_of
from prune_engine_draft.scorer import terms_of

from prune_engine.config import EngineConfig
from prune_engine.errors import ProfileError
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.hardware.slice import with_threads
from prune_engine.hardware.unknown import unknown_gpu
from prune_engine.recorded.kernel_table_files import read_kernel_tables
from prune_engine.recorded.kernel_tables import plain_device_name
from prune_engine.recorded.ranking import Ranking, found_in_order, rank, train_prior
from prune_engine.recorded.replay import replay
from prune_engine.recorded.spaces import RecordedSpace
from prune_engine.recorded.workbench import found_after
from prune_engine.store.open import open_store

#: Folders of recorded CPU spaces -> the threads their kernels ran on.
CPU_SETS = {"cpu_1thread": 1, "cpu_2threads": 2}
#: The processor that they were recorded on.
CPU_PROFILE = "amd-epyc-9654"
TRIALS = (8, 16, 32, 48, 64, 96, 128)
_N_RANDOM_ORDERS = 400


@dataclass(frozen=True)
class Mark:
    """A wanted figure and the one there is."""

    name: str
    wanted: str
    value: float
    passed: bool


@dataclass
class Part:
    """A section of the report."""

    title: str
    text: str
    header: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    def at_least(self, name: str, value: float, wanted: float) -> None:
        """Add a mark that a figure should reach."""
        self.marks.append(Mark(name, f">= {wanted:.2f}", value, value >= wanted))


def mean(values: Iterable[float]) -> float:
    """The geometric mean; 0 if a value is."""
    numbers = list(values)
    return 0.0 if min(numbers) <= 0 else math.exp(math.fsum(map(math.log, numbers)) / len(numbers))


@cache
def cpu_spaces(folder: Path) -> Mapping[str, tuple[tuple[RecordedSpace, HardwareProfile], ...]]:
    """The recorded CPU spaces by set, each with the profile of the cores it ran on."""
    from prune_engine.metaschedule.recorded import read_recorded

    found = {}
    for name, n_threads in CPU_SETS.items():
        profile = with_threads(ProfileRegistry().resolve(CPU_PROFILE), n_threads)
        databases = sorted(path.parent for path in (folder / name).glob("*/database_tuning_record.json"))
        spaces = [space for database in databases for space in read_recorded(database).spaces]
        if spaces:
            found[name] = tuple((space, profile) for space in spaces)
    return found


def untrained_draft(folder: Path) -> Part:
    """What the draft finds without one sample."""
    part = Part(
        "The draft, untrained",
        "Best of the space over the best among the first 1, 4, 8, 16, 64 candidates by the draft, without samples.",
        ("set", "space", "candidates", "top 1", "top 4", "top 8", "top 16", "top 64", "correlation"),
    )
    profiles = [profile for spaces in cpu_spaces(folder).values() for _, profile in spaces]
    if any(family_of(profile) in shipped_families() for profile in profiles):
        part.text += " Its weights were fitted on these spaces: `draft_calibrate.py` says what they are elsewhere."
    config = EngineConfig(verifier=None, prior="none")
    every: dict[int, list[float]] = {16: [], 64: []}
    for name, spaces in cpu_spaces(folder).items():
        rankings = [_ranked(space, config, profile) for space, profile in spaces]
        for ranking in rankings:
            figures = [f"{value:.3f}" for value in ranking.found.values()]
            correlation = "-" if ranking.correlation is None else f"{ranking.correlation:.2f}"
            part.rows.append((name, ranking.name, str(ranking.n_candidates), *figures, correlation))
        means = {k: mean(ranking.found[k] for ranking in rankings) for k in rankings[0].found}
        part.rows.append((name, "geometric mean", "", *(f"{value:.3f}" for value in means.values()), ""))
        for k, values in every.items():
            values += [ranking.found[k] for ranking in rankings]
    part.at_least("untrained draft, top 16, CPU", mean(every[16]), 0.90)
    part.at_least("untrained draft, top 64, CPU", mean(every[64]), 0.97)
    return part


def ablation(folder: Path) -> Part:
    """What each penalty and each term of the draft is worth."""
    part = Part(
        "The draft without one of its causes",
        "Geometric means over all recorded CPU spaces, with all weights 1, so nothing was fitted on them. Without "
        "a penalty: seconds times the penalty, as if that cause left the whole peak. Without a term: its seconds "
        "taken off.",
        ("without", "top 1", "top 8", "top 16", "top 64"),
    )
    picks = (1, 8, 16, 64)
    found: dict[str, list[dict[int, float]]] = {}
    for space, profile in itertools.chain.from_iterable(cpu_spaces(folder).values()):
        drafts = [terms_of(batch, profile) for batch in space.batches if len(batch)]
        run_secs = np.concatenate(space.run_secs)
        latency = np.concatenate([draft.latency_secs for draft in drafts])
        variants = {"nothing": latency}
        for name in sorted({name for draft in drafts for name in draft.penalties}):
            penalty = [draft.penalties.get(name, np.ones(len(draft.latency_secs))) for draft in drafts]
            variants[f"penalty {name}"] = latency * np.concatenate(penalty)
        for name in sorted({name for draft in drafts for name in draft.terms}):
            term = [draft.terms.get(name, np.zeros(len(draft.latency_secs))) for draft in drafts]
            variants[f"term {name}"] = np.maximum(latency - np.concatenate(term), 1e-12)
        for name, secs in variants.items():
            found.setdefault(name, []).append(found_in_order(1 / secs, run_secs, picks=picks))
    for name, values in found.items():
        part.rows.append((name, *(f"{mean(value[k] for value in values):.3f}" for k in picks)))
    for k, wanted in ((16, 0.90), (64, 0.97)):
        value = mean(one[k] for one in found["nothing"])
        part.at_least(f"untrained draft with all weights 1, top {k}, CPU", value, wanted)
    return part


def verified(folder: Path, verifier: str, seeds: Sequence[int]) -> Part:
    """What draft and verifier find after 64 measurements."""
    part = Part(
        "Draft and verifier after 64 measurements",
        f"`{verifier}`, without a prior; means over {len(seeds)} seeds. `top 8` is the best of the 64 measured and "
        "the 8 ranked first of the others, `8 alone` of those 8 only, `64 alone` of the measured only. The 64 are "
        "those of the engine's own rounds, or drawn at random.",
        (
            "set",
            "space",
            "loop: 64 alone",
            "8 alone",
            "top 8",
            "random: 64 alone",
            "8 alone",
            "top 8",
            "correlation",
        ),
    )
    totals: dict[str, list[float]] = {"loop": [], "random": []}
    for name, spaces in cpu_spaces(folder).items():
        for space, profile in spaces:
            cells, correlations = [], []
            for sampling in ("loop", "random"):
                rankings = [
                    _ranked(space, EngineConfig(seed=seed, verifier=verifier, prior="none"), profile, 64, sampling)
                    for seed in seeds
                ]
                top = mean(ranking.found[8] for ranking in rankings)
                totals[sampling].append(top)
                alone = mean(ranking.picked[8] for ranking in rankings)
                cells += [mean(r.found_by_samples or 0 for r in rankings), alone, top]
                correlations += [r.correlation for r in rankings if r.correlation is not None]
            correlation = f"{sum(correlations) / len(correlations):.2f}" if correlations else "-"
            part.rows.append((name, space.name, *(f"{cell:.3f}" for cell in cells), correlation))
    means = {sampling: mean(values) for sampling, values in totals.items()}
    part.rows.append(
        ("all", "geometric mean", "", "", f"{means['loop']:.3f}", "", "", f"{means['random']:.3f}", "")
    )
    part.at_least("verifier after 64 of the loop, top 8, CPU", means["loop"], 0.97)
    part.at_least("verifier after 64 at random, top 8, CPU", means["random"], 0.97)
    return part


def adapted(folder: Path, verifier: str, seeds: Sequence[int]) -> Part:
    """Source device to target device with 32 samples of the target."""
    part = Part(
        "From one GPU to another",
        f"`{verifier}` after 32 measurements on the target, chosen by the engine's rounds; the best of them and "
        "the 8 ranked first of the others. Adapted: it had learnt all rows of the source before. Means over "
        f"{len(seeds)} seeds.",
        ("kernel", "source", "target", "scratch", "adapted", "adapted / scratch"),
    )
    scratch_of: dict[tuple[str, str], float] = {}
    pairs: list[tuple[float, float]] = []
    kin: list[tuple[float, float]] = []
    for path in sorted((folder / "gpu").glob("*.tsv*")):
        for table in read_kernel_tables(path):
            spaces = {device: table.recorded(device) for device in table.devices}
            for target in table.devices:
                scratch_of[table.name, target] = _gpu_mean(spaces[target], target, verifier, "none", seeds)
            with tempfile.TemporaryDirectory() as scratch:
                for source in table.devices:
                    model = Path(scratch) / source
                    config = EngineConfig(verifier=verifier, prior="none")
                    train_prior(spaces[source], config, device_profile(source), model)
                    for target in table.devices:
                        if target == source:
                            continue
                        plain = scratch_of[table.name, target]
                        moved = _gpu_mean(spaces[target], target, verifier, str(model), seeds)
                        pairs.append((plain, moved))
                        if _vendor(source) == _vendor(target):
                            kin.append((plain, moved))
                        ratio = f"{moved / plain:.3f}" if plain else "-"
                        part.rows.append((table.name, source, target, f"{plain:.3f}", f"{moved:.3f}", ratio))
    if not pairs:
        return part
    for label, some in (("geometric mean, one vendor", kin), ("geometric mean", pairs)):
        if some:
            plain_mean, moved_mean = (mean(values) for values in zip(*some, strict=True))
            ratio = f"{moved_mean / plain_mean:.3f}"
            part.rows.append((label, "", "", f"{plain_mean:.3f}", f"{moved_mean:.3f}", ratio))
    part.at_least("GPU to GPU, 32 samples, top 8", moved_mean, 0.95)
    part.at_least("adapted over scratch, mean", moved_mean / plain_mean, 1.0)
    part.at_least("adapted over scratch, the worst pair", min(m / p for p, m in pairs if p), 0.98)
    return part


def search_curves(folder: Path, verifier: str, seeds: Sequence[int]) -> Part:
    """The whole loop against simpler searches."""
    part = Part(
        "The whole search",
        "Best of the space over the best found after so many trials, by replay: geometric means over the recorded "
        f"CPU spaces, {len(seeds)} seeds each. `random` is the mean of {_N_RANDOM_ORDERS} random orders; `trees on "
        "decisions` is `lightgbm.decisions` without draft; all under the same rules but `random`.",
        ("search", *(str(n) for n in TRIALS)),
    )
    searches: dict[str, dict[str, object]] = {
        "the engine": {"verifier": verifier, "prior": "none"},
        "draft only": {"verifier": None},
        "verifier only": {"verifier": verifier, "draft_scorer": None, "prior": "none"},
        "trees on decisions": {"verifier": "lightgbm.decisions", "draft_scorer": None},
    }
    spaces = list(itertools.chain.from_iterable(cpu_spaces(folder).values()))
    found = {
        name: [_curve(space, profile, options, seeds) for space, profile in spaces]
        for name, options in searches.items()
    }
    found["random"] = [_random_curve(space) for space, _ in spaces]
    means = {name: [mean(column) for column in zip(*curves, strict=True)] for name, curves in found.items()}
    for name, curve in means.items():
        part.rows.append((name, *(f"{value:.3f}" for value in curve)))
    for number, (space, profile) in enumerate(spaces):
        cores = profile.core_count.value if profile.core_count else 0
        label = f"the engine, {space.name}, {cores} thread{'s' if cores > 1 else ''}"
        part.rows.append((label, *(f"{value:.3f}" for value in found["the engine"][number])))
    return part


def device_profile(device: str) -> HardwareProfile:
    """The profile of a table's device, or one that knows nothing."""
    try:
        return ProfileRegistry().resolve(plain_device_name(device))
    except ProfileError:
        return unknown_gpu(device)


def shipped_families() -> Collection[str]:
    """The families of devices that the draft has weights for."""
    return frozenset(json.loads(PRIORS_FILE.read_text()))


def _vendor(device: str) -> str:
    return device_profile(device).name.split("-")[0]


def _ranked(
    space: RecordedSpace, config: EngineConfig, profile: HardwareProfile, n_samples: int = 0, sampling: str = "loop"
) -> Ranking:
    return rank(
        space,
        config,
        profile,
        store=open_store("sqlite://"),
        n_samples=n_samples,
        sampling="random" if sampling == "random" else "loop",
    )


def _gpu_mean(space: RecordedSpace, device: str, verifier: str, prior: str, seeds: Sequence[int]) -> float:
    profile = device_profile(device)
    configs = (EngineConfig(seed=seed, verifier=verifier, prior=prior) for seed in seeds)
    return mean(_ranked(space, config, profile, 32).found[8] for config in configs)


def _curve(
    space: RecordedSpace, profile: HardwareProfile, options: Mapping[str, object], seeds: Sequence[int]
) -> list[float]:
    """Found after each of TRIALS, means over seeds."""
    curves = []
    for seed in seeds:
        config = EngineConfig.of(seed=seed, n_trials=max(TRIALS), plateau_trials=max(TRIALS), **options)
        (curve,) = replay([space], config, profile, open_store("sqlite://")).curves
        curves.append([curve.found_at(n) for n in TRIALS])
    return [mean(column) for column in zip(*curves, strict=True)]


def _random_curve(space: RecordedSpace) -> list[float]:
    secs, rng = np.concatenate(space.run_secs), np.random.default_rng(0)
    best_secs = float(np.nanmin(secs))
    orders = [found_after(secs[rng.permutation(len(secs))], best_secs) for _ in range(_N_RANDOM_ORDERS)]
    return [float(np.mean([order[n - 1] for order in orders])) for n in TRIALS]
