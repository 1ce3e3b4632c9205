"""Intrinsics out of the cache are those that TVM's own import registers."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, sys
from pathlib import Path
from prune_engine.metaschedule._compat import _cheap_stacks, import_tvm
from prune_engine.metaschedule import intrinsic_cache

import_tvm()
from tvm.s_tir import TensorIntrin
from tvm.script import tirx

names, register, parse = [], TensorIntrin.register, tirx.prim_func
def noting(name, desc, impl, override=False):
    names.append(name)
    register(name, desc, impl, override)
TensorIntrin.register = noting
parsed = []
def counting(*args, **options):
    parsed.append(1)
    return parse(*args, **options)
tirx.prim_func = counting
with _cheap_stacks():
    intrinsic_cache.import_cached("tvm.s_tir.tensor_intrin." + sys.argv[1], *map(Path, sys.argv[2:]))
assert TensorIntrin.register is noting
assert tirx.prim_func is counting
found = {name: [TensorIntrin.get(name).desc.script(), TensorIntrin.get(name).impl.script()] for name in names}
print(json.dumps([len(parsed), found]))
"""


def imported(module: str, folder: Path, shipped: Path | None = None) -> tuple[int, dict[str, list[str]]]:
    """How many functions were parsed, and what is registered by name, as TVM prints it."""
    folders = [str(path) for path in (folder, shipped) if path is not None]
    command = [sys.executable, "-c", SCRIPT, module, *folders]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    n_parsed, found = json.loads(done.stdout.splitlines()[-1])
    return n_parsed, found


def test_second_import_parses_nothing_and_registers_the_same(tmp_path: Path) -> None:
    n_parsed, first = imported("x86", tmp_path / "new" / "folder")
    assert n_parsed > 0
    assert first
    n_parsed, second = imported("x86", tmp_path / "new" / "folder")
    assert n_parsed == 0
    assert second == first


def test_those_of_cuda_come_with_the_package(tmp_path: Path) -> None:
    n_parsed, parsed = imported("cuda", tmp_path, shipped=tmp_path / "nothing")
    assert n_parsed > 0
    assert len(list(tmp_path.iterdir())) == 1
    n_parsed, shipped = imported("cuda", tmp_path / "cache")
    assert n_parsed == 0
    assert not (tmp_path / "cache").exists()
    assert shipped == parsed


@pytest.mark.parametrize("cut", [slice(1000), slice(10, None)], ids=["cut-off", "no-gzip"])
def test_shipped_file_that_is_broken_is_done_without(cut: slice, tmp_path: Path) -> None:
    _, first = imported("x86", tmp_path, shipped=tmp_path)
    (cached,) = tmp_path.iterdir()
    broken = tmp_path / "shipped" / f"{cached.name}.gz"
    broken.parent.mkdir()
    broken.write_bytes(gzip.compress(cached.read_bytes())[cut])
    n_parsed, second = imported("x86", tmp_path / "other", shipped=broken.parent)
    assert n_parsed > 0
    assert second == first


@pytest.mark.parametrize("content", ["", "[]"])
def test_file_that_is_none_is_replaced(content: str, tmp_path: Path) -> None:
    _, first = imported("x86", tmp_path)
    (file,) = tmp_path.iterdir()
    size = file.stat().st_size
    file.write_text(content)
    n_parsed, second = imported("x86", tmp_path)
    assert n_parsed > 0
    assert second == first
    assert [path.stat().st_size for path in tmp_path.iterdir()] == [size]


def test_folder_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    n_parsed, found = imported("x86", tmp_path / "file")
    assert n_parsed > 0
    assert found
