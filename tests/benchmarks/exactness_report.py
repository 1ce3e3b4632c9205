"""The report of exactness.py: tables of nests, legality and registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import machine
import numpy as np

Record = dict[str, Any]

#: Copies of the main statement, virtual threads included, up to which candidates are compiled for their registers.
MAX_BODY = 256

#: What the project promises of candidates that pass: this share is accepted.
_ACCEPTED_SHARE = 0.99


_REGISTER_BYTES = 4

#: Before the names of what the page lacks.
NOT_RUN = "Not run yet: "

_FEATURES = """\
## TVM's features and lowered kernels

`tests/exactness/test_features.py` compares each statement with TVM's per-store features where both define the same
quantity: floating-point operations, iterations, bytes moved, launch axes and the limit of unrolling, always; bytes
touched where all indices follow whole loops. They differ by definition in these:

- TVM counts the choice between an element and its padding as a call of a function.
- It counts a fetch once for each virtual thread; lowered kernels run it once.
- Its box around what is touched takes the remainder of a fused loop for constant and is too small then.
- It lets that box reach beyond the buffer, and knows nothing of the versions that a software pipeline keeps.

`tests/exactness/test_memory.py` compares shared and local bytes, threads, blocks, virtual threads and vector bytes
with accepted kernels after lowering. Local memory is without the few bytes that sums across threads go through, and
vectors that read across a border become scalars in TVM: `max_vector_bytes` is an upper bound for them."""


def is_exact(records: Sequence[Record]) -> bool:
    """Whether no nest differs, no legal candidate is refused and almost all that pass are accepted."""
    nests, verdicts = _sums(records, "nests"), _sums(records, "legality")
    is_sound = not nests.get("mismatches") and not verdicts.get("false_rejects")
    passed = verdicts.get("passed", 0)
    return is_sound and (not passed or 1 - verdicts["false_accepts"] / passed >= _ACCEPTED_SHARE)


def as_markdown(records: Sequence[Record], registers: Sequence[Record], missing: Sequence[str] = ()) -> str:
    """The whole page. ``missing`` names what has not been run yet."""
    parts = [
        "# Exactness",
        "Written by `python tests/benchmarks/exactness.py --markdown docs/benchmarks/exactness.md`.\n"
        "Candidates are drawn at random from every sketch; TVM replays and post-processes each of them.\n"
        "`tests/exactness` makes the same comparisons with few candidates, and some more.",
        f"{NOT_RUN}{', '.join(missing)}." if missing else "",
        _nests(records),
        _legality(records),
        _FEATURES,
        _registers(registers),
        "Machine:\n\n" + machine.as_markdown(),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _nests(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        if record["part"] == "nests":
            _, workload, kind, _ = record["key"]
            s = record["sketches"]
            read = [x for x in s if x["opaque"] is None]
            counts = [sum(x[name] for x in s) for name in ("repaired", "refused", "mismatches")]
            own = [x["n"] - x["repaired"] for x in read]
            least = min(own, default=0)
            rows.append([workload, kind, f"{len(read)} of {len(s)}", sum(own), least, *counts])
    if not rows:
        return ""
    header = [
        *("workload", "target", "sketches read", "candidates", "of a sketch at least"),
        *("repaired by TVM", "refused", "mismatches"),
    ]
    total = _sums(records, "nests")
    return "\n\n".join(
        [
            "## Loop nests",
            f"Of {total['n']} candidates {total['mismatches']} differ in a loop, an access, a buffer's size or "
            f"whether TVM keeps the decisions. It repairs {total['repaired']} of them into other candidates; of "
            "those only that it does is compared, and the table counts them apart. Refused are such as TVM makes "
            "no code of.",
            _table(header, rows),
            _firsts(records, "nests"),
        ]
    ).rstrip()


def _legality(records: Sequence[Record]) -> str:
    rows = []
    names = ("n", "accepted", "passed", "false_rejects", "false_accepts")
    for record in records:
        if record["part"] == "legality":
            _, workload, device, _ = record["key"]
            rows.append([workload, device, *(sum(x[name] for x in record["sketches"]) for name in names)])
    if not rows:
        return ""
    total = _sums(records, "legality")
    share = 1 - total["false_accepts"] / total["passed"] if total["passed"] else 1.0
    header = [
        "workload",
        "device",
        "candidates",
        "accepted by TVM",
        "passed by us",
        "false rejects",
        "false accepts",
    ]
    return "\n\n".join(
        [
            "## Legality on GPUs",
            f"{total['n']} candidates, half at random and half predicted legal: {total['false_rejects']} false "
            f"rejects, and TVM accepts {share:.2%} of what passes.",
            _table(header, rows),
            _firsts(records, "legality"),
        ]
    ).rstrip()


def _registers(rows: Sequence[Record]) -> str:
    if not rows:
        return ""
    lines = []
    for workload in dict.fromkeys(row["workload"] for row in rows):
        mine = [row for row in rows if row["workload"] == workload]
        known = [row for row in mine if row.get("symbol") is not None]
        spilled = [row for row in mine if row["spill_store_bytes"]]
        used = [row["registers"] for row in mine]
        lines.append([workload, len(mine), f"{min(used)}-{max(used)}", len(spilled), *_against_symbol(known)])
    header = [
        *("workload", "candidates", "registers", "spilling", "rank correlation with registers"),
        *("with registers and stack", "stack begins at", "spills begin at"),
    ]
    return "\n\n".join(
        [
            "## Register pressure",
            "`ptxas -v` at sm_80 against the symbol `registers_per_thread` (S1): legal candidates whose main\n"
            f"statement is unrolled to at most {MAX_BODY} copies, virtual threads included; nvcc takes minutes\n"
            "for others. Where loops over a thread's tile are not unrolled, its elements lie on the stack in\n"
            "local memory instead of registers: both together are what the symbol counts. The last columns are\n"
            "the smallest symbol of one with a stack, and of one that spills; from there on that share does.",
            _table(header, lines),
        ]
    )


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's: the correlation of the ranks, equal values sharing theirs."""
    if len(set(a)) < 2 or len(set(b)) < 2:
        return float("nan")
    return float(np.corrcoef(_ranks(a), _ranks(b))[0, 1])


