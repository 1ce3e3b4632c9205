"""Momentum adaptation on brute-forced GPU kernels: what a source device is worth after 32 samples of the target.

    python tests/benchmarks/verifier_transfer.py --spaces DIR [--tables NAME ...] [--seeds N] [--json FILE]

DIR (or PRUNE_ENGINE_SPACES) holds ``gpu/NAME.tsv.gz``. For each pair of devices the forms of adaptation learn the
same way, in rounds of 8: the first half the source's best and half at random, three more by the model, and then the
8 that it ranks first; printed is the best of these 40 over the best of the table, and that of a model
without any source. With ``--random`` all 32 samples are drawn at random, the same for every form.

Forms: ``verifier`` is what ships (the source's leaves moved by momentum, its shadow beside it); ``offset`` keeps
the source as it is, with trees on the residual; ``mixed`` puts source rows among the target's at a weight;
``refit`` re-estimates the source's leaves (LightGBM's Booster.refit) at several rates, and nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray
from prune_engine_lightgbm.boosting import fit_trees, predict
from prune_engine_lightgbm.columns import columns_of
from prune_engine_lightgbm.device import Device, device_of
from prune_engine_lightgbm.learner import Learner
from prune_engine_lightgbm.offset import fit_offset
from prune_engine_lightgbm.rows import Block, Labels, TaskRows, matrix, targets
from prune_engine_lightgbm.source import Source, train_source

from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.recorded.kernel_table_files import read_kernel_tables
from prune_engine.recorded.kernel_tables import KernelTable, plain_device_name

N_SAMPLES, ROUND, LAST = 32, 8, 8
#: Of the first round, how many are the source's best; the others are drawn at random.
FROM_SOURCE = 4
#: Weight of all source rows together, in target rows.
MIXED_WEIGHT = 16.0
REFIT_DECAYS = (0.95, 0.9, 0.5)

Picker = Callable[[NDArray[np.int64]], NDArray[np.float64]]


@dataclass(frozen=True)
class Side:
    """A table on one device, as columns and log2 seconds (NaN: failed)."""

    name: str
    device: Device
    block: Block

    @staticmethod
    def of(table: KernelTable, name: str) -> Side:
        recorded = table.recorded(name)
        device = device_of(ProfileRegistry().resolve(plain_device_name(name)))
        (batch,), (secs,) = recorded.batches, recorded.run_secs
        labels = Labels(np.log2(secs), np.zeros(len(secs), dtype=np.bool_))
        return Side(
            name, device, Block(0, batch.sketch.sketch_id, batch.indices, columns_of(batch, device), labels)
        )

    def rows(self, picked: NDArray[np.int64] | None = None) -> TaskRows:
        found = TaskRows()
        found.add(self.block if picked is None else self.part(picked))
        return found

    def part(self, picked: NDArray[np.int64]) -> Block:
        block = self.block
        columns = {name: column[picked] for name, column in block.columns.items()}
        labels = Labels(block.labels.log_secs[picked], block.labels.is_censored[picked])
        return Block(0, block.sketch_id, block.indices[picked], columns, labels)

    def __len__(self) -> int:
        return len(self.block.labels)


def learner_form(side: Side, source: Source | None, seed: int) -> Picker:
    """The verifier's own learner."""
    learner = Learner(seed, source)
    draft = np.full(len(side), np.nan)
    taught: set[int] = set()

    def scores(picked: NDArray[np.int64]) -> NDArray[np.float64]:
        new = np.array([row for row in picked if row not in taught], dtype=np.int64)
        learner.add(side.part(new), draft[new])
        taught.update(int(row) for row in new)
        found = learner.predict(side.block.columns, draft, lambda rows: np.full(len(rows), np.nan))
        return np.zeros(len(side)) if found is None else found

    return scores


def offset_form(side: Side, source: Source, seed: int) -> Picker:
    """The source as it is, weighed by the target's rows, and trees on what is left."""
    says = source.says(side.block.columns, len(side))[:, None]
    names = side.rows().names()

    def scores(picked: NDArray[np.int64]) -> NDArray[np.float64]:
        wanted = targets(side.part(picked).labels)
        offset = fit_offset(says[picked], wanted)
        rows = matrix(side.block.columns, names, len(side))
        trees = fit_trees(rows[picked], wanted - offset.of(says[picked]), seed)
        return offset.of(says) + predict(trees, rows)

    return scores


