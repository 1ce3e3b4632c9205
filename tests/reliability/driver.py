"""`prune-engine` with a recording that needs no compiler, and with surroundings that go wrong on purpose.

Run as a script: ``driver.py '{"delay_secs": 0.01, ...}' tune --replay any ...``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))

from kits.recordings import fake_recording

from prune_engine.hardware import fit
from prune_engine.metaschedule import recorded
from prune_engine.recorded import replay as replaying
from prune_engine.recorded.spaces import Recording
from prune_engine.recorded.workbench import ReplayWorkbench
from prune_engine.store.open import open_store

#: Rows of each of the two sketches.
N_ROWS = 400


def main(options: dict[str, float], arguments: Sequence[str]) -> None:
    """Run the command line.

    ``delay_secs`` is what a measurement takes, ``trace_bytes`` what each adds to the store, ``wait_secs`` how long
    a locked store is waited for, ``clock_back_secs`` how far the clock is set back in the middle of the run.
    """
    space = fake_recording(N_ROWS)
    recorded.read_recorded = lambda _: Recording((space,))  # type: ignore[assignment]
    fit.check_fits = lambda *_, **__: None  # the recording is of no device
    replaying.ReplayWorkbench = _workbench(options)  # type: ignore[misc]
    if "wait_secs" in options:
        assert open_store.__kwdefaults__ is not None
        open_store.__kwdefaults__["wait_secs"] = options["wait_secs"]
    sys.argv = ["prune-engine", *arguments]
    from prune_engine.cli.app import main as run

    run()


def _workbench(options: dict[str, float]) -> type[ReplayWorkbench]:
    class Slow(ReplayWorkbench):
        n_measured = 0

        def measure(self, *arguments, **named):  # type: ignore[no-untyped-def]
            for one in super().measure(*arguments, **named):
                time.sleep(options.get("delay_secs", 0.0))
                Slow.n_measured += 1
                if Slow.n_measured == 20 and "clock_back_secs" in options:
                    _set_clock_back(options["clock_back_secs"])
                trace = "x" * int(options.get("trace_bytes", 0)) or None
                yield replace(one, trace_json=trace)

    return Slow


def _set_clock_back(secs: float) -> None:
    true_time = time.time
    time.time = lambda: true_time() - secs


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])
