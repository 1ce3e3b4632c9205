"""How good draft, verifier, adaptation and search are, on recorded spaces: figures, marks, pass or miss.

``python tests/benchmarks/quality_marks.py --spaces DIR [--markdown docs/benchmarks/quality.md]``. DIR (or the
environment variable PRUNE_ENGINE_SPACES) has MetaSchedule databases in ``cpu_1thread/*/`` and
``cpu_2threads/*/``, tables of kernels in ``gpu/*.tsv.gz``; parts whose data is absent are skipped. Everything is
replayed, so the figures are the same at each run.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

import quality_parts as parts
from quality_parts import Mark, Part

_VARIABLE = "PRUNE_ENGINE_SPACES"
_PACKAGES = ("prune-engine", "apache-tvm", "lightgbm", "numpy")


def sections(folder: Path, verifier: str, seeds: list[int]) -> dict[str, tuple[str, Callable[[], Part]]]:
    """Each part by name: the folder whose data it needs, and how it is made."""
    return {
        "draft": ("cpu_*", lambda: parts.untrained_draft(folder)),
        "ablation": ("cpu_*", lambda: parts.ablation(folder)),
        "verifier": ("cpu_*", lambda: parts.verified(folder, verifier, seeds)),
        "gpu": ("gpu", lambda: parts.adapted(folder, verifier, seeds)),
        "search": ("cpu_*", lambda: parts.search_curves(folder, verifier, seeds)),
    }


def as_markdown(made: list[Part], skipped: list[str]) -> str:
    """The report as a page."""
    lines = [
        "# Quality on recorded spaces",
        "",
        "Written by `python tests/benchmarks/quality_marks.py --spaces DIR --markdown docs/benchmarks/quality.md`.",
        "Everything is replayed on recorded spaces ([how](../replay.md)): no times are measured, the same seeds",
        f"give the same figures. {', '.join(f'{name} {version(name)}' for name in _PACKAGES)}.",
        "",
        "## Marks",
        "",
        *table(("mark", "wanted", "is", ""), [_cells(mark) for part in made for mark in part.marks]),
    ]
    for part in made:
        lines += ["", f"## {part.title}", "", part.text, "", *table(part.header, part.rows)]
    if skipped:
        lines += ["", f"Not made, for want of data: {', '.join(skipped)}."]
    return "\n".join(lines) + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    return [f"| {' | '.join(map(str, row))} |" for row in (header, ["---"] * len(header), *rows)]


def _cells(mark: Mark) -> tuple[str, ...]:
    return mark.name, mark.wanted, f"{mark.value:.3f}", "pass" if mark.passed else "**missed**"


def main() -> None:
    """Make the parts asked for, print them, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spaces", type=Path, default=os.environ.get(_VARIABLE), help=f"folder; else ${_VARIABLE}")
    parser.add_argument("--markdown", type=Path, help="page to write")
    parser.add_argument("--parts", nargs="+", help="only these: draft, ablation, verifier, gpu, search")
    parser.add_argument("--verifier", default="lightgbm.residual")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    arguments = parser.parse_args()
    if arguments.spaces is None:
        print(f"no recorded spaces: give --spaces DIR or set {_VARIABLE}; nothing is checked")
        return
    folder = Path(arguments.spaces)
    made, skipped = [], []
    for name, (needs, make) in sections(folder, arguments.verifier, list(range(arguments.seeds))).items():
        if arguments.parts and name not in arguments.parts:
            continue
        if not list(folder.glob(f"{needs}/*")):
            skipped.append(name)
            continue
        started = time.perf_counter()
        part = make()
        made.append(part)
        print(f"\n{part.title} ({time.perf_counter() - started:.0f} s)")
        print("\n".join(table(part.header, part.rows)))
        for mark in part.marks:
            print(
                f"{'pass' if mark.passed else 'MISSED'}: {mark.name}: {mark.value:.3f}, wanted {mark.wanted}",
                flush=True,
            )
    for name in skipped:
        print(f"skipped, for want of data: {name}")
    if arguments.markdown and made:
        arguments.markdown.write_text(as_markdown(made, skipped), encoding="utf-8")


if __name__ == "__main__":
    main()
