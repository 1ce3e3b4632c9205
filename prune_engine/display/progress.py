"""What is shown while tuning: a live table on a terminal, lines elsewhere, JSON lines for machines."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from prune_engine.display.streams import say
from prune_engine.display.tables import shortened
from prune_engine.lifecycle import Observer, TaskSummary

#: Seconds between two lines where the output is not a terminal.
_LINE_INTERVAL_SECS = 10.0
_MAX_ROWS = 24
#: Lines of the live display besides the rows: header, totals and phase, which may each take two, and the cursor's.
_OTHER_LINES = 6
#: Columns that the figures beside a task's name take at most, the least that is left for the name, and what is
#: between two columns.
_FIGURES_WIDTH, _MIN_NAME_WIDTH, _GAP = 66, 14, 2
_COLUMNS = ("calls", "untuned", "best", "gain", "trials", "valid", "state")
_NARROW_COLUMNS = ("untuned", "best", "gain")


class LiveProgress(Observer):
    """A table that is redrawn in place. Use it as a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = ""
        self._body: Table | Text = Text("")
        self._footer = ""
        self._live = Live(self._render(), console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> LiveProgress:
        self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.stop()

    def on_status(self, message: str) -> None:
        """Show the phase; a warning stays, above the table."""
        if message.startswith("warning: "):
            self._console.print(message, markup=False, highlight=False, soft_wrap=True)
            return
        self._status = message
        self._live.update(self._render())

    def on_tasks(
        self,
        tasks: Sequence[TaskSummary],
        elapsed_secs: float,
        left_secs: float | None,
        n_trials_left: int | None,
    ) -> None:
        """Show every task that has choices, the most expensive first."""
        tunable = [t for t in tasks if t.space_size > 1]
        shown = sorted(tunable, key=_cost_secs, reverse=True)
        # What is higher than the terminal is cut at its end, where the totals and the phase are.
        shown = shown[: max(1, min(_MAX_ROWS, self._console.height - _OTHER_LINES))]
        self._body = task_table(shown, self._console.width)
        hidden = len(tunable) - len(shown)
        parts = [
            *([f"{hidden} more tasks"] if hidden else []),
            f"{sum(t.n_trials for t in tasks)} trials",
            f"{elapsed_secs:.0f} s gone",
            *([f"{max(left_secs, 0):.0f} s left"] if left_secs is not None else []),
            *([f"{n_trials_left} trials left"] if n_trials_left is not None else []),
        ]
        self._footer = ", ".join(parts)
        self._live.update(self._render())

    def _render(self) -> Group:
        return Group(self._body, Text(self._footer, style="dim"), Text(self._status, style="bold"))


class LineProgress(Observer):
    """A line per phase, and one now and then while tuning."""

    def __init__(self) -> None:
        self._last_secs = time.monotonic()

    def on_status(self, message: str) -> None:
        """Print the phase."""
        say(message)

    def on_tasks(
        self,
        tasks: Sequence[TaskSummary],
        elapsed_secs: float,
        left_secs: float | None,
        n_trials_left: int | None,
    ) -> None:
        """Print the totals if the last line is long enough ago."""
        if time.monotonic() - self._last_secs < _LINE_INTERVAL_SECS:
            return
        self._last_secs = time.monotonic()
        before = sum(t.weight * t.default_secs for t in tasks if t.default_secs)
        after = sum(t.weight * (t.best_secs or t.default_secs or 0.0) for t in tasks)
        n_trials, n_valid = sum(t.n_trials for t in tasks), sum(t.n_valid for t in tasks)
        line = f"  {elapsed_secs:.0f} s: {n_trials} trials ({n_valid} valid)"
        if before:
            line += f", kernels {_ms(before)} -> {_ms(after)}"
        if left_secs is not None:
            line += f", {max(left_secs, 0):.0f} s left"
        if n_trials_left is not None:
            line += f", {n_trials_left} trials left"
        say(line)


class JsonProgress(Observer):
    """One JSON object per line on stderr, so that the result stays alone on stdout."""

    def on_status(self, message: str) -> None:
        """Write the phase."""
        self._write({"event": "status", "message": message})

    def on_tasks(
        self,
        tasks: Sequence[TaskSummary],
        elapsed_secs: float,
        left_secs: float | None,
        n_trials_left: int | None,
    ) -> None:
        """Write the totals."""
        self._write(
            {
                "event": "progress",
                "elapsed_secs": round(elapsed_secs, 3),
                "left_secs": None if left_secs is None else round(left_secs, 3),
                "n_trials": sum(t.n_trials for t in tasks),
                "n_trials_left": n_trials_left,
                "n_valid": sum(t.n_valid for t in tasks),
                "kernel_secs_before": sum(t.weight * t.default_secs for t in tasks if t.default_secs),
                "kernel_secs_after": sum(t.weight * (t.best_secs or t.default_secs or 0.0) for t in tasks),
            }
        )

    @staticmethod
    def _write(event: dict[str, object]) -> None:
        say(json.dumps(event))


def task_table(tasks: Sequence[TaskSummary], width: int) -> Table:
    """Per task: calls, untuned, best, gain, trials, valid share, state, in ``width`` columns.

    Names are shortened in the middle: kernels of a model differ at the end as often as at the start. On a narrow
    terminal only the latencies and the gain are left.
    """
    cells = [_cells(task) for task in tasks]
    taken = {name: _GAP + max([len(name), *(len(row[name]) for row in cells)]) for name in _COLUMNS}
    columns = _COLUMNS if width >= _MIN_NAME_WIDTH + _FIGURES_WIDTH else _NARROW_COLUMNS
    name_width = max(_MIN_NAME_WIDTH, width - sum(taken[name] for name in columns))
    table = Table(box=None, pad_edge=False)
    table.add_column("task", no_wrap=True)
    for name in columns:
        table.add_column(name, justify="left" if name == "state" else "right", no_wrap=True)
    for task, row in zip(tasks, cells, strict=True):
        name = task.name if len(task.name) <= name_width else shortened(task.name, name_width)
        table.add_row(name, *(row[column] for column in columns))
    return table


def _cells(task: TaskSummary) -> dict[str, str]:
    return {
        "calls": str(task.weight),
        "untuned": _ms(task.default_secs),
        "best": _ms(task.best_secs),
        "gain": f"{task.speedup:.2f}x" if task.speedup else "-",
        "trials": str(task.n_trials),
        "valid": f"{100 * task.n_valid / task.n_trials:.0f} %" if task.n_trials else "-",
        "state": task.stop_reason,
    }


def _cost_secs(task: TaskSummary) -> float:
    return task.weight * (task.default_secs or 0.0)


def _ms(secs: float | None) -> str:
    if secs is None:
        return "-"
    return f"{secs * 1e3:.3g} ms" if secs >= 1e-4 else f"{secs * 1e6:.3g} us"
