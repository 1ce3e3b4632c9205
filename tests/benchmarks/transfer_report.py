"""The page of the evaluation of schedule transfer, from its records."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import machine
from transfer_quality import (
    CLASSES,
    FORMS,
    Match,
    PolicyRow,
    Row,
    geometric_mean,
    kernel_secs,
    mean,
    own_speedup,
    percent_of_maximum,
    policy_rows,
    ranked_sources,
    row,
    time_to_match,
)
from transfer_records import ALL, FULL, SEARCH_ONLY, SEEDED, SEEDS_ONLY, UNTUNED, Moved, State, Timed, Tuned, at
from transfer_subjects import AWKWARD_NAMES, DONOR_NAMES, SIBLINGS, SUBJECTS

PAGE, DATA = "transfer.md", "transfer.json"
#: What was aimed at: percentage of the maximum by number of measurements, the mean over models.
GOALS = {0: 60.0, 16: 90.0}


def write(state: State, out: Path, limits: Sequence[int], source_limit: int) -> Path:
    """Write the page and its figures to ``out``; return the page."""
    out.mkdir(parents=True, exist_ok=True)
    models = _rows(state, [(name, ALL) for name in SUBJECTS if name not in AWKWARD_NAMES])
    awkward = _rows(state, [(name, ALL) for name in AWKWARD_NAMES])
    lengths = _rows(state, SIBLINGS)
    parts = [
        "# Schedule transfer",
        "Written by `python tests/benchmarks/transfer.py`, whose `--help` says what each part does. The maximum is "
        f"what `prune-engine tune` gains from nothing in {_budgets(state)}; where its trials (last column) are "
        "hardly more than 16 for each kernel, a longer one would gain more. The percentage is "
        "100 (S - 1) / (S_full - 1), "
        "where S is the speedup over untuned kernels, all kernels of a model together. All schedules of a kernel "
        "were timed in turns. Of n measurements per kernel half are of transferred schedules, where there are as "
        "many, the rest of what the draft and the verifier think best, and the best ships, or the untuned kernel "
        "if none beats it; with 0 what ranks first ships, whatever it takes. `measured` are those of a kernel that "
        "can be tuned, on average: a schedule as good as the library promises ends the search. Where full tuning "
        "gains less than 10 % there is no percentage. "
        "Seconds are those of proposing and measuring, and those of full tuning since it began until its best "
        "kernels were as fast together. The shipped library was switched off.",
        _verdict(models),
        "## Models, each from all the others (leave one out)",
        _table_of(models, limits) if models else "No model has been moved to yet.",
        _halves(state, _named(models), limits),
        _whole(state, limits),
        _commands(state),
        _seeded(state),
        "## Policies",
        "Over the models above, and over the kernels below. A re-fit that could not be made is no seed and costs "
        "no measurement; invalid are seeds that a rule or the compiler refused, or that failed to build or run.",
        _policies([moved for name in _named(models) if (moved := state.moved.get((name, ALL)))], max(limits)),
        "## Kernels of awkward sizes, from kernels of usual ones",
        _table_of(awkward, limits) if awkward else "No kernel has been moved to yet.",
        _halves(state, _named(awkward), limits),
        _policies([moved for name in _named(awkward) if (moved := state.moved.get((name, ALL)))], max(limits)),
        _lengths(lengths, limits),
        _sources(state, source_limit),
        "## Machine",
        f"When the page was written; full tunings are of {_dates(state)}. {_loads(state)}",
        machine.as_markdown(),
    ]
    figures = {"models": models, "awkward": awkward, "lengths": lengths}
    content = {name: [asdict(one) for one in rows] for name, rows in figures.items()}
    (out / DATA).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    page = out / PAGE
    page.write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")
    return page


def _rows(state: State, pairs: Iterable[tuple[str, str]]) -> list[Row]:
    return [
        row(state.tuned[name], state.moved[name, library], state.timed[name, library])
        for name, library in pairs
        if name in state.tuned and (name, library) in state.moved and (name, library) in state.timed
    ]


def _named(rows: Sequence[Row]) -> list[str]:
    return [one.subject for one in rows]


def _verdict(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    lines = []
    for limit, goal in GOALS.items():
        got = mean(one.percent.get(at(limit)) for one in rows)
        if got is not None:
            word = "reached" if got >= goal else "missed"
            told = f"**{got:.0f} % of the maximum** on average, goal {goal:.0f} %: {word}"
            lines.append(f"- {limit} measurements per kernel: {told}")
    return "\n".join([f"Over {len(rows)} models:", "", *lines])


def _table_of(rows: Sequence[Row], limits: Sequence[int]) -> str:
    header = ["", "kernels, tunable, with sources", "S full", *(f"S at {n}" for n in limits)]
    header += [f"% at {n}" for n in limits]
    header += [f"measured at {max(limits)}", *(f"s at {n}" for n in limits if n)]
    header += [f"s of full tuning to match {n}" for n in limits] + [f"times faster at {n}" for n in limits if n]
    header.append("trials of full tuning")
    lines = []
    for one in rows:
        cells = [one.subject, f"{one.n_kernels}, {one.n_tunable}, {one.n_with_sources}"]
        cells += [f"{one.speedups[who]:.2f}" for who in (FULL, *map(at, limits))]
        cells += [_percent(one.percent[at(n)]) for n in limits]
        cells += [f"{one.n_measured[max(limits)]:.1f}", *(f"{one.secs[n]:.1f}" for n in limits if n)]
        cells += [_match(one.match[n]) for n in limits]
        cells += [_ratio(one.match[n], one.secs[n]) for n in limits if n]
        lines.append([*cells, str(one.n_full_trials)])
    means = ["**mean**", "", "", *("" for _ in limits)]
    means += [_percent(mean(one.percent[at(n)] for one in rows)) for n in limits]
    means += ["", *("" for n in limits if n), *("" for _ in limits)]
    for n in filter(None, limits):
        ratios = [one.match[n].secs / one.secs[n] for one in rows if one.secs[n] > 0]
        told = geometric_mean(ratios)
        at_least = "at least " if any(one.match[n].is_floor for one in rows) else ""
        means.append(f"{at_least}{told:.1f} (geometric)" if told else "-")
    means.append("")
    return _table(header, [*lines, means])


def _halves(state: State, names: Sequence[str], limits: Sequence[int]) -> str:
    """What the library is worth without the search and the search without the library, in one timing."""
    told = {
        "both, as `transfer` runs": ALL,
        "the library, nothing searched (`--no-search`)": SEEDS_ONLY,
        "the search, no library": SEARCH_ONLY,
    }
    lines = []
    for what, library in told.items():
        pairs = [(state.timed[name, ALL], name) for name in names if (name, library) in state.moved]
        speedups = {n: [_against_full(state, name, timed, at(n, library)) for timed, name in pairs] for n in limits}
        if not pairs or len(pairs) < len(names):
            continue
        shares = [mean(percent_of_maximum(got, full) for got, full in speedups[n]) for n in limits]
        ratios = [geometric_mean(got / full for got, full in speedups[n]) for n in limits]
        worst = [min(got / full for got, full in speedups[n]) for n in limits]
        cells = [*map(_percent, shares), *(f"{ratio:.2f}" if ratio else "-" for ratio in ratios)]
        lines.append([what, *cells, *(f"{ratio:.2f}" for ratio in worst)])
    if len(lines) < len(told):
        return ""
    header = ["", *(f"mean % at {n}" for n in limits), *(f"S at {n} / S full" for n in limits)]
    header += [f"worst at {n}" for n in limits]
    text = "What each half is worth, timed in the same turns (S at n / S full: geometric mean)."
    return "\n\n".join([text, _table(header, lines)])


def _against_full(state: State, name: str, timed: Timed, who: str) -> tuple[float, float]:
    """Speedups of a contender and of full tuning."""
    secs = {one: kernel_secs(state.tuned[name], timed, one) for one in (UNTUNED, who, FULL)}
    return secs[UNTUNED] / secs[who], secs[UNTUNED] / secs[FULL]


def _whole(state: State, limits: Sequence[int]) -> str:
    if not state.whole:
        return ""
    names = [UNTUNED, FULL, SEEDED, *map(at, limits), "onnxruntime"]
    lines = []
    found: dict[str, list[float | None]] = {at(n): [] for n in limits}
    for whole in state.whole.values():
        median = {who: statistics.median(secs) for who, secs in whole.latency_secs.items()}
        cells = [whole.subject, *(f"{median[who] * 1e3:.2f}" if who in median else "-" for who in names)]
        for n in limits:
            shares = percent_of_maximum(median[UNTUNED] / median[at(n)], median[UNTUNED] / median[FULL])
            found[at(n)].append(shares)
            cells.append(_percent(shares))
        lines.append([*cells, "yes" if whole.is_correct else "**no**"])
    lines.append(["**mean**", *("" for _ in names), *(_percent(mean(found[at(n)])) for n in limits), ""])
    header = ["", *(f"{who} ms" for who in names), *(f"% at {n}" for n in limits), "outputs agree"]
    text = "Medians of whole calls, timed in turns, so layouts and caches between kernels count."
    return "\n\n".join(["## The same as whole models", text, _table(header, lines)])


def _commands(state: State) -> str:
    lines = []
    for one in state.command.values():
        secs = one.latency_secs
        speedup = secs[UNTUNED] / secs["tuned"] if one.is_tuned else 1.0
        whole = state.whole.get(one.subject)
        median = {who: statistics.median(runs) for who, runs in whole.latency_secs.items()} if whole else {}
        share = percent_of_maximum(speedup, median[UNTUNED] / median[FULL]) if median else None
        cells = [one.subject, str(one.measurements), f"{one.wall_secs:.0f}", str(one.n_measured)]
        cells += [f"{secs[who] * 1e3:.2f}" if who in secs else "-" for who in (UNTUNED, "tuned", "onnxruntime")]
        lines.append(
            [*cells, _percent(share), str(len(one.network_changes)), "yes" if one.is_correct else "**no**"]
        )
    if not lines:
        return ""
    header = [
        "",
        "measurements per kernel",
        "s in all",
        "measured",
        "untuned ms",
        "transferred ms",
        "onnxruntime ms",
    ]
    header += ["% of the whole model's maximum", "changed inside the model", "outputs agree"]
    text = (
        "`prune-engine transfer MODEL` as a user runs it; the seconds are those of the whole command: importing, "
        "measuring, compiling, deciding inside the model, checking, timing."
    )
    return "\n\n".join(["## By the command", text, _table(header, lines)])


def _seeded(state: State) -> str:
    lines = []
    ratios = []
    for name, seeded in state.seeded.items():
        tuned, timed = state.tuned.get(name), state.timed.get((name, ALL))
        if tuned is None or timed is None or not any(SEEDED in secs for secs in timed.latency_secs.values()):
            continue
        goal = row(tuned, state.moved[name, ALL], timed).speedups
        untuned = sum(
            task.weight * timed.latency_secs.get(task.task_id, {}).get(UNTUNED, task.default_secs or 0.0)
            for task in tuned.tasks
        )
        match = time_to_match(seeded, _as_full(timed), untuned / goal[FULL] * 1.01)
        cold = time_to_match(tuned, timed, untuned / goal[FULL] * 1.01)
        ratios.append(cold.secs / max(match.secs, 0.1))
        n_trials = [sum(len(task.trials) for task in run.tasks) for run in (tuned, seeded)]
        cells = [
            name,
            f"{tuned.seconds:g}",
            f"{goal[FULL]:.2f}",
            f"{goal[SEEDED]:.2f}",
            _match(cold),
            _match(match),
        ]
        lines.append([*cells, f"{n_trials[0]}, {n_trials[1]}"])
    if not lines:
        return ""
    header = ["", "s", "S full", "S with library", "s to S full", "s to S full, with library", "trials"]
    text = (
        "`tune --transfer` on an empty store with the library of the others, for as many seconds; `s to S full` is "
        "when a run came within 1 % of what full tuning had in the end. "
        f"With the library it was there {geometric_mean(ratios) or 0.0:.1f} times as fast (geometric mean)."
    )
    return "\n\n".join(["## Tuning on from there", text, _table(header, lines)])


def _as_full(timed: Timed) -> Timed:
    """The timing with the seeded run in the place of the full one."""
    swapped = {
        task_id: {(FULL if who == SEEDED else who): value for who, value in secs.items() if who != FULL}
        for task_id, secs in timed.latency_secs.items()
    }
    return replace(timed, latency_secs=swapped)


def _policies(moves: Sequence[Moved], limit: int) -> str:
    rows = policy_rows(moves, limit)
    if not rows:
        return ""
    header = ["policy", f"seeds of {limit}", "ran", "refused", "failed", "invalid", "kernels won"]
    return _table([*header, "no seed made of it, because"], [_policy(one) for one in rows])


def _policy(one: PolicyRow) -> list[str]:
    return [
        one.policy,
        str(one.n_seeds),
        str(one.n_ran),
        str(one.n_refused),
        str(one.n_failed),
        _percent(one.invalid_percent, 1),
        str(one.n_wins),
        _counted(one.misses),
    ]


def _lengths(rows: Sequence[Row], limits: Sequence[int]) -> str:
    if not rows:
        return ""
    text = "The transformer at 128 tokens from itself at 64, and the other way round."
    return "\n\n".join(["## Another length of the same model", text, _table_of(rows, limits)])


def _sources(state: State, limit: int) -> str:
    """Which single model a form chooses, and what that is worth."""
    measured = _measured_sources(state, limit)
    if not measured:
        return ""
    targets = [state.tuned[name] for name in measured]
    best = {name: max(of, key=lambda source: of[source]) for name, of in measured.items()}
    lines = []
    for form in FORMS:
        for classes in CLASSES:
            got, n_right = [], 0
            for tuned in targets:
                of = measured[tuned.subject]
                chosen = ranked_sources(tuned, [state.tuned[name] for name in of], form, classes)[0]
                got.append(of[chosen])
                n_right += chosen == best[tuned.subject]
            told = mean(got)
            lines.append((told or 0.0, [f"`{form}`", classes, _percent(told), f"{n_right} of {len(targets)}"]))
    reference = [
        ("the best source, known afterwards", mean(of[best[name]] for name, of in measured.items())),
        ("a source at random", mean(mean(of.values()) for of in measured.values())),
        ("all of them in one pool", mean(_pool(state, tuned, limit) for tuned in targets)),
    ]
    header = ["form", "classes", f"% at {limit}", "chose the best source"]
    ordered = [cells for _, cells in sorted(lines, key=lambda line: -line[0])]
    ordered += [[what, "", _percent(told), ""] for what, told in reference]
    text = (
        f"Each model with each single other model as its library, {limit} measurements per kernel, by the "
        "measurements of those runs. P is a class's share of the target's untuned time, W the number of the "
        "source's kernels of that class; a form sums over classes, `squared` (the published one) P^2 sqrt(W), "
        "`linear` P sqrt(W), `covered` P where W > 0, `count` W where P > 0. Classes of which a source has "
        "the main statement alone (anchor) count as told."
    )
    each = _table(
        ["from", *measured],
        [
            [source, *(_percent(of.get(source)) for of in measured.values())]
            for source in dict.fromkeys(name for of in measured.values() for name in of)
        ],
    )
    return "\n\n".join(["## Choosing one source", text, _table(header, ordered), "By source and target:", each])


def _measured_sources(state: State, limit: int) -> Mapping[str, dict[str, float]]:
    """Percentage of the maximum by target and source, of targets for which all sources were measured."""
    found: dict[str, dict[str, float]] = {}
    names = [name for name in state.tuned if (name, ALL) in state.timed and name not in AWKWARD_NAMES]
    for name in names:
        tuned = state.tuned[name]
        for (target, source), moved in state.moved.items():
            is_pair = target == name and source not in (ALL, name) and (target, source) not in SIBLINGS
            if not is_pair or source not in state.tuned:
                continue
            full = row(tuned, state.moved[name, ALL], state.timed[name, ALL]).speedups[FULL]
            told = percent_of_maximum(own_speedup(tuned, moved, limit), full)
            if told is not None:
                found.setdefault(name, {})[source] = told
    return {name: of for name, of in found.items() if len(of) > 1}


def _pool(state: State, tuned: Tuned, limit: int) -> float | None:
    moved = state.moved[tuned.subject, ALL]
    full = row(tuned, moved, state.timed[tuned.subject, ALL]).speedups[FULL]
    return percent_of_maximum(own_speedup(tuned, moved, limit), full)


def _budgets(state: State) -> str:
    """Seconds and threads of the full tunings, as a phrase."""
    kernels = (*AWKWARD_NAMES, *DONOR_NAMES)
    told = [
        f"{', '.join(sorted({f'{run.seconds:g} s' for run in runs}))} a {what}"
        for what, is_kernel in (("model", False), ("kernel", True))
        if (runs := [run for run in state.tuned.values() if (run.subject in kernels) is is_kernel])
    ]
    threads = ", ".join(str(n) for n in sorted({run.n_threads for run in state.tuned.values()}))
    return f"{' and '.join(told)} (threads: {threads})" if told else "its seconds"


def _dates(state: State) -> str:
    dates = sorted({str(run.machine.get("date", "an unknown day")) for run in state.tuned.values()})
    return "no day" if not dates else dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"


def _loads(state: State) -> str:
    loads = [load for run in state.tuned.values() for load in run.load]
    loads += [load for run in state.moved.values() for load in run.load]
    return f"The load before and after them was {min(loads):.1f} to {max(loads):.1f}." if loads else ""


def _match(match: Match) -> str:
    return f"{'> ' if match.is_floor else ''}{match.secs:.1f}"


def _ratio(match: Match, secs: float) -> str:
    return f"{'> ' if match.is_floor else ''}{match.secs / secs:.1f}" if secs > 0 else "-"


def _counted(counts: Mapping[str, int]) -> str:
    return "; ".join(f"{what}: {n}" for what, n in sorted(counts.items(), key=lambda item: -item[1])) or "-"


def _percent(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:.{digits}f} %"


def _table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *lines))
