"""The page on the gap to onnxruntime: where it is, and what causes it, in words made of the numbers."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from gap_groups import (
    COUNTED,
    FLOP_TOLERANCE,
    REORDER,
    Group,
    Pair,
    Shares,
    groups_of,
    losers_of,
    pairs_of,
    rivals_of,
    shares_of,
    total_of,
    verdict_of,
)
from gap_records import Experiment, HotBlock, Kernel, Profile, State

PAGE = "onnxruntime_gap.md"
OURS, THEIRS = "tuned", "onnxruntime"
#: Shares below this part of a kernel's gap are not worth a word.
_WORTH_TELLING = 0.05


def write(state: State, out: Path, n_threads: int, n_kernels: int) -> Path:
    """Write the page of all models profiled on so many threads; returns its path."""
    profiles = [
        state.last_profiles.get(key, profile) for key, profile in state.profiles.items() if key[1] == n_threads
    ]
    out.mkdir(parents=True, exist_ok=True)
    path = out / PAGE
    path.write_text(page(state, profiles, n_threads, n_kernels), encoding="utf-8")
    return path


def page(state: State, profiles: Sequence[Profile], n_threads: int, n_kernels: int) -> str:
    """The whole page."""
    threads = "one thread" if n_threads == 1 else f"{n_threads} threads"
    intro = f"""# Where onnxruntime is faster, and why

Written by `python tests/benchmarks/onnxruntime_gap.py`, everything on {threads}. Of each model the tuned kernels
are timed between their neighbours inside the model, and onnxruntime's nodes by its own profile, in turns. Figures
are first quartiles of single calls, which tell what an undisturbed call takes as long as some are, and of these the
medians over the turns. What onnxruntime computes in nodes of their own and we fuse to a kernel (additions,
activations) is under `other` there and in the kernel here. FLOP are those of the convolutions and products alone,
and must agree within {FLOP_TOLERANCE:.0%} for a row to be of the same work. `reorder` is what onnxruntime pays for
its packed layouts.