def threshold(rows: Sequence[Record], name: str) -> str:
    """Where a quantity begins to be more than 0 by our symbol."""
    found = [row["symbol"] for row in rows if row[name]]
    if not found:
        return "nowhere"
    above = [row for row in rows if row["symbol"] >= min(found)]
    return f"{min(found)} ({len(found) / len(above):.0%} of {len(above)})"


def _against_symbol(rows: Sequence[Record]) -> list[str]:
    if not rows:
        return ["unknown"] * 4
    symbols = [row["symbol"] for row in rows]
    held = [_REGISTER_BYTES * row["registers"] + row["stack_bytes"] for row in rows]
    return [
        f"{rank_correlation(symbols, [row['registers'] for row in rows]):.3f}",
        f"{rank_correlation(symbols, held):.3f}",
        threshold(rows, "stack_bytes"),
        threshold(rows, "spill_store_bytes"),
    ]


def _ranks(values: Sequence[float]) -> np.ndarray:
    _, inverse, counts = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]


def _sums(records: Sequence[Record], part: str) -> dict[str, int]:
    sums: dict[str, int] = {}
    for record in records:
        for sketch in record["sketches"] if record["part"] == part else ():
            for name, value in sketch.items():
                if isinstance(value, int):
                    sums[name] = sums.get(name, 0) + value
    return sums


def _firsts(records: Sequence[Record], part: str) -> str:
    """The first difference of each case, and why sketches could not be read."""
    lines = []
    for record in records:
        for number, sketch in enumerate(record["sketches"] if record["part"] == part else ()):
            text = sketch["first"] or (f"opaque: {sketch['opaque']}" if sketch["opaque"] else None)
            if text:
                lines.append(
                    f"- {' '.join(map(str, record['key'][1:3]))}, sketch {number}: {' '.join(text.split())}"
                )
    return "\n".join(lines)


def _table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in (header, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]])
