"""Decision chains in plain sentences, in the order of the stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from prune_engine.decisions.records import Choices, Decision, ProfileField
from prune_engine.numeric_safety import STRATEGY as SAFETY
from prune_engine.verdicts import Outcome, SelectionReason, Stage

_STAGES = list(Stage)
#: Terms and fields that are told of at most.
_MOST = 4


@dataclass(slots=True)
class Chain:
    """What is needed of a task's decisions to tell about them, gathered in one pass."""

    task: str
    name: str = ""
    n_rounds: int = 0
    runs: set[str] = field(default_factory=set)
    #: By (stage, strategy, outcome, reason): how many, and one line of them.
    counts: dict[tuple[Stage, str, Outcome, str], tuple[int, Decision]] = field(default_factory=dict)
    #: Measured candidates, and how often each other candidate was looked at.
    measured: dict[str, Decision] = field(default_factory=dict)
    looked_at: Counter[str] = field(default_factory=Counter)
    #: By (run, round): the slowest expectation among those chosen by score, and how many were listed.
    cutoffs: dict[tuple[str, int], float] = field(default_factory=dict)
    listed: Counter[tuple[str, int]] = field(default_factory=Counter)
    #: Schedules that were about to ship and were tried on hard inputs, the last check of each.
    checked: dict[str, Decision] = field(default_factory=dict)

    @staticmethod
    def of(task_id: str, decisions: Iterable[Decision]) -> Chain:
        """Gather the decisions of one task."""
        chain = Chain(task_id)
        rounds: set[tuple[str, int]] = set()
        for decision in decisions:
            chain._take(decision)
            if decision.round:
                rounds.add((decision.run, decision.round))
        chain.n_rounds = len(rounds)
        return chain

    @property
    def ranked(self) -> list[Decision]:
        """What was measured and ran to the end, fastest first."""
        ran = [d for d in self.measured.values() if d.measured and d.measured.latency_secs is not None]
        return sorted(ran, key=_latency)

    def _take(self, decision: Decision) -> None:
        self.name = decision.task_name or self.name
        self.runs.add(decision.run)
        key = decision.stage, decision.strategy, decision.outcome, _short(decision.reason)
        n, first = self.counts.get(key, (0, decision))
        self.counts[key] = n + decision.count, first
        if decision.candidate is None:
            return
        if decision.strategy == SAFETY:  # no round looked at it: the run was over
            self.checked[decision.candidate] = decision
            return
        here = decision.run, decision.round
        self.looked_at[decision.candidate] += 1
        self.listed[here] += 1
        if decision.measured is not None:
            self.measured[decision.candidate] = decision
        if decision.selected_as is SelectionReason.TOP and decision.predicted_secs is not None:
            self.cutoffs[here] = max(self.cutoffs.get(here, 0.0), decision.predicted_secs)


def explain_task(chain: Chain) -> list[str]:
    """What became of all candidates of a task."""
    runs = f" of {len(chain.runs)} runs" if len(chain.runs) > 1 else ""
    told = [
        f"Task {chain.name or chain.task}: in {_counted(chain.n_rounds, 'round')}{runs} "
        f"{_counted(len(chain.looked_at), 'candidate')} came on a draft list, {len(chain.measured):,} were tried."
    ]
    ordered = sorted(chain.counts.items(), key=lambda item: (_STAGES.index(item[0][0]), -item[1][0]))
    for (stage, strategy, outcome, reason), (n, first) in ordered:
        if outcome is Outcome.KEPT:
            continue
        if stage is Stage.RULE and outcome is Outcome.FAILED:  # the rule was wrong, not a candidate
            told.append(f"After round {first.round} {strategy} was {reason}; it judged this task no more.")
            continue
        if strategy == SAFETY:  # told one by one
            continue
        what = "candidates were" if n != 1 else "candidate was"
        if first.candidate is not None and stage in (Stage.TASK_SPACE, Stage.RULE, Stage.DRAFT):
            told.append(
                f"{n:,} more that {strategy} drops came on a list to check that guess (audits), but were not drawn."
            )
            continue
        example = "for example, " if first.candidate is None and n > 1 and stage is Stage.RULE else ""
        told.append(
            f"{_where(stage)}{n:,} {what} {outcome.value} by {strategy} ({first.kind.value}): "
            f"{example}{reason}{_read(first.hardware_basis) if stage in (Stage.TASK_SPACE, Stage.RULE) else ''}."
        )
    for check in chain.checked.values():
        if check.outcome is Outcome.FAILED:
            told.append(f"Candidate {check.candidate} does not ship: {check.strategy} found it {check.reason}.")
    if ranked := chain.ranked:
        best, worst = ranked[0], ranked[-1]
        told.append(f"The best that was measured is {best.candidate}: {duration_text(_latency(best))}.")
        times = _latency(worst) / _latency(best)
        told.append(
            f"The slowest is {worst.candidate}: {duration_text(_latency(worst))}, {times:.3g} times as long."
        )
    return told


