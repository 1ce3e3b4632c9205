"""What a processor's multiply-adds reach at the clock it has now: ``python gap_peak.py N_THREADS`` prints samples.

In a process of its own: TVM's threads bind whoever starts them to a processor.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

#: Samples are so short, in seconds, that other programs leave some of them alone, and nine times as many.
_SAMPLE_SECS, _N_PROBES = 0.001, 8


def peak_rates(n_threads: int, timeout_secs: float = 300.0) -> list[float]:
    """Samples of float32 operations per second of all threads, empty where the compiler has no such kernel.

    Others on the machine only make it look slower, so the highest is the machine's. Raises
    subprocess.CalledProcessError.
    """
    from prune_engine.metaschedule.threads import thread_variables

    done = subprocess.run(
        [sys.executable, __file__, str(n_threads)],
        check=True,
        capture_output=True,
        text=True,
        timeout=timeout_secs,
        env={**os.environ, **thread_variables(n_threads)},
    )
    rates: list[float] = json.loads(done.stdout.splitlines()[-1])
    return rates


def main(n_threads: int) -> None:
    """Measure and print."""
    from prune_engine.hardware.host import host_profile
    from prune_engine.metaschedule.probe_kernels import ProbeKernels

    host = host_profile(n_threads)  # before TVM binds this thread to one processor
    kernels = ProbeKernels(
        n_threads,
        vector_bytes=host.value("limits.vector_bytes"),
        vector_registers=host.value("limits.vector_registers"),
        sample_secs=_SAMPLE_SECS,
    )
    print(json.dumps([rate for _ in range(_N_PROBES) for rate in kernels.flop_rates("float32")]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
