"""Makes `docs/reliability.md` of the figures that full runs recorded under ``build/reliability``.

``make bench-reliability`` records them and runs this: ``python tests/reliability/figures.py``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent.parent))

from reliability.figure import RECORDS, ROOT

PAGE = ROOT / "docs" / "reliability.md"


@dataclass(frozen=True, slots=True)
class About:
    """What the page says of a figure: ``n`` is a format of its count, ``module`` the test that measures it.

    ``guards`` maps what was taken out of the product to what the test then found.
    """

    title: str
    n: str
    text: str
    module: str
    guards: Mapping[str, str]


_FILES = "{n:,} files"
_COMPILER_FILES, _OWN_FILES = "tests/fuzz/test_compiler_files.py", "tests/fuzz/test_files.py"

ABOUT: Mapping[str, About] = {
    "kills": About(
        "Killed at random moments",
        "{n} × `kill -9`",
        "A run over recorded spaces is killed again and again, while it starts, in a batch and between two, and"
        " each time started anew on its store. What it had reported as stored must be there, and is not measured"
        " again; each kill costs at most what was being measured.",
        "tests/reliability/test_kills.py",
        {
            "taking in what earlier runs measured": "measured again",
            "a transaction for each batch, before it counts as done": "committed measurements lost",
        },
    ),
    "poisons": About(
        "Poisoned candidates",
        "{n:,} candidates",
        "The engine tunes a task whose candidates crash, hang, multiply, take 100 GiB, print 20 MB, delete their"
        " own files, kill the measuring server, or compute something else. All are compiled and run like any"
        " candidate, with a limit of time and one of 256 MiB of memory. The bombs are bounded (126 processes;"
        " 3,000 generations), so that a failed test harms nobody. Each is told as what it was, and the run ends as"
        " any other.",
        "tests/reliability/test_poisons.py",
        {
            "killing adopted processes": "252 processes alive after the last candidate",
            "removing the folder, by the pool and by the server": "9 files left of 13 candidates",
            "telling failures for lack of memory": "2 of 26 candidates told as something else",
            "holding results against the untuned kernel's": "4 of 26 candidates told as something else",
        },
    ),
    "surroundings": About(
        "Disks, locks, clocks, signals and streams",
        "{n} kinds of trouble",
        "What `prune-engine tune` does when its surroundings fail. After each, the store is sound, and the same run"
        " goes on in it without losing or repeating a measurement.",
        "tests/reliability/test_surroundings.py",
        {
            "telling a full disk from other failures": "the message lacks `no space left`",
            "waiting for the lock": "exit code 4, 8 of 48 stored",
            "a clock that cannot be set": "the run goes on until nothing is left, whatever its seconds",
            "a second signal ends at once": "exit code 0 instead of 130",
            "a reader that went away ends the run": "all 48 trials were made",
        },
    ),
    "tuners": About(
        "Two tuners on one store",
        "{n} s",
        "Two processes tune the same tasks into one SQLite file, as fast as a workbench without a compiler lets"
        " them. What each was told is stored must be there, once, and the counts of their verdicts must add up.",
        "tests/reliability/test_tuners.py",
        {
            "writers that take the lock before they read": "a tuner fails, as the store is locked",
            "adding counts up in the database": "counts of verdicts that do not add up",
            "writes that may be repeated": "a tuner fails on what the other wrote",
        },
    ),
    "fuzz_database": About(
        "Broken tuning databases",
        "{n:,} databases",
        "A MetaSchedule database whose records or workloads are damaged: bytes, JSON values, whole lines. What the"
        " compiler is given unchecked is tried in a copy of the process first, for it may abort or crash on it.",
        _COMPILER_FILES,
        {"trying in a copy of the process": "the process ends with SIGABRT or SIGSEGV"},
    ),
    "fuzz_workload_json": About(
        "Broken workload files",
        "{n:,} files",
        "A database_workload.json of which one module, JSON in base64, is damaged, given to `prune-engine tune`: it"
        " is read, its design space generated and the kernel built, each in a copy of the process first.",
        _COMPILER_FILES,
        {"trying in a copy of the process": "the process ends with SIGABRT or SIGSEGV, in the space or the build"},
    ),
    "fuzz_onnx": About(
        "Broken ONNX models",
        "{n:,} models",
        "An ONNX file whose bytes or fields (shapes, names, attributes, weights) are damaged, up to its kernels.",
        _COMPILER_FILES,
        {},
    ),
    "fuzz_profile": About(
        "Broken hardware profiles",
        _FILES,
        "YAML with damaged bytes, keys, numbers, anchors and tags. Read are the few that are still profiles.",
        _OWN_FILES,
        {},
    ),
    "fuzz_policy_lock": About(
        "Broken policy locks",
        _FILES,
        "The lock file of `policy pin`, its JSON or its bytes damaged.",
        _OWN_FILES,
        {},
    ),
    "fuzz_whitelist": About(
        "Broken whitelists",
        _FILES,
        "An exported whitelist, its JSON or its bytes damaged. One damaged anywhere is refused as a whole.",
        _OWN_FILES,
        {},
    ),
    "fuzz_library": About(
        "Broken libraries",
        _FILES,
        "A library file, plain and gzipped, its lines or bytes damaged. Lines that are no entries are passed over"
        " and told of; a file without any is refused.",
        _OWN_FILES,
        {},
    ),
    "fuzz_decisions": About(
        "Broken decision files",
        _FILES,
        "What `explain` reads: gzip members that are cut or damaged, lines that are no decisions. What is whole is"
        " read; only lines of a newer version are refused.",
        _OWN_FILES,
        {},
    ),
    "fuzz_tuning_records": About(
        "Broken tuning records",
        _FILES,
        "Rows of a MetaSchedule database, read without the compiler. Each that is none is told of by its line.",
        _OWN_FILES,
        {},
    ),
    "fuzz_kernel_table": About(
        "Broken tables of kernels",
        _FILES,
        "Tab-separated measurements, plain and gzipped, their bytes damaged.",
        _OWN_FILES,
        {},
    ),
    "fuzz_verifier_model": About(
        "Broken verifier models",
        _FILES,
        "What `--prior` takes: an archive whose members, headers or trees are damaged. There is no pickle in it.",
        _OWN_FILES,
        {},
    ),
    "fuzz_input_array": About(
        "Broken input arrays",
        _FILES,
        "`.npy` files for `prune-engine run --input`: damaged bytes, headers that ask for terabytes or objects.",
        _OWN_FILES,
        {},
    ),
}

_HEAD = """# Reliability

