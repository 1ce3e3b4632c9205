"""A C++ program that starts Python and calls every function: each of its cases is a test here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kits.embedding import need_python_to_embed

from prune_engine.ffi.functions import FUNCTIONS
from prune_engine.hardware import DeviceKind
from prune_engine.hardware.writer import write_profile
from prune_engine.testing import make_profile

HERE = Path(__file__).parent
CASES = re.findall(r'Case\("(\w+)"', (HERE / "embedding.cc").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tvm: Any) -> Path:
    """What the program reads: a profile, a kernel, and a candidate of it that no GPU can run."""
    from prune_engine.metaschedule.embedding import TraceTexts, workload_space
    from prune_engine.metaschedule.materialise import module_to_json

    folder = tmp_path_factory.mktemp("embedding")
    limits = {"threads_per_block": 64, "shared_memory_per_block_bytes": 1024, "shared_memory_per_core_bytes": None}
    profile = make_profile(DeviceKind.GPU, name="small-gpu", **limits)
    write_profile(profile, folder / "small-gpu.yaml")
    space = workload_space("gemm:256x256x256", "cuda/a100").space
    (folder / "module.json").write_text(module_to_json(space.task.mod), encoding="utf-8")
    sketch = space.sketches[0]
    # All of both spatial loops on the threads of one block.
    rows = [v.index_of((1, 1, 256, 1, 1)) if v.table.shape[1] == 5 else 0 for v in sketch.variables]
    (folder / "illegal.json").write_text(TraceTexts(space).of(sketch, [row or 0 for row in rows]), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def printed(folder: Path, build: Callable[..., None], environment: dict[str, str]) -> dict[str, str]:
    """What the program says of each case."""
    build("embedding.cc", folder / "embedding")
    command = [str(folder / "embedding"), sys.prefix, str(folder / "small-gpu.yaml"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=250, env=environment)
    lines = done.stdout.splitlines()
    said = {line.split()[1]: line for line in lines if line.startswith(("ok ", "FAILED "))}
    assert lines[-1:] == ["done"], f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert done.returncode == any(line.startswith("FAILED") for line in lines)
    return said


@pytest.mark.parametrize("case", CASES)
def test_case(case: str, printed: dict[str, str]) -> None:
    assert printed[case] == f"ok {case}"


def test_the_program_calls_every_function() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in HERE.glob("*.*"))
    missing = [name for name in FUNCTIONS if name.partition(".")[2] not in source]
    assert not missing


def test_the_header_has_every_function_but_the_check_that_it_makes_itself() -> None:
    header = HERE.parents[1] / "prune_engine" / "include" / "prune_engine" / "prune_engine.h"
    called = set(re.findall(r"PRUNE_ENGINE_CALL_\((\w+)", header.read_text(encoding="utf-8"))) - {"NAME"}
    assert called == {name.partition(".")[2] for name in FUNCTIONS} - {"CheckAbi"}


def test_a_library_in_a_running_python_needs_no_start(
    tmp_path: Path, build: Callable[..., None], environment: dict[str, str]
) -> None:
    library = tmp_path / "host.so"
    build("host_library.cc", library, "-shared", "-fPIC", embed=False)
    program = (
        "import json, sys, tvm_ffi\n"
        "host = tvm_ffi.load_module(sys.argv[1])\n"
        "try:\n"
        "    host.version()\n"
        "except RuntimeError as error:\n"
        "    print(error)\n"
        "import prune_engine.ffi\n"
        "print(host.version())\n"
        "from prune_engine.metaschedule.embedding import workload_space\n"
        "space = workload_space('gemm:64x64x64', 'llvm -num-cores=2').space\n"
        "traces = [sketch.payload for sketch in space.sketches]\n"
        "from tvm import s_tir\n"
        "schedule = s_tir.Schedule(space.task.mod)\n"
        "traces[0].apply_to_schedule(schedule, remove_postproc=True)\n"
        "told = json.loads(host.kept(space.task.mod, 'llvm -num-cores=2', [schedule, *traces[1:]]))\n"
        "print(told['size'] == space.size)\n"
        "print(json.loads(host.kept(space.task.mod, 'llvm -num-cores=2', None))['size'] == space.size)\n"
    )
    command = [sys.executable, "-c", program, str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert "import prune_engine.ffi" in lines[0]
    assert lines[1:] == ["1000", "True", "True"]


def test_an_environment_without_the_engine(
    tmp_path: Path, folder: Path, printed: dict[str, str], environment: dict[str, str]
) -> None:
    """The program's own Python without packages is told of as such."""
    bare = Path(sys.base_prefix) / "bin" / "python3"
    if not bare.exists() or sys.base_prefix == sys.prefix:
        pytest.skip("there is no Python beside that of this environment")
    command = [str(folder / "embedding"), str(bare), str(folder / "small-gpu.yaml"), str(folder)]
    environment = {**environment, "PYTHONNOUSERSITE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100, env=environment)
    said = next(line for line in done.stdout.splitlines() if line.split()[1] == "start")
    assert re.search(r"FAILED start prune_engine.StartError: .*prune_engine.* cannot be imported", said), said
    assert done.returncode == 1


def test_flags_are_told_in_one_line(flags: Callable[..., list[str]]) -> None:
    words = flags("--cxxflags", "--ldflags")
    assert "-std=c++17" in words
    assert "-ltvm_ffi" in words
    assert not [word for word in words if "python3" in Path(word).name and word.startswith("-l")]
    assert (Path(flags("--includedir")[0]) / "prune_engine" / "start.h").is_file()
    assert (Path(flags("--cmakedir")[0]) / "prune_engine-config.cmake").is_file()
    assert flags("--abi") == ["1000"]
    asked = subprocess.run([sys.executable, "-m", "prune_engine.ffi"], capture_output=True, text=True, check=False)
    assert asked.returncode == 2
    assert "--cxxflags" in asked.stderr
    assert json.dumps(asked.stdout) == '""'


def test_a_program_that_starts_python_is_linked_with_it(flags: Callable[..., list[str]]) -> None:
    need_python_to_embed()
    assert [word for word in flags("--embed", "--ldflags") if word.startswith("-lpython")]
