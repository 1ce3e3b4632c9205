"""Decision chains as the page's script reads them: compact, each text once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prune_engine.report.records import ChainStep, TaskReport, Trial

#: Candidates of one report whose chains are in it. A chain takes about 100 bytes once packed.
MAX_CHAINS = 30_000


class Texts:
    """Texts by number, each kept once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The number of a text."""
        return self._numbers.setdefault(text, len(self._numbers))

    @property
    def all(self) -> list[str]:
        """The texts in the order of their numbers."""
        return list(self._numbers)


def candidate_rows(task: TaskReport, texts: Texts, limit: int) -> list[list[Any]]:
    """The trials of a task with their chains, at most ``limit`` of them: failures and the fastest stay.

    A row is id, number, milliseconds or None, what kind of result it was, why it was chosen, milliseconds that
    the draft foresaw or None, those that the verifier foresaw or None, and the steps: stage, strategy, outcome,
    reason, basis and the evidence as name and value in turn; texts by number.
    """
    kept = task.trials
    if len(kept) > limit:
        order = sorted(kept, key=lambda t: (t.error_kind is None, t.latency_secs or 0.0))
        chosen = {t.number for t in order[:limit]}
        kept = tuple(t for t in kept if t.number in chosen)
    return [_row(trial, task.chains.get(trial.candidate_id, ()), texts) for trial in kept]


def _row(trial: Trial, chain: Sequence[ChainStep], texts: Texts) -> list[Any]:
    result = trial.error_kind or ("stopped early" if trial.is_censored else "measured")
    return [
        trial.candidate_id,
        trial.number,
        _millis(trial.latency_secs),
        texts.number(result),
        texts.number(trial.chosen_as),
        _millis(trial.draft_secs),
        _millis(trial.verifier_secs),
        [_step(step, texts) for step in chain],
    ]


def _step(step: ChainStep, texts: Texts) -> list[Any]:
    evidence: list[Any] = []
    for name, value in step.evidence.items():
        evidence += [texts.number(name), _short(value)]
    words = (step.stage, step.strategy, step.outcome, step.reason, step.basis)
    return [*map(texts.number, words), evidence]


def _millis(secs: float | None) -> float | None:
    return None if secs is None else _short(secs * 1e3)


def _short(value: float | None) -> float | None:
    """Four significant digits; what JSON has no number for is None."""
    if value is None or value != value or value in (float("inf"), float("-inf")):
        return None
    return float(f"{value:.4g}")
