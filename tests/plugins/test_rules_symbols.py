"""Rules that hold symbols against a number of the profile: what is above it goes, an unknown one cuts nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from kits.rules import batch_of, with_level
from prune_engine_rules import register_rules
from prune_engine_rules.code_size import InstructionCache
from prune_engine_rules.compiler import Duplicate, Refused
from prune_engine_rules.launch import SharedMemory, ThreadsPerBlock, VectorBytes
from prune_engine_rules.occupancy import DeviceFill
from prune_engine_rules.registers import RegisterPressure, VectorRegisters
from prune_engine_rules.residency import L1Residency, L2Residency
from prune_engine_rules.scratchpads import SYMBOLS, Scratchpads, SharedScratchpads

from prune_engine.hardware.levels import DeviceKind
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.stages.reasons import CandidateSymbols
from prune_engine.strategies import Rule
from prune_engine.symbols.builtin import BUILTIN_SYMBOLS
from prune_engine.testing import make_profile, make_task
from prune_engine.verdicts import RuleKind

CPU, GPU, NPU = DeviceKind.CPU, DeviceKind.GPU, DeviceKind.NPU
BIG = make_task(shape=(1024, 1024, 64))


@dataclass(frozen=True)
class Case:
    """A rule, a device that knows ``limit``, and symbols of a candidate at the limit and of one past it."""

    rule: Rule
    profile: Callable[[int | None], HardwareProfile]
    limit: int
    at: dict[str, int]
    past: dict[str, int]
    field: str
    #: The limit as the reason gives it, where that is not ``limit``.
    shown: int = 0
    #: Devices whose number means something else: nothing is dropped there.
    elsewhere: tuple[DeviceKind, ...] = ()


def gpu(field: str, **others: int | None) -> Callable[[int | None], HardwareProfile]:
    return lambda value: make_profile(GPU, **{**others, field: value})


def cpu_level(name: str) -> Callable[[int | None], HardwareProfile]:
    return lambda value: with_level(make_profile(CPU), name, value)


OPT_IN, PER_CORE, PER_BLOCK = (
    "shared_memory_per_block_opt_in_bytes",
    "shared_memory_per_core_bytes",
    "shared_memory_per_block_bytes",
)
CASES = {
    "threads": Case(
        ThreadsPerBlock(),
        gpu("threads_per_block"),
        512,
        {"threads_per_block": 512},
        {"threads_per_block": 513},
        "limits.threads_per_block",
    ),
    "shared, opt-in": Case(
        SharedMemory(),
        lambda value: make_profile(GPU, **{OPT_IN: value, PER_CORE: None, PER_BLOCK: None}),
        99_000,
        {"shared_bytes_per_block": 99_000},
        {"shared_bytes_per_block": 99_001},
        f"limits.{OPT_IN}",
    ),
    "shared, per core": Case(
        SharedMemory(),
        lambda value: make_profile(GPU, **{PER_CORE: value, PER_BLOCK: None}),
        100_000,
        {"shared_bytes_per_block": 100_000},
        {"shared_bytes_per_block": 100_001},
        f"limits.{PER_CORE}",
    ),
    "shared, per block": Case(
        SharedMemory(),
        lambda value: make_profile(GPU, **{PER_CORE: None, PER_BLOCK: value}),
        48_000,
        {"shared_bytes_per_block": 48_000},
        {"shared_bytes_per_block": 48_001},
        f"limits.{PER_BLOCK}",
    ),
    "vector bytes": Case(
        VectorBytes(),
        gpu("vector_bytes"),
        16,
        {"max_vector_bytes": 16},
        {"max_vector_bytes": 32},
        "limits.vector_bytes",
        elsewhere=(CPU,),
    ),
    "scratchpad, usable": Case(
        Scratchpads(),
        lambda value: with_level(
            make_profile(NPU), "ub", value and value + 8192, usable_bytes=value, is_hard_limit=True
        ),
        188_416,
        {"npu_ub_bytes": 188_416},
        {"npu_ub_bytes": 188_417},
        "memory.ub",
    ),
    "scratchpad, all of it": Case(
        Scratchpads(),
        lambda value: with_level(make_profile(NPU), "l0c", value, is_hard_limit=True),
        131_072,
        {"npu_l0c_bytes": 131_072},
        {"npu_l0c_bytes": 131_073},
        "memory.l0c",
    ),
    "registers a thread": Case(
        RegisterPressure(),
        gpu("registers_per_thread", registers_per_block=None),
        128,
        {"registers_per_thread": 128, "threads_per_block": 1024},
        {"registers_per_thread": 129, "threads_per_block": 1},
        "limits.registers_per_thread",
        elsewhere=(CPU,),
    ),
    "registers a block": Case(
        RegisterPressure(),
        gpu("registers_per_block", registers_per_thread=None),
        32_768,
        {"registers_per_thread": 64, "threads_per_block": 512},
        {"registers_per_thread": 64, "threads_per_block": 513},
        "limits.registers_per_block",
        elsewhere=(CPU,),
    ),
    "vector registers": Case(
        VectorRegisters(),
        lambda value: make_profile(CPU, vector_registers=value, vector_bytes=64),
        32,
        {"cpu_s1_vector_registers": 64, "vector_lanes": 16},
        {"cpu_s1_vector_registers": 65, "vector_lanes": 16},
        "limits.vector_registers",
        elsewhere=(GPU,),
    ),
    "vector registers, wide loop": Case(
        VectorRegisters(),
        lambda value: make_profile(CPU, vector_registers=32, vector_bytes=value),
        32,
        {"cpu_s1_vector_registers": 8, "vector_lanes": 64},
        {"cpu_s1_vector_registers": 9, "vector_lanes": 64},
        "limits.vector_bytes",
        elsewhere=(GPU,),
    ),
    "L1": Case(
        L1Residency(),
        cpu_level("l1d"),
        32_768,
        {"working_set_l1_bytes": 8 * 32_768},
        {"working_set_l1_bytes": 8 * 32_768 + 1},
        "memory.l1d.capacity_bytes",
        shown=8 * 32_768,
        elsewhere=(GPU,),
    ),
    "L2": Case(
        L2Residency(),
        cpu_level("l2"),
        1 << 20,
        {"working_set_l2_bytes": 4 << 20},
        {"working_set_l2_bytes": (4 << 20) + 1},
        "memory.l2.capacity_bytes",
        shown=4 << 20,
        elsewhere=(GPU,),
    ),
    "code": Case(
        InstructionCache(),
        cpu_level("l1i"),
        32_768,
        {"unrolled_body_instances": 4096},
        {"unrolled_body_instances": 4097},
        "memory.l1i.capacity_bytes",
        shown=4096,
        elsewhere=(GPU,),
    ),
    "idle cores": Case(
        DeviceFill(),
        lambda value: make_profile(CPU, cores=value) if value else without_cores(make_profile(CPU)),
        16,
        {"parallel_extent": 9},
        {"parallel_extent": 8},
        "core_count",
    ),
    "idle multiprocessors": Case(
        DeviceFill(),
        lambda value: make_profile(GPU, cores=value) if value else without_cores(make_profile(GPU)),
        16,
        {"grid_blocks": 5},
        {"grid_blocks": 4},
        "core_count",
    ),
}
#: The field in question, made twice as generous; for idle cores that is fewer of them.
KINDER = {name: case.limit // 2 if case.field == "core_count" else case.limit * 2 for name, case in CASES.items()}


def without_cores(profile: HardwareProfile) -> HardwareProfile:
    return profile.model_copy(update={"core_count": None})


def both(case: Case, *, is_opaque: bool = False):
    columns = {name: [case.at[name], case.past[name]] for name in case.at}
    return batch_of(task=BIG, is_opaque=is_opaque, **columns)


def kept(rule: Rule, batch, profile: HardwareProfile) -> list[bool]:
    return rule.mask(batch, profile).tolist()


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def test_what_is_at_the_limit_stays_and_what_is_past_it_goes(case: Case) -> None:
    assert kept(case.rule, both(case), case.profile(case.limit)) == [True, False]


@pytest.mark.parametrize("name", CASES)
def test_the_limit_is_the_profiles(name: str) -> None:
    case = CASES[name]
    assert kept(case.rule, both(case), case.profile(KINDER[name])) == [True, True]


def test_an_unknown_limit_drops_nothing(case: Case) -> None:
    assert kept(case.rule, both(case), case.profile(None)) == [True, True]


def test_a_sketch_that_could_not_be_read_is_kept(case: Case) -> None:
    assert kept(case.rule, both(case, is_opaque=True), case.profile(case.limit)) == [True, True]


def test_a_device_of_another_kind_drops_nothing(case: Case) -> None:
    for kind in case.elsewhere:
        profile = case.profile(case.limit).model_copy(update={"kind": kind})
        assert kept(case.rule, both(case), profile) == [True, True]


def test_the_reason_gives_values_limit_device_and_field(case: Case) -> None:
    profile, symbols = case.profile(case.limit), CandidateSymbols(both(case), 1)
    reason = case.rule.reason(symbols, profile)
    assert case.field in reason
    assert profile.name in reason
    assert symbols.asked == case.past
    assert all(str(value) in reason for value in case.past.values())
    assert str(case.shown or case.limit) in reason
    assert any(path.startswith(case.field) for path in case.rule.hardware_basis)


def test_the_reason_can_be_asked_without_a_candidate(case: Case) -> None:
    for limit in (case.limit, None):
        assert case.rule.reason({}, case.profile(limit))


def test_shared_memory_takes_the_largest_size_a_block_can_have() -> None:
    profile = make_profile(GPU, **{OPT_IN: 99_000, PER_CORE: 100_000, PER_BLOCK: 48_000})
    batch = batch_of(shared_bytes_per_block=[48_001, 99_000, 99_001])
    assert kept(SharedMemory(), batch, profile) == [True, True, False]


def test_caches_are_no_scratchpads() -> None:
    profile = with_level(make_profile(NPU), "ub", 1024, is_hard_limit=False)
    assert kept(Scratchpads(), batch_of(npu_ub_bytes=[4096]), profile) == [True]


def test_every_scratchpad_counts() -> None:
    profile = with_level(make_profile(NPU), "nram", 1000, is_hard_limit=True)
    profile = with_level(profile, "wram", 500, is_hard_limit=True)
    batch = batch_of(npu_nram_bytes=[1000, 1001, 10, 1001], npu_wram_bytes=[500, 10, 501, 501])
    assert kept(Scratchpads(), batch, profile) == [True, False, False, False]
    reason = Scratchpads().reason(CandidateSymbols(batch, 3), profile)
    assert "1001 bytes in nram" in reason
    assert "501 bytes in wram" in reason
    assert "nram" not in Scratchpads().reason(CandidateSymbols(batch, 2), profile)


def test_a_scratchpad_that_cores_share_is_a_guess() -> None:
    profile = with_level(make_profile(NPU), "sram", 4000, is_hard_limit=True)
    batch = batch_of(npu_sram_bytes=[4000, 4001])
    assert SharedScratchpads().mask(batch, profile).tolist() == [True, False]
    assert SharedScratchpads.kind is RuleKind.HEURISTIC
    assert Scratchpads().mask(batch, profile).all()


def test_a_small_kernel_may_leave_cores_idle() -> None:
    small = make_task(shape=(16, 16, 16))
    assert kept(DeviceFill(), batch_of(task=small, parallel_extent=[1]), make_profile(CPU, cores=16)) == [True]
    assert kept(DeviceFill(), batch_of(task=BIG, parallel_extent=[1]), make_profile(CPU, cores=16)) == [False]


def test_what_the_compiler_refuses_goes() -> None:
    batch = batch_of(is_refused=[0, 1, 0])
    assert kept(Refused(), batch, make_profile()) == [True, False, True]
    assert kept(Refused(), batch_of(is_opaque=True, is_refused=[1]), make_profile()) == [True]


def test_duplicates_go() -> None:
    batch = batch_of(is_canonical=[1, 0, 1])
    assert kept(Duplicate(), batch, make_profile()) == [True, False, True]
    assert kept(Duplicate(), batch_of(is_opaque=True, is_canonical=[0]), make_profile()) == [True]


def test_what_is_certain_is_legality_and_what_is_guessed_is_not() -> None:
    legality = {r.name for r in register_rules() if r.kind is RuleKind.LEGALITY}
    assert legality == {
        "rules.refused",
        "rules.duplicate",
        "rules.threads-per-block",
        "rules.shared-memory",
        "rules.vector-bytes",
        "rules.scratchpads",
    }


def test_float16_tiles_need_half_the_registers() -> None:
    task = replace(BIG, arg_dtypes=("float16",) * 3)
    profile = make_profile(CPU, vector_registers=32, vector_bytes=64)
    columns = {"cpu_s1_vector_registers": [128], "vector_lanes": [16]}
    assert kept(VectorRegisters(), batch_of(task=task, **columns), profile) == [True]
    assert kept(VectorRegisters(), batch_of(task=BIG, **columns), profile) == [False]


def test_the_symbols_that_rules_read_exist() -> None:
    read = {name for case in CASES.values() for name in case.at} | set(SYMBOLS.values())
    assert read | {"is_refused", "is_canonical"} <= {symbol.name for symbol in BUILTIN_SYMBOLS}