What prune-engine survives, measured. `make bench-reliability` (about 40 minutes) runs the tests of
`tests/reliability` and `tests/fuzz` at full size and writes this page; `make test` runs them small. A figure is
reached if nothing that must not happen did.
"""


def page(records: Mapping[str, Mapping[str, Any]]) -> str:
    """The page as Markdown, of records by figure."""
    parts = [_HEAD, _summary(records)]
    parts += [_section(name, records[name]) for name in _order(records)]
    return "\n".join(parts)


def load() -> dict[str, Mapping[str, Any]]:
    """The records of the last full runs, by figure."""
    found = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(RECORDS.glob("*.json"))]
    return {record["figure"]: record for record in found}


def _order(records: Mapping[str, object]) -> list[str]:
    return [name for name in ABOUT if name in records] + sorted(name for name in records if name not in ABOUT)


def _summary(records: Mapping[str, Mapping[str, Any]]) -> str:
    lines = ["| figure | tried | result |", "|---|---|---|"]
    for name in _order(records):
        about, record = ABOUT.get(name), records[name]
        title = _title(name)
        n = about.n.format(n=record["n"]) if about else f"{record['n']:,}"
        lines.append(f"| {title} | {n} | {record['result']} |")
    return "\n".join(lines) + "\n"


def _section(name: str, record: Mapping[str, Any]) -> str:
    about = ABOUT.get(name)
    title = _title(name)
    details = dict(record.get("details", {}))
    parts = [f"## {title}", ""]
    if about:
        parts += [about.text, ""]
    zeros = details.pop("must_not_happen", {})
    behaviour = details.pop("behaviour", {})
    if behaviour:
        parts += ["| trouble | what happens | departures |", "|---|---|---|"]
        parts += [f"| {_cell(case)} | {_cell(text)} | {zeros.get(case, 0)} |" for case, text in behaviour.items()]
    else:
        parts += ["| must not happen | happened |", "|---|---|"]
        parts += [f"| {what} | {n} |" for what, n in zeros.items()]
    for what, limit in details.pop("limits", {}).items():
        parts.append(f"| {what} (at most {limit['allowed']:g}) | {limit['measured']:.3g} |")
    parts += ["", *(line for key, value in details.items() if value for line in _detail(key, value))]
    if about:
        parts += [f"Measured by `{about.module}`.{' Seen failing without:' if about.guards else ''}", ""]
        parts += [f"- {guard}: {failure}" for guard, failure in about.guards.items()]
        parts += [""] if about.guards else []
    return "\n".join([*parts, _circumstances(record), ""])


def _title(name: str) -> str:
    return ABOUT[name].title if name in ABOUT else name.replace("_", " ").replace("-", " ").capitalize()


def _cell(text: str) -> str:
    return text.replace("|", "\\|")  # it would end the cell, in code too


def _detail(key: str, value: object) -> list[str]:
    title = key.replace("_", " ").capitalize()
    if isinstance(value, Mapping):
        value = ", ".join(f"{name} {n:,}" if isinstance(n, int) else f"{name} {n}" for name, n in value.items())
    elif isinstance(value, list):
        value = "; ".join(map(str, value))
    elif isinstance(value, int) and not isinstance(value, bool):
        value = f"{value:,}"
    return [f"{title}: {value}.", ""]


def _circumstances(record: Mapping[str, Any]) -> str:
    machine = record.get("machine", {})
    where = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in machine.items() if name != "date")
    return f"*Recorded {record.get('recorded_at', 'without a date')}{f'; {where}' if where else ''}.*"


def main() -> None:
    """Write the page; say which figures were not reached or not recorded."""
    records = load()
    PAGE.write_text(page(records).rstrip() + "\n", encoding="utf-8")
    missing = [name for name in ABOUT if name not in records]
    failed = [name for name, record in records.items() if record["result"] != "passed"]
    for what, names in (("not recorded", missing), ("not reached", failed)):
        if names:
            print(f"{what}: {', '.join(names)}", file=sys.stderr)
    sys.exit(bool(missing or failed))


if __name__ == "__main__":
    main()