def explain_candidate(chain: Chain, fates: Sequence[Decision]) -> list[str]:
    """What became of one candidate, of which there are ``fates``, one for each round that looked at it."""
    fates = [d for d in fates if d.strategy != SAFETY]
    last = next((d for d in fates if d.measured is not None), fates[-1])
    told = [f"Candidate {last.candidate} of sketch {last.sketch}: {choices_text(last.decisions or {})}."]
    numbers = [d.round for d in fates]
    if len(fates) > 1:
        told.append(
            f"{len(fates)} rounds of {chain.n_rounds} looked at it closely, the first was round {min(numbers)} and "
            f"the last round {max(numbers)}; this is round {last.round}."
        )
    else:
        told.append(f"One round of {chain.n_rounds} looked at it closely: round {last.round}.")
    told += _rules(last)
    told += _draft(last, chain.listed[last.run, last.round])
    told += _verifier(last)
    told += _selector(last, chain)
    told += _measurement(last, chain)
    if (check := chain.checked.get(last.candidate or "")) is not None:
        may_ship = "" if check.outcome is Outcome.KEPT else ": it does not ship"
        told.append(f"When it was about to ship {check.strategy} found it {check.reason}{may_ship}.")
    return told


def choices_text(decisions: Choices) -> str:
    """Decisions by variable, as ``--why-not`` takes them."""
    if not decisions:
        return "nothing to choose"
    return " ".join(
        f"{name}={value if isinstance(value, int) else ','.join(map(str, value))}"
        for name, value in decisions.items()
    )


def _rules(decision: Decision) -> list[str]:
    if decision.stage in (Stage.TASK_SPACE, Stage.RULE):
        return [
            f"The rule {decision.strategy} ({decision.kind.value}) {decision.outcome.value} it: {decision.reason}"
            f"{_read(decision.hardware_basis)}."
        ]
    if decision.selected_as is SelectionReason.AUDIT:
        return [f"A guess had dropped it: {decision.reason}."]
    if decision.selected_as is SelectionReason.SEED:
        return ["It comes from the library; of rules only those on legality were asked."]
    if decision.selected_as is SelectionReason.WHITELIST:
        return ["It is whitelisted; of rules only those on legality count."]
    if decision.selected_as is SelectionReason.PROBE:
        return ["No legality rule dropped it; heuristics are not asked about probes."]
    return ["No rule dropped it."]


def _draft(decision: Decision, n_listed: int) -> list[str]:
    evidence = decision.evidence
    rank = evidence.get("draft_rank")
    if rank is None:
        return []
    text = f"The draft put it at place {rank:.0f} of the {n_listed:,} that were looked at"
    if (secs := evidence.get("draft_latency_secs")) is not None:
        text += f": it computes {duration_text(secs)}"
        terms = {
            name: value
            for name, value in evidence.items()
            if name.endswith("_secs") and not name.startswith("draft_") and value > 0
        }
        if terms:
            largest = sorted(terms.items(), key=lambda item: -item[1])[:_MOST]
            text += ", from " + ", ".join(
                f"{name.removesuffix('_secs')} {duration_text(value)}" for name, value in largest
            )
    penalties = sorted(
        (value, name.removeprefix("penalty_")) for name, value in evidence.items() if name.startswith("penalty_")
    )
    if penalties:
        listed = ", ".join(f"{name} {value:.2g}" for value, name in penalties[:_MOST])
        text += f"; of its peak it loses by {listed} (1 is nothing)"
    return [f"{text}{_read(decision.hardware_basis)}."]


