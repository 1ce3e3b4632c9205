"""How well the adapters for Kernel Tuner and Triton prune and order, and what it costs, as a page: adapters.md.

    python tests/benchmarks/adapters.py [FOLDER] --out docs/benchmarks

FOLDER, or its folder ``gpu``, has kernel tables as `prune-engine rank` reads them, among them
convolution_milo.tsv.gz: real times of a convolution on four GPUs. Without it an invented kernel, Triton's recorded
resources and the cost are all there is. With it it takes some five minutes of one core.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

import adapters_cost
import adapters_orders as orders
import adapters_strategies as strategies
import adapters_triton
import machine
from adapters_kernels import RecordedKernel
from adapters_report import Figures, page_text

from prune_engine.errors import ConfigError

PAGE = "adapters.md"


def main() -> int:
    """Measure and print, and write the page if asked to. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="of kernel tables; without it parts are left out")
    parser.add_argument("--out", type=Path, help="folder of the page")
    parser.add_argument("--seeds", type=int, default=11, help="runs of each strategy that begins with nothing")
    parser.add_argument("--seeds-elsewhere", type=int, default=3, help="runs of each that begins with results")
    asked = parser.parse_args()
    described = machine.as_markdown()  # before any load of its own
    try:
        kernel = RecordedKernel.of_folder(asked.folder) if asked.folder else None
    except ConfigError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    cost = adapters_cost.cost()
    held, invented = adapters_triton.held(), list(orders.of_invented_kernel())
    figures = Figures(described, invented, held, cost)
    if kernel is not None:
        runs = []
        for device in kernel.devices:
            print(f"strategies on {device}", file=sys.stderr)
            runs += strategies.runs_of(kernel, device, asked.seeds, asked.seeds_elsewhere)
        pairs = [(a, b) for a in kernel.devices for b in kernel.devices if a != b]
        copied = {(a, b): strategies.in_order_of(kernel, a, b) for a, b in pairs}
        recorded = list(orders.of_recorded_kernel(kernel))
        figures = Figures(described, invented, held, cost, recorded, runs, copied)
    text = page_text(figures)
    print(text)
    if asked.out:
        (asked.out / PAGE).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
