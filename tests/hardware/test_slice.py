"""A slice of a processor's profile."""

from __future__ import annotations

import pytest

from prune_engine.errors import ProfileError
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.hardware.slice import with_threads


@pytest.fixture(scope="module")
def socket() -> HardwareProfile:
    return ProfileRegistry().resolve("amd-epyc-9654")


def test_a_slice_has_its_cores_share_of_everything_that_cores_own(socket: HardwareProfile) -> None:
    part = with_threads(socket, 2)
    assert part.value("core_count") == 2
    assert part.value("compute.fma.count") == 4
    assert part.value("compute.fma.peak_flop_per_sec.float32") == pytest.approx(7.3728e12 / 48)
    assert part.value("memory.l1d.instances") == part.value("memory.l2.instances") == 2
    assert part.value("memory.l1d.capacity_bytes") == socket.value("memory.l1d.capacity_bytes")


@pytest.mark.parametrize(("n_threads", "n_l3"), [(1, 1), (8, 1), (9, 2), (95, 12)])
def test_as_many_shared_caches_stay_as_the_cores_need(socket: HardwareProfile, n_threads: int, n_l3: int) -> None:
    assert with_threads(socket, n_threads).value("memory.l3.instances") == n_l3


def test_memory_of_the_chip_stays(socket: HardwareProfile) -> None:
    assert with_threads(socket, 1).level("dram") == socket.level("dram")


def test_it_is_another_device_with_a_valid_profile(socket: HardwareProfile) -> None:
    part = with_threads(socket, 2)
    assert part.digest() != socket.digest()
    assert HardwareProfile.model_validate_json(part.model_dump_json()) == part


def test_all_cores_and_other_kinds_are_left_alone(socket: HardwareProfile) -> None:
    gpu = ProfileRegistry().resolve("a100")
    assert with_threads(socket, 96) is socket
    assert with_threads(gpu, 2) is gpu


def test_more_threads_than_cores_are_refused(socket: HardwareProfile) -> None:
    with pytest.raises(ProfileError, match="96 cores, 97 threads"):
        with_threads(socket, 97)
