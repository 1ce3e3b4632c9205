"""What a machine was like while something ran on it: system, processor, clocks, load, memory, limits.

Everything comes from the kernel's files; what a kernel or container does not tell is None, never guessed.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prune_engine.hardware.host import cpu_model, usable_cpus

#: Variables that change how kernels are compiled or run, by how they begin.
_PREFIXES = ("TVM_", "OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_", "PRUNE_ENGINE_", "CUDA_VISIBLE")
_EXACT = ("LD_PRELOAD", "MALLOC_ARENA_MAX", "PYTHONHASHSEED")
#: Parts of names whose values are nobody's business.
_PRIVATE = ("KEY", "TOKEN", "SECRET", "PASSWORD", "STORE")

_FREQUENCY = "sys/devices/system/cpu/cpu{}/cpufreq/{}"
#: Where each processor family says whether it may exceed its nominal clock: file, and the text that means yes.
_TURBO = (
    ("sys/devices/system/cpu/intel_pstate/no_turbo", "0"),
    ("sys/devices/system/cpu/cpufreq/boost", "1"),
)
_CGROUP = Path("sys/fs/cgroup")


def machine_state(root: Path = Path("/"), environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What does not change while a run lasts, as JSON values. ``root`` replaces the file system."""
    cpus = sorted(usable_cpus())
    return {
        "os": {"name": platform.system(), "release": platform.release(), "platform": platform.platform()},
        "machine": platform.machine(),
        "cpu_model": cpu_model(root),
        "n_cpus": os.cpu_count(),
        "affinity": cpus,
        "governor": _read(root, _FREQUENCY.format(cpus[0] if cpus else 0, "scaling_governor")),
        "turbo": _turbo(root),
        "memory_bytes": _kib(root, "MemTotal"),
        "limits": {
            "cgroup_cpu": _read(root, str(_CGROUP / "cpu.max")),
            "cgroup_memory_bytes": _number(_read(root, str(_CGROUP / "memory.max"))),
            "is_container": any((root / name).exists() for name in (".dockerenv", "run/.containerenv")),
        },
        "environment": _environment(os.environ if environ is None else environ),
    }


def load_state(root: Path = Path("/")) -> dict[str, Any]:
    """What changes from moment to moment, as JSON values: time (UTC seconds), load, clocks (Hz), free memory."""
    return {
        "at": time.time(),
        "load_average": _load_average(),
        "clocks_hz": _clocks(root),
        "available_bytes": _kib(root, "MemAvailable"),
    }


def _load_average() -> list[float] | None:
    try:
        return list(os.getloadavg())
    except OSError:
        return None


def _clocks(root: Path) -> dict[str, float] | None:
    """The momentary clock of each usable processor by its number, from cpufreq, else from /proc/cpuinfo."""
    found: dict[str, float] = {}
    listed = _listed_clocks(root)
    for cpu in sorted(usable_cpus()):
        khz = _number(_read(root, _FREQUENCY.format(cpu, "scaling_cur_freq")))
        hz = khz * 1e3 if khz is not None else listed.get(cpu)
        if hz is not None:
            found[str(cpu)] = hz
    return found or None


def _listed_clocks(root: Path) -> dict[int, float]:
    clocks: dict[int, float] = {}
    for block in (_read(root, "proc/cpuinfo") or "").split("\n\n"):
        fields = {
            key.strip(): value.strip() for key, _, value in (line.partition(":") for line in block.split("\n"))
        }
        try:
            clocks[int(fields["processor"])] = float(fields["cpu MHz"]) * 1e6
        except (KeyError, ValueError):
            continue
    return clocks


def _turbo(root: Path) -> bool | None:
    for name, enabled in _TURBO:
        if (text := _read(root, name)) is not None:
            return text == enabled
    return None


def _kib(root: Path, name: str) -> int | None:
    """A number of /proc/meminfo in bytes."""
    for line in (_read(root, "proc/meminfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key == name and (words := value.split()) and words[0].isdigit():
            return int(words[0]) * 1024
    return None


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in sorted(environ.items())
        if (name.startswith(_PREFIXES) or name in _EXACT) and not any(word in name for word in _PRIVATE)
    }


def _number(text: str | None) -> int | None:
    """A count; None for what is no number, as the ``max`` of a control group without a limit."""
    return int(text) if text is not None and text.isdigit() else None


def _read(root: Path, name: str) -> str | None:
    try:
        return (root / name).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
