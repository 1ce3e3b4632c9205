"""The figures of design spaces as a page: symbols, rules of the task space, candidates in stock TVM.

    python tests/benchmarks/spaces_report.py --markdown docs/benchmarks/spaces.md

Runs symbols_speed.py and candidates_check.py in processes of their own and times the rules of the task space on
real spaces. Takes about four minutes; wants an idle machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import machine

sys.path.insert(0, str(Path(__file__).parents[1]))

HERE = Path(__file__).parent
#: Targets and workloads on which the rules of the task space are timed.
RULED = {
    "llvm": ("gemm_square", "conv3x3", "conv_depthwise", "bmm", "softmax"),
    "cuda": ("gemm_square", "conv3x3", "conv_depthwise", "bmm", "softmax", "gemm_fp16"),
}
_PROFILES = {"llvm": "xeon-8272cl", "cuda": "a100"}
_REPEATS = 21


def main() -> None:
    """Measure, print, and write the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    described = machine.as_markdown()
    symbols = _symbols()
    candidates = _candidates()
    page = _page(described, symbols, candidates, _rules())
    print(page)
    if options.markdown:
        options.markdown.write_text(page, encoding="utf-8")


def _symbols() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "symbols.json"
        subprocess.run([sys.executable, str(HERE / "symbols_speed.py"), "--json", str(out)], check=True)
        found: list[dict[str, Any]] = json.loads(out.read_text(encoding="utf-8"))
        return found


def _candidates() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(HERE / "candidates_check.py")], check=True, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _rules() -> list[tuple[str, str, int, float]]:
    """Target, workload, sketches and median milliseconds of all rules of the task space."""
    from kits.workloads import workload_task
    from rules_speed import pipeline_of

    from prune_engine.hardware.registry import ProfileRegistry
    from prune_engine.metaschedule.materialise import Materialiser

    found = []
    for kind, names in RULED.items():
        pipeline = pipeline_of(ProfileRegistry([]).resolve(_PROFILES[kind]))
        for name in names:
            space = Materialiser(workload_task(name, kind), 0).design_space()
            spent = []
            for _ in range(_REPEATS):
                started = time.perf_counter()
                pipeline.restrict(space)
                spent.append(1e3 * (time.perf_counter() - started))
            found.append((kind, name, len(space.sketches), statistics.median(spent)))
    return found


def _page(
    described: str,
    symbols: list[dict[str, Any]],
    candidates: dict[str, Any],
    rules: list[tuple[str, str, int, float]],
) -> str:
    rates = [r for r in symbols if "per_sec" in r]
    whole = next(r for r in symbols if "candidates" in r)
    memory = next(r for r in symbols if "peak_bytes" in r)
    in_tvm = [r for r in symbols if "tried" in r]
    lines = [
        "# Design spaces: speed",
        "",
        "Written by `python tests/benchmarks/spaces_report.py --markdown docs/benchmarks/spaces.md`.",
        "",
        described,
        "",
        "## Symbols",
        "",
        "Columns over random candidates of TVM's own sketches, on one core, in batches of 65,536; the best of",
        "three runs. By processor time means without what other programs took.",
        "",
        "| what | symbols | candidates/s | by processor time | wanted |",
        "|---|---|---|---|---|",
        *(
            f"| {r['case']} | {r['symbols']} | {r['per_sec'] / 1e6:.2f} M | {r['per_processor_sec'] / 1e6:.2f} M "
            f"| {r['wanted_per_sec'] / 1e6:g} M |"
            for r in rates
        ),
        "",
        f"All {whole['candidates']:,} candidates of the CPU GEMM's space with legality and footprints: "
        f"{whole['secs']:.1f} s (wanted: {whole['wanted_secs']} s for the space). Peak memory of all of it, TVM "
        f"included: {memory['peak_bytes'] / 1e6:.0f} MB (wanted: {memory['wanted_bytes'] / 1e6:.0f} MB).",
        "",
        "The same through TVM in the same run, milliseconds per candidate (medians of those not refused):",
        "",
        "| kernel | tried | refused | replay | post-processors | features |",
        "|---|---|---|---|---|---|",
        *(
            f"| {r['case'].removeprefix('TVM, ')} | {r['tried']} | {r['refused']} | {r['replay_ms']} "
            f"| {r['post_processing_ms']} | {r['features_ms']} |"
            for r in in_tvm
        ),
        "",
        "## Rules of the task space",
        "",
        f"All rules together, on real spaces, medians of {_REPEATS} runs (wanted: less than 1 ms a task).",
        "",
        "| target | workload | sketches | ms |",
        "|---|---|---|---|",
        *(f"| {kind} | {name} | {n} | {ms:.2f} |" for kind, name, n, ms in rules),
        "",
        "## Candidates in stock TVM",
        "",
        f"`prune-engine candidates WORKLOAD --target {candidates['target']} -n 512`, replayed and post-processed",
        "by stock TVM. Seconds are those beyond `import tvm`, "
        f"which took {candidates['import_secs']:.2f} s; the first run has an",
        "empty cache folder.",
        "",
        "| workload | distinct | pass VerifyGPUCode | s | s, first run |",
        "|---|---|---|---|---|",
        *(
            f"| `{r['workload']}` | {r['n_distinct']} of {r['n']} | {r['n_passed']} of {r['n']} "
            f"| {r['secs_beyond_import']:.2f} | {r['first_run_secs_beyond_import']:.2f} |"
            for r in candidates["results"]
        ),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
