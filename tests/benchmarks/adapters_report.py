"""The figures of the adapters for Kernel Tuner and Triton as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np
from adapters_cost import Cost
from adapters_orders import PICKS, Order
from adapters_strategies import NOTED, OURS, TRIALS, Runs
from adapters_triton import PROFILES, Held
from numpy.typing import NDArray

#: The version that triton_resources.py was run with.
_RECORDED_TRITON = "3.9"
_MEASURED = "## A measured kernel: Kernel Tuner"


@dataclass(frozen=True)
class Figures:
    """All that is on the page. What needs recorded times is None where they were not given.

    ``copied`` is, by device and source, what the source's best find in their order, by `NOTED`.
    """

    machine: str
    invented: Sequence[Order]
    held: Sequence[Held]
    cost: Cost
    recorded: Sequence[Order] | None = None
    runs: Sequence[Runs] | None = None
    copied: dict[tuple[str, str], NDArray[np.float64]] | None = None


def page_text(figures: Figures) -> str:
    """The page."""
    return "\n".join(
        [
            "# Adapters: Kernel Tuner, Triton, anyone's candidates",
            "",
            "`python tests/benchmarks/adapters.py FOLDER --out docs/benchmarks` writes this page. FOLDER has",
            "`convolution_milo.tsv.gz`, a table of the AutoTuning Association's benchmark hub as",
            "`prune-engine rank` reads it; without it what needs real times is left out. *Found* is always the",
            "best of all configurations over the best of those tried: 1 is perfect.",
            "",
            figures.machine,
            "",
            *_of_recorded(figures),
            "## An invented kernel",
            "",
            "A stencil with times by a formula (`tests/kits/synthetic_kernels.py`), which is not the draft's: it",
            "says whether pruning loses what runs where the footprint is right, and nothing about real kernels.",
            "",
            *order_table(figures.invented),
            "",
            *_drops(figures.invented),
            "",
            *_of_triton(figures.held),
            *_of_cost(figures.cost),
        ]
    )


def _of_recorded(figures: Figures) -> list[str]:
    if figures.recorded is None or figures.runs is None:
        return [_MEASURED, "", "Left out: this page was made without recorded times.", ""]
    first = figures.recorded[0]
    return [
        _MEASURED,
        "",
        f"The convolution of BAT, {first.n:,} configurations, times of {len({o.device for o in figures.recorded})}",
        "GPUs; a footprint of eight symbols. Found among the first configurations of the order, ordered by the",
        "profile alone or from all results of another device, beside random orders (means of many):",
        "",
        *order_table(figures.recorded),
        "",
        *_drops(figures.recorded),
        "",
        "## Strategies in Kernel Tuner's loop",
        "",
        f"`tune_kernel` of Kernel Tuner {version('kernel-tuner')} in simulation mode on the same table: its own",
        "strategies as they come, and `kernel.strategy()` with nothing from elsewhere or with all results of",
        "another device. *Copied* measures the other device's best in their order and learns nothing. Found by",
        f"{', '.join(map(str, NOTED))} trials, medians over runs with different seeds; for {TRIALS} the quartiles",
        "as well. Seconds are of processor time for one run: looking times up costs next to nothing.",
        "",
        "The share of a batch that `kernel.strategy()` spends near the best, and the size of its batches, were",
        "chosen among several by runs on this table, with seeds that are among those counted here: what it reaches",
        "with nothing from elsewhere is flattered by that, and Kernel Tuner's strategies have their defaults.",
        "",
        *strategy_table(figures),
        "",
        *standing(figures.runs, figures.copied or {}),
        "",
    ]


def order_table(orders: Sequence[Order]) -> list[str]:
    """Found by number of picks: a line per order, and one of chance per device."""
    lines = [
        f"| device | order from | rank correlation | {' | '.join(map(str, PICKS))} |",
        f"|---|---|---:|{'---:|' * len(PICKS)}",
    ]
    for device in dict.fromkeys(order.device for order in orders):
        of_it = [order for order in orders if order.device == device]
        for order in of_it:
            source = "its profile alone" if order.source is None else f"results of {order.source}"
            told = "none" if order.correlation is None else f"{order.correlation:.2f}"
            lines.append(f"| {device} | {source} | {told} | {_cells(order.found)} |")
        lines.append(f"| {device} | chance | | {_cells(of_it[0].by_chance)} |")
    return lines


def _drops(orders: Sequence[Order]) -> list[str]:
    """What is dropped does not depend on where the order comes from: a line per device."""
    lines = [
        "| device | failed of all | legality drops | of which ran | heuristics drop | of which ran | best kept |",
        f"|---|{'---:|' * 6}",
    ]
    for device in dict.fromkeys(order.device for order in orders):
        one = next(order for order in orders if order.device == device)
        lines.append(
            f"| {device} | {one.n_failed} of {one.n:,} | {one.n_illegal} | {one.n_illegal_ran} | {one.n_guessed} "
            f"| {one.n_guessed_ran} | {one.kept_best:.2f} |"
        )
    return lines


def strategy_table(figures: Figures) -> list[str]:
    """A line per device, strategy and source."""
    noted = " | ".join(map(str, NOTED))
    lines = [
        f"| device | strategy | begins with | runs | {noted} | quartiles at {TRIALS} | s |",
        f"|---|---|---|---:|{'---:|' * len(NOTED)}---|---:|",
    ]
    for device in dict.fromkeys(one.device for one in figures.runs or ()):
        for one in (one for one in figures.runs or () if one.device == device):
            low, high = np.quantile(one.found[:, -1], (0.25, 0.75))
            begins = f"results of {one.source}" if one.source else "nothing"
            lines.append(
                f"| {device} | {one.strategy} | {begins} | {len(one.found)} "
                f"| {_cells(np.median(one.found, axis=0))} | {low:.2f} to {high:.2f} | {one.processor_secs:.1f} |"
            )
        for (target, source), found in (figures.copied or {}).items():
            if target == device:
                lines.append(f"| {device} | copied | results of {source} | 1 | {_cells(found)} | | |")
    return lines


def standing(runs: Sequence[Runs], copied: Mapping[tuple[str, str], NDArray[np.float64]]) -> list[str]:
    """A table of how ours does against the others, in the mean of all devices."""
    bare = [one for one in runs if one.source is None]
    means = {
        name: np.mean([one.found.mean(axis=0) for one in bare if one.strategy == name], axis=0)
        for name in dict.fromkeys(one.strategy for one in bare)
    }
    told = [one for one in runs if one.source is not None]
    if told:
        means[f"{OURS}, with another device's results"] = np.mean([one.found.mean(axis=0) for one in told], axis=0)
    if copied:
        means["copied from another device"] = np.mean(list(copied.values()), axis=0)
    ranked = sorted(means.items(), key=lambda pair: -pair[1][-1])
    return [
        "Means over all devices and runs, the best first:",
        "",
        f"| strategy | {' | '.join(map(str, NOTED))} |",
        f"|---|{'---:|' * len(NOTED)}",
        *(f"| {name} | {_cells(found)} |" for name, found in ranked),
    ]


def _of_triton(held: Sequence[Held]) -> list[str]:
    n, exact = sum(one.n for one in held), sum(one.exact for one in held)
    return [
        "## A footprint against Triton's compiler",
        "",
        f"`prune_engine_triton.matmul` against what Triton {_RECORDED_TRITON} allocates for its tutorial's loop",
        f"and what ptxas reports of registers, {n} configurations compiled without a GPU",
        "(`tests/benchmarks/triton_resources.py`). Shared memory is exact, over or under what Triton allocates;",
        "*fits and dropped* is a false prune. Registers: what spills, and what `rules.register-pressure` drops.",
        "",
        "| for | type | configurations | exact | over | under | fits and dropped | too large and kept "
        "| spills | of which dropped | dropped, no spill |",
        f"|---|---|{'---:|' * 9}",
        *(
            f"| sm_{one.arch} ({PROFILES[one.arch]}) | {one.dtype} | {one.n} | {one.exact} | {one.over} "
            f"| {one.under} | {one.fit_dropped} | {one.unfit_kept} of {one.unfit} | {one.spilled} "
            f"| {one.spilled_dropped} | {one.sound_dropped} |"
            for one in held
        ),
        "",
        f"Exact for {exact} of {n}. How far estimates are from measured times is not known: nothing was run.",
        "",
    ]


def _of_cost(cost: Cost) -> list[str]:
    return [
        "## Cost",
        "",
        f"`Pruner.prune` of {cost.n:,} candidates of an `own_space` with five symbols, seconds of processor time,",
        f"medians of {cost.n_runs} runs. The last line is what the five functions alone cost when they are called",
        "for one candidate after the other, without rules or draft, reckoned up from a part.",
        "",
        "| what | s |",
        "|---|---:|",
        f"| listing them | {cost.making_secs:.2f} |",
        f"| symbols and rules, which keep {cost.n_kept:,} | {cost.rules_secs:.2f} |",
        f"| symbols, rules, and the draft for what is kept | {cost.whole_secs:.2f} |",
        f"| symbols one candidate at a time | {cost.one_by_one_secs:.2f} |",
        "",
    ]


def _cells(found: Sequence[float] | NDArray[np.float64]) -> str:
    return " | ".join(f"{value:.2f}" for value in found)