def mixed_form(side: Side, origin: Side, seed: int) -> Picker:
    """Source rows beside the target's, together as heavy as MIXED_WEIGHT of them."""
    names = side.rows().names()
    there, here = origin.rows(), side.block
    x0, y0 = there.matrix(names), targets(there.labels)
    y0 = y0 - np.median(y0)

    def scores(picked: NDArray[np.int64]) -> NDArray[np.float64]:
        x1, y1 = matrix(side.part(picked).columns, names, len(picked)), targets(side.part(picked).labels)
        level = np.median(y1)
        weight = np.concatenate([np.full(len(y0), MIXED_WEIGHT / len(y0)), np.ones(len(y1))])
        params = {
            "objective": "regression", "num_leaves": 31, "min_data_in_leaf": 3, "min_data_in_bin": 1,
            "min_sum_hessian_in_leaf": 1e-4, "learning_rate": 0.1, "feature_fraction": 0.7, "num_threads": 1,
            "verbosity": -1, "deterministic": True, "force_col_wise": True, "seed": seed,
        }  # fmt: skip
        data = lgb.Dataset(np.concatenate([x0, x1]), np.concatenate([y0, y1 - level]), weight=weight, params=params)
        return predict(lgb.train(params, data, 200), matrix(here.columns, names, len(side)))

    return scores


def refit_form(side: Side, source: Source, decay: float) -> Picker:
    """The source's trees with leaves re-estimated on the target's rows."""

    def scores(picked: NDArray[np.int64]) -> NDArray[np.float64]:
        wanted = targets(side.part(picked).labels)
        plain = lgb.Booster(model_str=source.booster.model_to_string())
        x = matrix(side.part(picked).columns, source.names, len(picked))
        again = plain.refit(np.ascontiguousarray(x), wanted - np.median(wanted), decay_rate=decay)
        return predict(again, matrix(side.block.columns, source.names, len(side)))

    return scores


def found(side: Side, picker: Picker, source: Source | None, seed: int, *, is_random: bool) -> float:
    """Best of the 40 over the best of the table."""
    rng = np.random.default_rng(seed)
    drawn = rng.permutation(len(side))
    picked = drawn[: N_SAMPLES if is_random else ROUND]
    if source is not None and not is_random:
        best = np.argsort(source.says(side.block.columns, len(side)), kind="stable")[:FROM_SOURCE]
        picked = np.concatenate([best, drawn[~np.isin(drawn, best)][: ROUND - FROM_SOURCE]])
    while len(picked) < N_SAMPLES + LAST:
        scores = picker(picked).copy()
        scores[picked] = np.inf
        picked = np.concatenate([picked, np.argsort(scores, kind="stable")[:ROUND]])
    log_secs = side.block.labels.log_secs
    return (
        0.0 if np.isnan(log_secs[picked]).all() else float(2 ** (np.nanmin(log_secs) - np.nanmin(log_secs[picked])))
    )


def pairs(folder: Path, wanted: list[str] | None) -> Iterator[tuple[str, Side, Side]]:
    """Table, source and target."""
    for path in sorted((folder / "gpu").glob("*.tsv.gz")):
        if wanted and not any(name in path.name for name in wanted):
            continue
        for table in read_kernel_tables(path):
            sides = [Side.of(table, name) for name in table.devices]
            yield from ((path.name.split(".")[0], a, b) for b in sides for a in sides if a is not b)


def main() -> None:
    """Compare the forms and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spaces", type=Path, default=os.environ.get("PRUNE_ENGINE_SPACES"))
    parser.add_argument("--tables", nargs="*")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--forms", nargs="*", help="some of them")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.spaces is None:
        parser.error("name the recorded spaces by --spaces or PRUNE_ENGINE_SPACES")
    results: dict[str, dict[str, list[float]]] = {}
    scratch: dict[tuple[str, str], list[float]] = {}
    for table, origin, side in pairs(Path(arguments.spaces), arguments.tables):
        source = train_source(origin.device, (origin.rows(),), 0)
        assert source is not None
        forms: dict[str, Callable[[int], Picker]] = {
            "verifier": lambda seed, b=side, s=source: learner_form(b, s, seed),
            "offset": lambda seed, b=side, s=source: offset_form(b, s, seed),
            "mixed": lambda seed, a=origin, b=side: mixed_form(b, a, seed),
        }
        for decay in REFIT_DECAYS:
            forms[f"refit {decay}"] = lambda seed, b=side, s=source, d=decay: refit_form(b, s, d)
        row: dict[str, list[float]] = {}
        if (table, side.name) not in scratch:
            scratch[table, side.name] = [
                found(side, learner_form(side, None, seed), None, seed, is_random=arguments.random)
                for seed in range(arguments.seeds)
            ]
        row["scratch"] = scratch[table, side.name]
        for form, make in forms.items():
            if arguments.forms and form not in arguments.forms:
                continue
            row[form] = [
                found(side, make(seed), source, seed, is_random=arguments.random) for seed in range(arguments.seeds)
            ]
        results[f"{table} {origin.name} -> {side.name}"] = row
        told = "  ".join(f"{form} {np.mean(values):.3f}" for form, values in row.items())
        print(f"{table:18s} {origin.name:>12s} -> {side.name:12s} {told}", flush=True)
    if results:
        for form in next(iter(results.values())):
            means = np.array([np.mean(row[form]) for row in results.values()])
            lost = np.array([np.mean(row[form]) - np.mean(row["scratch"]) for row in results.values()])
            print(f"{form:10s} mean {means.mean():.3f}, worst against scratch {lost.min():+.3f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
