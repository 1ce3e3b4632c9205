"""Make the priors that come with the LightGBM plugin from recorded CPU spaces.

    python tests/benchmarks/verifier_priors.py --spaces DIR [--rows N] [--out FOLDER]

DIR (or PRUNE_ENGINE_SPACES) is as `verifier_replay.py` has it. Each workload recorded under one thread gives N
rows, drawn at random: taken fast and slow alike, so that the model knows what is slow. Whether a prior is worth it
for a kernel that it does not hold is what `verifier_replay.py` tells (case "residual + prior").
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from verifier_replay import recorded_spaces, write_prior

PLUGIN = Path(__file__).parents[2] / "plugins" / "prune_engine_lightgbm" / "priors"
#: Kind and vendor of the processor that the spaces were recorded on.
FILE = "cpu-amd.npz"


def main() -> None:
    """Write the file and say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spaces", type=Path, default=os.environ.get("PRUNE_ENGINE_SPACES"))
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--out", type=Path, default=PLUGIN)
    arguments = parser.parse_args()
    if arguments.spaces is None:
        parser.error("name the recorded spaces by --spaces or PRUNE_ENGINE_SPACES")
    spaces = recorded_spaces(Path(arguments.spaces), folders=("cpu_1thread",))
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_prior(spaces, arguments.out / FILE, n_rows=arguments.rows)
    print(f"{FILE}: {len(spaces)} workloads, {(arguments.out / FILE).stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
