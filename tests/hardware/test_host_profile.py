"""This machine as the operating system describes it, on made-up /proc and /sys trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from prune_engine.hardware import Scope, host_profile
from prune_engine.hardware.host import cpu_model, usable_cpus


def cpuinfo(root: Path, **entries: str) -> None:
    (root / "proc").mkdir(parents=True, exist_ok=True)
    block = "".join(f"{key.replace('_', ' ')}\t: {value}\n" for key, value in entries.items())
    (root / "proc/cpuinfo").write_text(f"{block}\n{block}")


def cache(root: Path, cpu: int, index: int, level: int, kind: str, size: str, shared: str) -> None:
    folder = root / f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
    folder.mkdir(parents=True)
    entries = {
        "level": level,
        "type": kind,
        "size": size,
        "shared_cpu_list": shared,
        "coherency_line_size": 64,
        "ways_of_associativity": 8,
    }
    for name, value in entries.items():
        (folder / name).write_text(f"{value}\n")


@pytest.fixture
def two_clusters(tmp_path: Path) -> Path:
    """8 processors, two threads a core, four processors a last-level cache."""
    cpuinfo(tmp_path, model_name="ACME 9000", flags="fpu sse2 avx avx2 fma")
    for cpu in range(8):
        pair = f"{cpu % 4},{cpu % 4 + 4}"
        cache(tmp_path, cpu, 0, 1, "Data", "32K", pair)
        cache(tmp_path, cpu, 1, 1, "Instruction", "64K", pair)
        cache(tmp_path, cpu, 2, 2, "Unified", "1024K", pair)
        cluster = "0-1,4-5" if cpu % 4 < 2 else "2-3,6-7"
        cache(tmp_path, cpu, 3, 3, "Unified", "32M", cluster)
        topology = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology"
        topology.mkdir()
        (topology / "thread_siblings_list").write_text(f"{pair}\n")
    return tmp_path


def test_caches_with_scope_and_instances(two_clusters: Path) -> None:
    profile = host_profile(4, root=two_clusters, cpus=frozenset(range(8)))
    caches = {
        m.name: (m.scope, m.instances and m.instances.value, m.capacity_bytes and m.capacity_bytes.value)
        for m in profile.memory[:-1]
    }
    assert caches == {
        "l1i": (Scope.CORE, 4, 64 << 10),
        "l1d": (Scope.CORE, 4, 32 << 10),
        "l2": (Scope.CORE, 4, 1 << 20),
        "l3": (Scope.CLUSTER, 2, 32 << 20),
    }
    assert profile.value("memory.l1d.line_bytes") == 64
    assert profile.value("memory.l2.ways") == 8
    assert profile.value("core_count") == 4
    assert profile.description == "ACME 9000"


def test_only_usable_processors_count(two_clusters: Path) -> None:
    profile = host_profile(2, root=two_clusters, cpus=frozenset({2, 3}))
    assert profile.value("memory.l2.instances") == 2
    assert profile.value("memory.l3.instances") == 1
    level = profile.level("l3")
    assert level is not None
    assert level.scope is Scope.CHIP, "all that we use share it"


@pytest.mark.parametrize(
    ("flags", "vector_bytes", "registers"),
    [
        ({"flags": "sse2 avx avx2 avx512f"}, 64, 32),
        ({"flags": "sse2 avx avx2"}, 32, 16),
        ({"flags": "sse2"}, 16, 16),
        ({"Features": "fp asimd crc32"}, 16, 32),
        ({"flags": "fpu"}, None, None),
        ({}, None, None),
    ],
)
def test_vectors_follow_from_the_flags(tmp_path: Path, flags, vector_bytes, registers) -> None:
    cpuinfo(tmp_path, **flags)
    profile = host_profile(1, root=tmp_path, cpus=frozenset({0}))
    assert profile.value("limits.vector_bytes") == vector_bytes
    assert profile.value("limits.vector_registers") == registers
    assert profile.value("compute.vector.lanes") == (vector_bytes and vector_bytes // 4)


def test_base_clock_where_the_kernel_tells_it(tmp_path: Path) -> None:
    assert host_profile(1, root=tmp_path).clock_hz is None
    folder = tmp_path / "sys/devices/system/cpu/cpu0/cpufreq"
    folder.mkdir(parents=True)
    (folder / "base_frequency").write_text("2400000\n")
    assert host_profile(1, root=tmp_path).value("clock_hz") == 2.4e9


def test_nothing_is_invented(tmp_path: Path) -> None:
    """A machine that says nothing gives a valid profile of unknowns."""
    profile = host_profile(1, root=tmp_path, cpus=frozenset())
    assert [m.name for m in profile.memory] == ["dram"]
    assert profile.clock_hz is profile.launch_secs is profile.transaction_bytes is None
    assert profile.compute[0].peak_flop_per_sec == {}
    assert cpu_model(tmp_path)


@pytest.mark.parametrize("text", ["", "?", "K", "64KB", "-1"])
def test_odd_sizes_are_unknown(tmp_path: Path, text: str) -> None:
    cache(tmp_path, 0, 0, 1, "Data", text, "0")
    assert host_profile(1, root=tmp_path, cpus=frozenset({0})).value("memory.l1d.capacity_bytes") is None


def test_this_machine_is_described_the_same_each_time() -> None:
    assert host_profile(2).digest() == host_profile(2).digest() != host_profile(1).digest()
    assert usable_cpus()
