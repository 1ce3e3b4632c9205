"""What a figure needs beside it: the machine, its load and the versions."""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import version

from prune_engine.hardware.host import cpu_model


def describe() -> dict[str, object]:
    """The machine as it is now."""
    return {
        "processor": cpu_model(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "load_average_1_min": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": platform.python_version(),
        "apache-tvm": version("apache-tvm"),
        "onnxruntime": version("onnxruntime"),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def as_markdown() -> str:
    """The machine as a table."""
    rows = [f"| {name.replace('_', ' ')} | {value} |" for name, value in describe().items()]
    return "\n".join(["| | |", "|---|---|", *rows])
