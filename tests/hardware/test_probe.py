"""From measurements to a profile, with kernels that only pretend to run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from prune_engine.hardware import HardwareProfile, MemoryLevel, Rate, Scope, host_profile
from prune_engine.hardware import probe as probe_module
from prune_engine.hardware.load import LoadMeter
from prune_engine.hardware.loader import parse_profile
from prune_engine.hardware.probe import probe_host, working_set_bytes
from prune_engine.hardware.schema import Count, quantities
from prune_engine.hardware.writer import profile_text

GIB = 1 << 30


class FakeKernels:
    """Answers by table; remembers the working sets that it was asked for."""

    def __init__(self, n_threads: int = 4, **samples: Sequence[float]) -> None:
        self.n_threads = n_threads
        self._samples = {
            "float32": [9e10, 1e11, 1.3e11],
            "float64": [5e10],
            "int8": [4e11],
            "read": [8e10],
            "fork": [2e-6],
        }
        self._samples.update(samples)
        self.working_sets: list[int] = []

    def flop_rates(self, dtype: str) -> Sequence[float]:
        return self._samples[dtype]

    def read_rates(self, bytes_per_thread: int) -> Sequence[float]:
        self.working_sets.append(bytes_per_thread)
        return self._samples["read"]

    def fork_join_secs(self) -> Sequence[float]:
        return self._samples["fork"]


def cache(name: str, size: int, instances: int, scope: Scope = Scope.CORE) -> MemoryLevel:
    return MemoryLevel(
        name=name,
        scope=scope,
        instances=Count(value=instances, source="sysfs"),
        capacity_bytes=Count(value=size, source="sysfs"),
        bandwidth_bytes_per_sec=None,
        line_bytes=None,
        is_hard_limit=False,
    )


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> HardwareProfile:
    """Four cores; two of them share a last cache."""
    profile = host_profile(4)
    levels = (
        cache("l1i", 32 << 10, 4),
        cache("l1d", 32 << 10, 4),
        cache("l2", 512 << 10, 4),
        cache("l3", 16 << 20, 2, Scope.CLUSTER),
        profile.memory[-1],
    )
    profile = profile.model_copy(update={"memory": levels})
    monkeypatch.setattr(probe_module, "cpu_model", lambda: "ACME(R) 9000 @ 3 GHz")
    monkeypatch.setattr(probe_module, "_free_bytes", lambda: 64 * GIB)
    return profile


class TestProbedProfile:
    def test_numbers_are_medians_with_a_source_and_marked_measured(self, host: HardwareProfile) -> None:
        profile = probe_host(host, FakeKernels(), measured_at="2026-01-02T03:04:05+00:00")
        assert profile.value("compute.vector.peak_flop_per_sec.float32") == 1e11
        assert profile.value("compute.vector.peak_flop_per_sec.int8") == 4e11
        assert profile.value("launch_secs") == 2e-6
        measured = {path: q for path, q in quantities(profile) if q.origin == "measured"}
        assert len(measured) == 3 + 4 + 1
        assert all("median of" in profile.sources[quantity.source] for quantity in measured.values())
        assert "3 samples that differ by 40%" in profile.sources["peak-float32"]

    def test_bandwidth_is_that_of_one_instance(self, host: HardwareProfile) -> None:
        profile = probe_host(host, FakeKernels(), measured_at="now")
        assert profile.value("memory.l1d.bandwidth_bytes_per_sec") == 2e10, "four caches"
        assert profile.value("memory.l3.bandwidth_bytes_per_sec") == 4e10, "two caches"
        assert profile.value("memory.dram.bandwidth_bytes_per_sec") == 8e10, "one memory"
        assert profile.value("memory.l1i.bandwidth_bytes_per_sec") is None, "data does not come from there"

    def test_capacities_and_counts_stay_those_of_the_system(self, host: HardwareProfile) -> None:
        profile = probe_host(host, FakeKernels(), measured_at="now")
        for path, quantity in quantities(host):
            assert profile.value(path) == quantity.value

    def test_provenance(self, host: HardwareProfile) -> None:
        profile = probe_host(host, FakeKernels(), measured_at="now")
        assert profile.name == "probe-acme-r-9000-3-ghz-4t"
        assert profile.probe is not None
        assert (profile.probe.cpu_model, profile.probe.n_threads, profile.probe.measured_at) == (
            "ACME(R) 9000 @ 3 GHz",
            4,
            "now",
        )
        again = probe_host(host, FakeKernels(), measured_at="later")
        assert again.digest() == profile.digest(), "the same numbers are the same device"

    def test_what_could_not_be_measured_is_unknown(self, host: HardwareProfile) -> None:
        said: list[str] = []
        kernels = FakeKernels(int8=[], fork=[-1e-7, -2e-7, 1e-8])
        profile = probe_host(host, kernels, measured_at="now", say=said.append)
        assert profile.value("compute.vector.peak_flop_per_sec.int8") is None
        assert profile.launch_secs is None, "noise larger than what is measured"
        assert "peak-int8: unknown" in said
        assert "fork-join: unknown" in said

    def test_disturbed_measurements_are_told(self, host: HardwareProfile) -> None:
        said: list[str] = []
        probe_host(host, FakeKernels(), measured_at="now", say=said.append)
        by_tag = {line.partition(":")[0]: line for line in said}
        assert "disturbed" in by_tag["peak-float32"]
        assert "disturbed" not in by_tag["peak-float64"]

    @pytest.mark.parametrize(("share", "is_told"), [(0.04, False), (0.4, True), (None, False)])
    def test_other_programs_are_told_and_recorded(
        self, host: HardwareProfile, monkeypatch: pytest.MonkeyPatch, share: float | None, is_told: bool
    ) -> None:
        monkeypatch.setattr(LoadMeter, "others_share", lambda self: share)
        said: list[str] = []
        profile = probe_host(host, FakeKernels(), measured_at="now", say=said.append)
        assert profile.probe is not None
        assert profile.probe.others_share == share
        assert any("other programs used 40% of the processors" in line for line in said) is is_told

    def test_is_a_valid_file(self, host: HardwareProfile) -> None:
        profile = probe_host(host, FakeKernels(), measured_at="now")
        assert parse_profile(profile_text(profile), "x") == profile


class TestFewerThreadsThanCores:
    def test_only_instances_in_use_share_the_bandwidth(self, host: HardwareProfile) -> None:
        profile = probe_host(host, FakeKernels(n_threads=1), measured_at="now")
        assert profile.value("memory.l1d.bandwidth_bytes_per_sec") == 8e10
        assert profile.value("memory.l3.bandwidth_bytes_per_sec") == 8e10

    def test_working_sets_fit_what_is_in_use(self, host: HardwareProfile) -> None:
        kernels = FakeKernels(n_threads=1)
        probe_host(host, kernels, measured_at="now")
        l1d, l2, l3, dram = kernels.working_sets
        assert l1d == (32 << 10) // 2
        assert (32 << 10) * 2 < l2 < (512 << 10) / 2
        assert (512 << 10) * 2 < l3 < (16 << 20) / 2
        assert dram == 4 * (16 << 20)


class TestFreeMemory:
    @pytest.mark.parametrize(
        ("limit", "usage"),
        [("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")],
    )
    def test_container_limit_counts(self, tmp_path: Path, limit: str, usage: str) -> None:
        for name, text in ((limit, "3000000\n"), (usage, "1000000\n")):
            path = tmp_path / "sys/fs/cgroup" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert probe_module._free_bytes(tmp_path) == 2_000_000

    def test_no_limit(self, tmp_path: Path) -> None:
        folder = tmp_path / "sys/fs/cgroup"
        folder.mkdir(parents=True)
        (folder / "memory.max").write_text("max\n")
        assert probe_module._free_bytes(tmp_path) > 0


class TestWorkingSets:
    def test_each_fits_its_level_and_not_the_one_inside(self, host: HardwareProfile) -> None:
        kernels = FakeKernels()
        probe_host(host, kernels, measured_at="now")
        l1d, l2, l3, dram = (size * kernels.n_threads for size in kernels.working_sets)
        assert l1d == 4 * (32 << 10) // 2
        assert 4 * (32 << 10) * 2 < l2 < 4 * (512 << 10) / 2
        assert 4 * (512 << 10) * 2 < l3 < 2 * (16 << 20) / 2
        assert dram == 4 * 2 * (16 << 20)

    def test_small_caches_still_leave_the_caches(self, host: HardwareProfile) -> None:
        small = host.model_copy(update={"memory": (host.memory[1], host.memory[-1])})
        assert working_set_bytes("dram", small, 4) == (64 << 20) // 4

    def test_memory_that_is_not_free_is_not_used(
        self, host: HardwareProfile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(probe_module, "_free_bytes", lambda: 200 << 20)
        assert working_set_bytes("dram", host, 4) == (100 << 20) // 4
        monkeypatch.setattr(probe_module, "_free_bytes", lambda: 100 << 20)
        assert working_set_bytes("dram", host, 4) is None, "too little to tell it from the cache"

    def test_unknown_capacity(self, host: HardwareProfile) -> None:
        blind = cache("l2", 1, 4).model_copy(update={"capacity_bytes": None})
        profile = host.model_copy(update={"memory": (host.memory[1], blind, host.memory[-1])})
        assert working_set_bytes("l2", profile, 4) is None
        assert working_set_bytes("l1d", profile, 4) == (32 << 10) // 2

    def test_cache_no_larger_than_the_one_inside(self, host: HardwareProfile) -> None:
        odd = host.model_copy(update={"memory": (host.memory[2], cache("l3", 1 << 20, 1), host.memory[-1])})
        assert working_set_bytes("l3", odd, 4) is None


def test_rate_of_a_host_has_no_false_precision(host: HardwareProfile) -> None:
    profile = probe_host(host, FakeKernels(float64=[123456789012.3]), measured_at="now")
    peak = profile.compute[0].peak_flop_per_sec["float64"]
    assert peak == Rate(value=1.235e11, source="peak-float64", origin="measured")
