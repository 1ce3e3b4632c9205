"""How well the adapters prune and order kernels that were measured once: false prunes, what the first picks find.

Run: python tests/benchmarks/adapters.py [FOLDER]

Without a folder: an invented kernel with invented times (tests/kits/synthetic_kernels.py), labelled as such. With a
folder of kernel tables (tab-separated, as `prune-engine rank` reads them) that holds convolution_milo.tsv.gz: real
times of a convolution on four GPUs as well.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))

from kits import synthetic_kernels as synthetic
from prune_engine_kernel_tuner import KernelSpace, Results, kernel_space

from prune_engine.recorded.kernel_table_files import read_kernel_tables
from prune_engine.recorded.ranking import found_in_order, rank_correlation

PICKS = (1, 4, 8, 16, 64)
PROFILES = {"A100": "nvidia-a100-sxm-40gb", "A4000": "rtx-a4000", "MI250X": "mi250x", "W6600": "w6600"}

#: The convolution of the table: a 4096 x 4096 image, a filter of 15 x 15 (Milo and others, BAT).
_SIZE, _FILTER = 4096, 15


def _conv_blocks(c: Any) -> Any:
    across = np.ceil(_SIZE / (c["block_size_x"] * c["tile_size_x"]))
    return across * np.ceil(_SIZE / (c["block_size_y"] * c["tile_size_y"]))


def _conv_tile(c: Any) -> Any:
    width = c["block_size_x"] * c["tile_size_x"] + _FILTER - 1
    return width * (c["block_size_y"] * c["tile_size_y"] + _FILTER - 1)


CONVOLUTION: dict[str, Any] = {
    "grid_blocks": _conv_blocks,
    "shared_bytes_per_block": lambda c: c["use_shmem"] * _conv_tile(c) * 4,
    "registers_per_thread": lambda c: 20 + 2 * c["tile_size_x"] * c["tile_size_y"],
    "flops_total": 2 * _FILTER**2 * _SIZE**2,
    "traffic_dram_bytes": lambda c: 4 * (_conv_blocks(c) * _conv_tile(c) + _SIZE**2),
    "tensor_bytes": 8 * _SIZE**2,
    "shared_traffic_bytes": lambda c: (
        4 * _FILTER**2 * _SIZE**2 / np.minimum(c["tile_size_x"] * c["tile_size_y"], 8)
    ),
    "contiguous_bytes": lambda c: 4 * c["block_size_x"],
}


def report(title: str, space: KernelSpace, run_secs: np.ndarray[Any, Any]) -> None:
    """Print what pruning would have lost, and what the order finds; ``run_secs`` (n,) is NaN for failures."""
    pruned, ran = space.pruned, ~np.isnan(run_secs)
    lost = int((~pruned.legal & ran).sum())
    guessed = int((~pruned.kept & pruned.legal & ran).sum())
    best = float(np.nanmin(run_secs))
    kept_best = best / float(np.nanmin(run_secs[pruned.kept])) if (pruned.kept & ran).any() else 0.0
    scores = np.where(pruned.kept, pruned.scores, -1.0)
    found = found_in_order(scores, run_secs, picks=PICKS)
    shuffles = [found_in_order(np.ones(len(scores)), run_secs, seed=seed, picks=PICKS) for seed in range(50)]
    correlation = rank_correlation(scores[pruned.kept], run_secs[pruned.kept])
    print(f"\n{title}: {len(pruned):,} configurations, {int((~ran).sum())} failed, ranked by {pruned.ranked_by}")
    print(f"  legality rules drop {int((~pruned.legal).sum())}, of which ran: {lost}")
    print(f"  heuristics drop {guessed} more that ran; best of the kept: {kept_best:.3f} of the best")
    print(f"  rank correlation: {'none' if correlation is None else f'{correlation:.2f}'}")
    print("  best found after  " + "  ".join(f"{k:>5}" for k in PICKS))
    print("  in this order     " + "  ".join(f"{found[k]:5.3f}" for k in PICKS))
    print("  at random         " + "  ".join(f"{np.mean([s[k] for s in shuffles]):5.3f}" for k in PICKS))


def of_invented_kernel() -> None:
    """Pruned and ordered from nothing, and from an invented slower device."""

    def space(**more: Any) -> KernelSpace:
        return kernel_space(
            synthetic.TUNE_PARAMS,
            synthetic.RESTRICTIONS,
            profile="nvidia-a100-sxm-40gb",
            symbols=synthetic.SYMBOLS,
            n_results=synthetic.SIZE**2,
            **more,
        )

    began = time.process_time()
    plain = space()
    print(f"pruned and ordered in {time.process_time() - began:.2f} s of processor time, search space included")
    configurations = plain.configurations(range(len(plain.pruned)))
    secs = 1e-3 * synthetic.millis(configurations, "fast")
    report("invented stencil (synthetic times), profile alone", plain, secs)
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder) / "slow.json"
        synthetic.write_cache(there, configurations, "slow")
        report(
            "invented stencil (synthetic times), from another device", space(elsewhere=(there, "nvidia-t4")), secs
        )


def of_table(path: Path, symbols: Mapping[str, Any]) -> None:
    """A real kernel on each device of a table, by profile alone and from each other device."""
    table = read_kernel_tables(path)[0]
    names = table.names
    values = [[int(v) for v in choices] for choices in table.choices]
    configurations = [tuple(values[i][row[i]] for i in range(len(names))) for row in table.indices.tolist()]

    listed = set(configurations)
    params = dict(zip(names, values, strict=True))

    def is_listed(*of: Any, **by_name: Any) -> bool:
        return (tuple(by_name[name] for name in names) if by_name else of) in listed

    def space(device: str, **more: Any) -> KernelSpace:
        return kernel_space(
            params,
            [is_listed],
            profile=PROFILES[device],
            symbols=symbols,
            name=table.name,
            n_results=_SIZE**2,
            **more,
        )

    def times(device: str, order: Sequence[tuple[Any, ...]]) -> np.ndarray[Any, Any]:
        by = dict(zip(configurations, table.run_secs[device].tolist(), strict=True))
        return np.array([by[c] for c in order])

    for device in table.devices:
        plain = space(device)
        order = plain.configurations(range(len(plain.pruned)))
        report(f"{table.name} on {device} (measured), profile alone", plain, times(device, order))
        for other in table.devices:
            if other != device:
                dicts = tuple(dict(zip(names, c, strict=True)) for c in order)
                there = (Results(dicts, times(other, order), other), PROFILES[other])
                told = space(device, elsewhere=there)
                report(f"{table.name} on {device} (measured), from {other}", told, times(device, order))
                break


if __name__ == "__main__":
    of_invented_kernel()
    if sys.argv[1:]:
        of_table(Path(sys.argv[1]) / "convolution_milo.tsv.gz", CONVOLUTION)
