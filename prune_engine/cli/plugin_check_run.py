"""Check a plugin in a process of its own, and go on with the next check where one hangs or crashes it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from prune_engine.cli.plugin_check_targets import CheckTarget

#: Checks that may take the process with them before the rest is given up.
_MAX_LOST = 5
_POLL_SECS = 0.1
#: Loading the compiler and making spaces is no check, and takes seconds.
_MIN_PREPARE_SECS = 120.0
_CHILD = "prune_engine.cli.plugin_check_child"
_NOT_CASES = ("loads", "hooks", "spaces")
#: What pytest prints of cases, which tells nothing.
_DOTS = re.compile(r"[.FEsxX]+(\s*\[\s*\d+%\])?")


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One check of a plugin or a strategy, over all of its cases. ``status``: passed, failed, warning or skipped.

    ``who``, ``got``, ``expected`` and ``remedy`` are of the first case that did not pass.
    """

    subject: str
    kind: str
    check: str
    status: str
    n_cases: int
    failed_cases: tuple[str, ...] = ()
    who: str = ""
    got: str = ""
    expected: str = ""
    remedy: str = ""


@dataclass(slots=True)
class CheckReport:
    """A plugin, what it registers, and how its checks went."""

    name: str
    hooks: tuple[str, ...] = ()
    strategies: tuple[str, ...] = ()
    rows: list[CheckRow] = field(default_factory=list)

    @property
    def failed(self) -> list[CheckRow]:
        """The checks that failed."""
        return [row for row in self.rows if row.status == "failed"]


def run_checks(target: CheckTarget, limit_secs: float, say: Callable[[str], None]) -> CheckReport:
    """Check one plugin; a single check may take ``limit_secs``. ``say`` is told of what takes long."""
    report, lost = CheckReport(target.name), 0
    cases: list[dict[str, Any]] = []
    done: list[str] = []
    while True:
        events, ending = _one_process(target, limit_secs, done)
        started = ""
        for event in events:
            if event["event"] == "start":
                started = event["id"]
            elif event["event"] == "plugin":
                report.hooks, report.strategies = tuple(event["hooks"]), tuple(event["strategies"])
            elif event["event"] == "case":
                if event["id"] not in done:
                    cases.append(event)
                done.append(event["id"])
        if ending is None:
            break
        lost += 1
        cases.append(_lost_case(target, started, ending))
        done.append(started)
        say(f"{cases[-1]['check'].replace('_', ' ')}: {ending}")
        if started in _NOT_CASES or not started or lost == _MAX_LOST:
            if lost == _MAX_LOST:
                cases.append(_given_up(target))
            break
    report.rows = list(_rows(cases))
    return report


def _one_process(
    target: CheckTarget, limit_secs: float, done: Sequence[str]
) -> tuple[list[dict[str, Any]], str | None]:
    """What a process told, and how it ended if not as it should: by our hand, or by its own."""
    with tempfile.TemporaryDirectory(prefix="prune-engine-check-", ignore_cleanup_errors=True) as folder:
        request, events, log = (Path(folder) / name for name in ("request.json", "events.jsonl", "log"))
        work = Path(folder) / "work"
        work.mkdir()
        asked = {"target": target.as_json(), "done": list(done), "limit_secs": limit_secs}
        request.write_text(json.dumps(asked), encoding="utf-8")
        # Open from before the plugin runs: it may delete files, also these.
        with log.open("w+b") as output, events.open("w+b") as told_here:
            process = subprocess.Popen(
                [sys.executable, "-m", _CHILD, str(request), str(events), str(work)],
                cwd=work,  # Python looks there first: no file of the user's folder takes a module's place
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_environment(),
                start_new_session=True,  # so that what it starts ends with it
            )
            try:
                ending = _watched(process, told_here, limit_secs)
            finally:
                _end(process)
            told = _told(told_here)
            if ending is None and not (told and told[-1]["event"] == "end"):
                ending = f"the process ended{_how(process.returncode)}{_last_words(output)}"
        return told, ending


def _told(events: BinaryIO) -> list[dict[str, Any]]:
    """The events so far. A line that was cut off when the process ended, or is not ours, tells nothing."""
    events.seek(0)
    told = []
    for line in events.read().splitlines():
        with suppress(ValueError):
            told.append(json.loads(line))
    return [event for event in told if isinstance(event, dict) and "event" in event]


def _watched(process: subprocess.Popen[bytes], events: BinaryIO, limit_secs: float) -> str | None:
    """Wait for the end; None if the process ended by itself."""
    size, since = 0, time.monotonic()
    while process.poll() is None:
        time.sleep(_POLL_SECS)
        now = os.fstat(events.fileno()).st_size
        if now != size:
            size, since = now, time.monotonic()
        limit = limit_secs if _is_in_case(events) else max(limit_secs, _MIN_PREPARE_SECS)
        if time.monotonic() - since > limit:
            return f"did not return within {limit:g} seconds"
    return None


def _is_in_case(events: BinaryIO) -> bool:
    told = _told(events)
    return bool(told and told[-1]["event"] == "start" and told[-1]["id"] != "spaces")


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _environment() -> dict[str, str]:
    """Ours, without what would change how the checks are run."""
    dropped = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS")
    return {**{k: v for k, v in os.environ.items() if k not in dropped}, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def _how(code: int) -> str:
    if code < 0:
        try:
            return f" by {signal.Signals(-code).name}"
        except ValueError:
            return f" by signal {-code}"
    return f" with code {code}"


def _last_words(log: BinaryIO) -> str:
    log.seek(0)
    text = log.read()[-4000:].decode(errors="replace")
    lines = [line for one in text.splitlines() if (line := one.strip()) and not _DOTS.fullmatch(line)]
    return f": {lines[-1][:200]}" if lines else ""


def _lost_case(target: CheckTarget, started: str, ending: str) -> dict[str, Any]:
    """The case during which the process ended."""
    match = re.search(r"::test_(\w+)(?:\[(.*)\])?$", started)
    check = match[1] if match else started or "loads"
    return {
        "subject": target.name,
        "kind": "plugin",
        "check": check,
        "case": (match[2] or "") if match else "",
        "status": "failed",
        "who": f"plugin {target.name}",
        "got": ending,
        "expected": "to return",
        "remedy": "Look for a loop without an end, or for what ends the process.",
    }


def _given_up(target: CheckTarget) -> dict[str, Any]:
    got = f"{_MAX_LOST} checks took the process with them; the rest was not run"
    case = {"subject": target.name, "kind": "plugin", "check": "all_others", "case": "", "status": "failed"}
    return {**case, "who": f"plugin {target.name}", "got": got, "expected": "", "remedy": "Correct those first."}


def _rows(cases: Iterable[dict[str, Any]]) -> Iterable[CheckRow]:
    """One row for each check of each subject, in the order in which they came."""
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for case in cases:
        grouped.setdefault((case["subject"], case["check"]), []).append(case)
    for (subject, check), group in grouped.items():
        statuses = Counter(case["status"] for case in group)
        status = next(s for s in ("failed", "warning", "passed", "skipped") if statuses[s])
        first = next(case for case in group if case["status"] == status)
        failed = tuple(case["case"] for case in group if case["status"] == "failed")
        words = (
            {k: str(first.get(k, "")) for k in ("who", "got", "expected", "remedy")} if status != "passed" else {}
        )
        yield CheckRow(subject, group[0]["kind"], check, status, len(group), failed, **words)