def _verifier(decision: Decision) -> list[str]:
    evidence = decision.evidence
    prob, limit = evidence.get("degradation_prob"), evidence.get("skip_above")
    if prob is None or limit is None:
        return []
    text = f"The verifier gave it a probability of {prob:.1%} of being clearly slower than the best"
    text += f" (above {limit:.0%} it skips)" if limit < 1 else " (it skipped nothing yet)"
    if decision.predicted_secs is not None and decision.stage is not Stage.DRAFT:
        text += f"; it expected {duration_text(decision.predicted_secs)}"
        if decision.expected_gain:
            text += f", {decision.expected_gain:.3g} times the speed of the best until then"
    told = [f"{text}."]
    if decision.stage is Stage.VERIFY:
        told.append(f"{decision.strategy} dropped it: {_short(decision.reason)}.")
        if prob > limit:
            told.append(f"To be measured it would have needed a probability of at most {limit:.0%}.")
    return told


def _selector(decision: Decision, chain: Chain) -> list[str]:
    if decision.stage is Stage.DRAFT:
        return [f"{decision.strategy} {decision.outcome.value} it: {decision.reason}."]
    if decision.selected_as is not None:
        why = decision.reason if decision.stage is Stage.SELECT else _CHOICES[decision.selected_as]
        return [f"It was chosen as {decision.selected_as.value}: {why}."]
    if decision.stage is not Stage.SELECT:
        return []
    told = [f"{decision.strategy} did not take it: {decision.reason}."]
    cutoff = chain.cutoffs.get((decision.run, decision.round))
    if cutoff and decision.predicted_secs:
        factor = decision.predicted_secs / cutoff
        if factor > 1:
            told.append(
                f"Of those chosen by score the last was expected to take {duration_text(cutoff)}: it would "
                f"have had to promise {factor:.3g} times the speed."
            )
        else:
            told.append(
                "Others of a lower score were taken because they are less like those chosen before: it would have "
                "had to differ more from them."
            )
    return told


_CHOICES = {
    SelectionReason.TOP: "it was among the best by score",
    SelectionReason.EXPLORE: "it was drawn at random from the draft list",
    SelectionReason.AUDIT: "to see whether what dropped it was right",
    SelectionReason.PROBE: "it was drawn for what it teaches",
    SelectionReason.SEED: "it was good for a kernel like this",
    SelectionReason.WHITELIST: "it is whitelisted as correct and fast",
}


def _measurement(decision: Decision, chain: Chain) -> list[str]:
    if decision.stage is Stage.MEASURE and decision.outcome is not Outcome.FAILED and decision.measured is None:
        return [f"{decision.strategy} {decision.outcome.value} it: {decision.reason}."]
    measured = decision.measured
    if measured is None:
        return ["It was not measured."]
    if measured.error is not None or measured.latency_secs is None:
        return [f"It could not be measured: {measured.error}."]
    text = f"It took {duration_text(measured.latency_secs)}"
    if decision.predicted_secs:
        text += (
            f", {measured.latency_secs / decision.predicted_secs:.3g} times what {decision.predicted_by} expected"
        )
    if measured.is_censored:
        text += "; timing stopped early, as it was clearly slower than the best"
    told = [f"{text}."]
    best = chain.ranked[0]
    if best.candidate == decision.candidate:
        told.append("It is the best that was measured of this task.")
    else:
        factor = measured.latency_secs / _latency(best)
        told.append(
            f"The best, {best.candidate}, takes {duration_text(_latency(best))}: it would have to be "
            f"{factor:.3g} times as fast."
        )
    return told


def _read(basis: Sequence[ProfileField]) -> str:
    """What was read in the profile, in brackets."""
    known = [f"{item.field} {'unknown' if item.value is None else item.value}" for item in basis]
    if not known:
        return ""
    more = f" and {len(known) - _MOST} more" if len(known) > _MOST else ""
    return f" (profile: {', '.join(known[:_MOST])}{more})"


def _where(stage: Stage) -> str:
    return "Before the first round, " if stage is Stage.TASK_SPACE else ""


def _latency(decision: Decision) -> float:
    measured = decision.measured
    assert measured is not None, "only of what was measured"
    assert measured.latency_secs is not None, "only of what ran"
    return measured.latency_secs


def _short(reason: str) -> str:
    """A verifier's reason without the numbers that change from round to round."""
    return reason.partition("; the threshold")[0]


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def duration_text(secs: float) -> str:
    """Seconds with the unit that suits them."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if secs >= size:
            return f"{secs / size:.4g} {unit}"
    return f"{secs / 1e-9:.4g} ns"