The kernels that lose most are then examined by themselves. *Schedule*: what a longer search of the same space
gains. *Space*: what the same operator gains beyond that in the packed layout of onnxruntime's kernel, its weights
packed beforehand, searched for as many trials. *Code generation*: what is still missing to onnxruntime's time; what
more trials in the packed layout would find is in it.
*Neighbours*: what the kernel takes longer inside the model than by itself. A kernel's verdict is the largest of
the first three.
"""
    parts = [intro, *(_model(state, profile, n_kernels) for profile in profiles)]
    if not profiles:
        parts.append("No model was profiled yet.")
    parts += [_conditions(state, profiles)] if profiles else []
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _model(state: State, profile: Profile, n_kernels: int) -> str:
    chosen = losers_of(state.profiles.get((profile.model, profile.n_threads), profile), n_kernels)
    known = state.experiments_of(profile)
    examined = [(pair, known[pair.kernel.task_id]) for pair in pairs_of(profile) if pair.kernel.task_id in known]
    parts = [f"## {profile.model}", _whole(profile), "### By operator", _by_operator(profile)]
    if not chosen:
        parts.append("No kernel loses to a node of the same work.")
    elif examined:
        parts += [
            "### The kernels that lose most",
            _kernels(examined),
            _code(profile, examined),
            _verdicts(examined),
        ]
    if left := [pair for pair in chosen if pair.kernel.task_id not in known]:
        parts.append("Not timed yet: " + ", ".join(f"`{pair.kernel.name}`" for pair in left) + ".")
    parts += ["### Summary", _summary(profile, examined)]
    return "\n\n".join(part for part in parts if part)


def _whole(profile: Profile) -> str:
    medians = {who: statistics.median(secs) for who, secs in profile.whole_secs.items()}
    text = f"A whole call takes {_ms(medians[OURS])} ms"
    if THEIRS in medians:
        ratio = medians[OURS] / medians[THEIRS]
        text += f", onnxruntime's {_ms(medians[THEIRS])} ms: {ratio:.2f} times as long"
        text += "" if ratio > 1 else ", so that there is no gap; kernels can lose all the same"
    peak = profile.peak_flop_per_sec
    told = f" Multiply-adds in registers reach {_giga(peak)} GFLOP/s here." if peak else ""
    return f"{text}.{told}"


def _by_operator(profile: Profile) -> str:
    groups = groups_of(profile)
    gap_secs = sum(group.gap_secs for group in groups)
    lines = [_group(group, gap_secs) for group in groups]
    ours, theirs = sum(g.our_secs for g in groups), sum(g.their_secs for g in groups)
    lines.append(["all", "", "", "", _ms(ours), _ms(theirs), "", "", _signed(gap_secs), ""])
    header = ["operator", "kernels", "nodes", "MFLOP", "ms", "onnxruntime ms", "GFLOP/s", "onnxruntime GFLOP/s"]
    return _table([*header, "lost ms", "of the gap"], lines)


def _group(group: Group, gap_secs: float) -> list[str]:
    counted = group.their_flop is not None
    flop = f"{group.our_flop / 1e6:.1f}" if counted else "-"
    if group.is_same_work is False:
        flop += f", but {(group.their_flop or 0) / 1e6:.1f} in onnxruntime"
    return [
        group.kind,
        str(group.n_kernels),
        str(group.n_nodes),
        flop,
        _ms(group.our_secs),
        _ms(group.their_secs),
        _rate(group.our_flop, group.our_secs) if counted else "-",
        _rate(group.their_flop, group.their_secs),
        _signed(group.gap_secs),
        f"{group.gap_secs / gap_secs:.0%}" if gap_secs > 0 else "-",
    ]


def _kernels(examined: Sequence[tuple[Pair, Experiment]]) -> str:
    lines = []
    for pair, experiment in examined:
        shares = shares_of(pair, experiment)
        lines.append(
            [
                _title(pair),
                str(pair.kernel.weight),
                _ms(pair.kernel.call_secs),
                _ms(pair.their_secs),
                *(_with_cached(experiment, name) for name in ("first", "long", "packed")),
                f"{experiment.n_first_trials}, {experiment.n_trials}, {experiment.n_packed_trials or '-'}",
                _ms(experiment.relayout_secs),
                _signed(shares.neighbours),
                _signed(shares.schedule),
                _signed(shares.space),
                _signed(shares.code),
                verdict_of(shares) or "none",
            ]
        )
    header = ["kernel", "calls", "in the model", "onnxruntime", "alone", "longer search", "packed", "trials"]
    header += ["re-layout", "neighbours", "schedule", "space", "code generation", "verdict"]
    text = (
        "Milliseconds of one call. Trials are those of the first tuning, of the longer search with them, and in "
        "the packed layout. The re-layout of activations is not in the packed figure: a model that is packed "
        "throughout pays for it at its ends. By itself a kernel is timed with weights that are not in the core's "
        "own caches, as inside a model; in brackets with weights that are, which is how it was tuned."
    )
    return f"{text}\n\n{_table(header, lines)}"


def _with_cached(experiment: Experiment, name: str) -> str:
    """Milliseconds, and in brackets those with the weights in the cache."""
    secs = getattr(experiment, f"{name}_secs")
    cached = f" ({_ms(experiment.cached_secs[name])})" if name in experiment.cached_secs else ""
    return f"{_ms(secs)}{cached}"


def _code(profile: Profile, examined: Sequence[tuple[Pair, Experiment]]) -> str:
    lines = []
    for pair, experiment in examined:
        plain_secs = min(experiment.first_secs, experiment.long_secs)
        for layout, secs, block in (
            ("as imported", plain_secs, experiment.block),
            (f"`{experiment.packing}`", experiment.packed_secs, experiment.packed_block),
        ):
            if secs is not None:
                lines.append([_title(pair), layout, *_rates(profile, pair.kernel, secs), *_cells(block)])
        lines.append([_title(pair), "onnxruntime", *_rates(profile, pair.kernel, pair.their_secs), *_cells(None)])
        if experiment.packed_secs is None:
            lines[-2][1] += f" ({experiment.packing})"
    header = ["kernel", "layout", "GFLOP/s", "of the peak", "bits", "multiply-adds", "of vector instructions"]
    text = (
        "The best schedule's machine code in either layout: the straight piece that has most multiply-adds, how "
        "many, their share of its instructions on vector registers, those that spill to the stack, and calls of "
        "functions (without multiply-adds: the piece that has most calls)."
    )
    return f"{text}\n\n{_table([*header, 'spills', 'calls'], lines)}"


def _rates(profile: Profile, kernel: Kernel, secs: float) -> list[str]:
    peak = profile.peak_flop_per_sec
    if kernel.kind not in COUNTED:
        return ["-", "-"]
    return [_rate(kernel.flop_count, secs), f"{kernel.flop_count / secs / peak:.0%}" if peak else "-"]


def _cells(block: HotBlock | None) -> list[str]:
    if block is None:
        return ["-"] * 5
    where = "" if block.is_loop else " (no loop)"
    share = f"{block.n_fma / block.n_vector:.0%}" if block.n_vector else "-"
    return [
        str(block.vector_bits or "-"),
        f"{block.n_fma}{where}",
        share,
        str(block.n_spills),
        str(block.n_calls),
    ]


def _verdicts(examined: Sequence[tuple[Pair, Experiment]]) -> str:
    return "\n".join(f"- {_title(pair)}: {_sentence(pair, experiment)}" for pair, experiment in examined)


def _sentence(pair: Pair, experiment: Experiment) -> str:
    """What the numbers of one kernel say."""
    shares = shares_of(pair, experiment)
    gap_secs = shares.gap_secs
    least_secs = _WORTH_TELLING * gap_secs
    parts = []
    if shares.schedule > least_secs:
        parts.append(f"{_ms(shares.schedule)} ms are the schedule: {_longer(experiment)} finds them")
    if experiment.packed_secs is None:
        parts.append(f"no other layout was tried ({experiment.packing})")
    elif shares.space > least_secs:
        parts.append(f"{_ms(shares.space)} ms are the space: the packed layout has them (`{experiment.packing}`)")
    else:
        parts.append("the packed layout gains nothing worth telling")
    if shares.code > least_secs:
        parts.append(f"{_ms(shares.code)} ms are code generation")
    elif shares.code < -least_secs:
        parts.append(f"the best of ours is {_ms(-shares.code)} ms faster than onnxruntime's node")
    if shares.neighbours > least_secs:
        parts.append(f"{_ms(shares.neighbours)} ms are lost only between its neighbours")
    verdict = verdict_of(shares)
    told = f"**{verdict}**" if verdict else "**none of the three**"
    if rivals := rivals_of(shares):
        told += f", and nearly as much {' and '.join(rivals)}"
    return f"{told}. Of {_ms(gap_secs)} ms a call, {'; '.join(parts)}."


def _longer(experiment: Experiment) -> str:
    """The longer search, in words."""
    if experiment.n_trials <= 1:
        return "its space's only schedule, which a tuning does not try,"
    if experiment.n_first_trials == 0:
        return "the first tuning had no trial left for it, and a search"
    return f"a search of {experiment.n_trials / experiment.n_first_trials:.1f} times the trials"


def _summary(profile: Profile, examined: Sequence[tuple[Pair, Experiment]]) -> str:
    groups = groups_of(profile)
    ours, theirs = sum(g.our_secs for g in groups), sum(g.their_secs for g in groups)
    reorder_secs = sum(group.their_secs for group in groups if group.kind == REORDER)
    whole = {who: statistics.median(secs) for who, secs in profile.whole_secs.items()}
    shares = total_of(shares_of(pair, one).times(pair.kernel.weight) for pair, one in examined)
    lines = []
    if THEIRS in whole:
        lines.append(
            f"- Whole calls differ by {_signed(whole[OURS] - whole[THEIRS])} ms, operators by "
            f"{_signed(ours - theirs)} ms; the rest is what either spends between operators, and load."
        )
    if reorder_secs:
        lines.append(f"- onnxruntime spends {_ms(reorder_secs)} ms on re-ordering, which is in its time.")
    if examined:
        lines.append(f"- {_of_the_gap(shares, ours - theirs, len(examined))}")
        lines.append(f"- {_not_examined(ours - theirs, shares)}")
    return "\n".join(lines)


def _of_the_gap(shares: Shares, gap_secs: float, n_examined: int) -> str:
    kernels = "one kernel" if n_examined == 1 else f"{n_examined} kernels"
    return (
        f"Of the operators' gap of {_signed(gap_secs)} ms, {kernels} that lose most account for "
        f"{_ms(shares.gap_secs)} ms: schedule {_signed(shares.schedule)}, space {_signed(shares.space)}, "
        f"code generation {_signed(shares.code)}, neighbours {_signed(shares.neighbours)}. "
        f"Of the three causes {verdict_of(shares) or 'none'} has most."
    )


def _not_examined(gap_secs: float, shares: Shares) -> str:
    rest_secs = gap_secs - shares.gap_secs
    if rest_secs < 0:
        return f"All other operators together win {_ms(-rest_secs)} ms."
    return f"The other {_ms(rest_secs)} ms are spread over operators that were not examined."


def _conditions(state: State, profiles: Sequence[Profile]) -> str:
    loads = [load for profile in profiles for load in profile.load]
    loads += [load for profile in profiles for one in state.experiments_of(profile).values() for load in one.load]
    rows = [[name.replace("_", " "), str(value)] for name, value in profiles[0].machine.items()]
    text = f"The load before and after each part was {min(loads):.1f} to {max(loads):.1f}."
    if max(loads) > 1.5:
        text += (
            " Other programs used the same processors meanwhile: kernels and nodes are timed in pieces so short "
            "that most are left alone, but whole calls are slower than on an idle machine."
        )
    known = [one for profile in profiles for one in state.experiments_of(profile).values()]
    if known:
        widest = max(one.spread for one in known)
        usual = statistics.median(one.spread for one in known)
        text += (
            f" From turn to turn a kernel's figures range over {usual:.0%} of their median, {widest:.0%} at most."
        )
    return "\n\n".join(["## Conditions", text, _table(["", ""], rows)])


def _title(pair: Pair) -> str:
    kernel = pair.kernel
    return f"{kernel.kind} {'x'.join(map(str, kernel.sizes))}"


def _ms(secs: float | None) -> str:
    return "-" if secs is None else f"{secs * 1e3:.3f}" if abs(secs) < 0.01 else f"{secs * 1e3:.2f}"


def _signed(secs: float) -> str:
    return f"{secs * 1e3:+.3f}" if abs(secs) < 0.01 else f"{secs * 1e3:+.2f}"


def _rate(flop_count: int | None, secs: float) -> str:
    return "-" if not flop_count or secs <= 0 else _giga(flop_count / secs)


def _giga(per_sec: float) -> str:
    return f"{per_sec / 1e9:.0f}" if per_sec >= 1e10 else f"{per_sec / 1e9:.1f}"


def _table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *lines))
