"""How long it takes to start: importing, `--help`, from the command line to the first measurements; a short run.

    python tests/benchmarks/start_up.py [--runs 7] [--markdown docs/benchmarks/start_up.md]

Prints medians and ranges, with the machine and its load. The tuned model is one 512^3 GEMM, and for the phases of
a short run it is tuned with 48 trials and a fresh store.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import machine


def one_gemm(folder: Path) -> Path:
    """Write an ONNX model of one kernel."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weight = np.random.default_rng(0).standard_normal((512, 512), dtype=np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "gemm",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [512, 512])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [512, 512])],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = folder / "gemm.onnx"
    onnx.save(model, path)
    return path


def seconds_of(*command: str) -> float:
    """Wall time of a process."""
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def seconds_to_first(model: Path, folder: Path, is_it: Callable[[dict[str, object]], bool]) -> float:
    """Wall time from the start of `tune` to the first progress event that ``is_it``."""
    store = folder / f"{time.monotonic_ns()}.sqlite3"
    command = [
        sys.executable,
        "-m",
        "prune_engine.cli",
        "tune",
        str(model),
        "--trials",
        "4",
        "--no-transfer",
        "--json",
    ]
    started = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--store", str(store), "--out", str(folder / "out")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    found = None
    for line in process.stderr:
        if found is None and is_it(json.loads(line)):
            found = time.perf_counter() - started
    process.wait()
    if found is None:
        raise SystemExit("tune ended before its first measurement")
    return found


def short_run(folder: Path) -> dict[str, float]:
    """Seconds of the phases of `tune --trials 48`, and of the whole command."""
    store = folder / f"{time.monotonic_ns()}.sqlite3"
    command = [
        sys.executable,
        "-m",
        "prune_engine.cli",
        "tune",
        "gemm:512x512x512",
        "--trials",
        "48",
        "--no-transfer",
        "--json",
    ]
    started = time.perf_counter()
    done = subprocess.run(
        [*command, "--store", str(store), "--out", str(folder / "short")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    wall_secs = time.perf_counter() - started
    phases: dict[str, float] = json.loads(done.stdout)["phase_secs"]
    return {**phases, "the whole command": wall_secs}


def row(what: str, secs: Sequence[float]) -> str:
    """Median and range as a row of a table."""
    return f"| {what} | {statistics.median(secs):.2f} | {min(secs):.2f} | {max(secs):.2f} |"


def main() -> None:
    """Measure, print, and write the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--markdown", type=Path, help="write the page of the documentation")
    options = parser.parse_args()
    lines = measured(options.runs)
    if options.markdown is not None:
        title = "# Starting"
        how = (
            f"Written by `python tests/benchmarks/start_up.py --runs {options.runs} --markdown {options.markdown}`."
        )
        options.markdown.write_text("\n".join([title, "", how, "", *lines, ""]), encoding="utf-8")


def measured(runs: int) -> list[str]:
    """The lines of the page, printed as they come."""
    lines: list[str] = []

    def say(line: str) -> None:
        print(line, flush=True)
        lines.extend(line.splitlines())

    before = machine.as_markdown()
    with TemporaryDirectory() as name:
        folder = Path(name)
        model = one_gemm(folder)
        figures: dict[str, Callable[[], float]] = {
            "python -c pass": lambda: seconds_of(sys.executable, "-c", "pass"),
            "import prune_engine": lambda: seconds_of(sys.executable, "-c", "import prune_engine"),
            "prune-engine --help": lambda: seconds_of(sys.executable, "-m", "prune_engine.cli", "--help"),
            "tune one GEMM: untuned kernel measured": lambda: seconds_to_first(
                model, folder, lambda event: bool(event.get("kernel_secs_before"))
            ),
            "tune one GEMM: first candidates measured": lambda: seconds_to_first(
                model, folder, lambda event: bool(event.get("n_trials"))
            ),
        }
        say("| process | median s | from | to |\n|---|---|---|---|")
        for what, measure in figures.items():
            say(row(what, [measure() for _ in range(runs)]))
        say("\n| phase of `tune gemm:512x512x512 --trials 48` | median s | from | to |\n|---|---|---|---|")
        records = [short_run(folder) for _ in range(min(runs, 3))]
        for phase in records[0]:
            say(row(phase, [record.get(phase, 0.0) for record in records]))
    say(f"\n{before}\n\nThe load average at the end was {os.getloadavg()[0]:.2f}.")
    return lines


if __name__ == "__main__":
    main()
