"""A process that reads broken files one after another, told by number: what it dies of is its own.

``python child.py KIND FOLDER FIRST STOP``: prints the number of each before it is read, and a line for each fault.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

#: What reading one file may take beside what the process has when it begins.
_MEMORY_BYTES = 3 << 30


def database(folder: Path) -> Callable[[random.Random], object]:
    """A tuning database of which rows or workloads are broken."""
    from fuzz.mutations import broken_bytes, broken_lines
    from kits.recordings import RECORDS_FILE, WORKLOADS_FILE

    from prune_engine.metaschedule.recorded import read_recorded

    good = {name: (folder / name).read_text() for name in (RECORDS_FILE, WORKLOADS_FILE)}
    broken = folder / "broken"
    broken.mkdir(exist_ok=True)

    def read(draw: random.Random) -> object:
        content = dict(good)
        kind = draw.randrange(4)
        if kind <= 1:
            content[RECORDS_FILE] = broken_lines(good[RECORDS_FILE], draw)
        elif kind == 2:
            content[WORKLOADS_FILE] = _broken_workload(good[WORKLOADS_FILE], draw)
        else:
            name = draw.choice((RECORDS_FILE, WORKLOADS_FILE))
            content[name] = broken_bytes(good[name].encode(), draw).decode("utf-8", "replace")
        for name, text in content.items():
            (broken / name).write_text(text, encoding="utf-8", errors="replace")
        return read_recorded(broken)

    return read


def workload_json(folder: Path) -> Callable[[random.Random], object]:
    """A file of workloads that is to be tuned."""
    from kits.recordings import WORKLOADS_FILE

    from prune_engine.metaschedule.targets import resolve_target
    from prune_engine.metaschedule.workloads.loading import load_model

    target = resolve_target("llvm", 1)
    good = (folder / WORKLOADS_FILE).read_text()

    def read(draw: random.Random) -> object:
        path = folder / "broken.json"
        path.write_text(_broken_workload(good, draw), encoding="utf-8", errors="replace")
        return load_model(str(path), target)

    return read


def onnx(folder: Path) -> Callable[[random.Random], object]:
    """A model whose bytes or fields are broken."""
    from fuzz.mutations import broken_bytes
    from fuzz.onnx_models import broken_model

    from prune_engine.metaschedule.importers import import_onnx
    from prune_engine.metaschedule.targets import resolve_target

    good = (folder / "good.onnx").read_bytes()
    target = resolve_target("llvm", 1)

    def read(draw: random.Random) -> object:
        path = folder / "broken.onnx"
        path.write_bytes(broken_bytes(good, draw) if draw.randrange(3) == 0 else broken_model(good, draw))
        return import_onnx(path, target=target, shapes={}, dims={})

    return read


def _broken_workload(text: str, draw: random.Random) -> str:
    """A workload line whose module, JSON in base64, is broken."""
    import base64
    import json

    from fuzz.mutations import broken_bytes, broken_json

    lines = text.splitlines()
    at = draw.randrange(len(lines))
    digest, encoded = json.loads(lines[at])
    raw = base64.b64decode(encoded)
    prefix, module = raw[:8], raw[8:].decode()
    if draw.randrange(6) == 0:
        prefix = broken_bytes(prefix, draw)[:8]
    module = broken_json(module, draw)
    lines[at] = json.dumps([digest, base64.b64encode(prefix + module.encode("utf-8", "replace")).decode()])
    return "\n".join(lines) + "\n"


KINDS = {"database": database, "workload_json": workload_json, "onnx": onnx}


def main() -> None:
    """Read the files of some numbers."""
    from prune_engine.errors import PruneEngineError

    kind, folder, first, stop = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    out = os.fdopen(os.dup(1), "w", buffering=1)
    read = KINDS[kind](folder)
    with contextlib.suppress(PruneEngineError):
        read(random.Random(-1))
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + _MEMORY_BYTES, -1))
    for number in range(first, stop):
        print("reading", number, file=out)
        try:
            read(random.Random(number))
        except PruneEngineError:
            continue
        except BaseException as error:  # noqa: BLE001
            place = traceback.extract_tb(error.__traceback__)[-1]
            told = " ".join(str(error).split())[:120]
            print(
                "fault", number, type(error).__name__, f"{Path(place.filename).name}:{place.lineno}", told, file=out
            )
    print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10, file=out)


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent.parent)]
    main()
