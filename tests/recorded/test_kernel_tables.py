"""Tables of hand-written kernels as recorded spaces."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from prune_engine.errors import ConfigError
from prune_engine.recorded.kernel_table_files import read_kernel_tables
from prune_engine.recorded.kernel_tables import plain_device_name
from prune_engine.space import VariableKind

TABLE = """\
workload\tconfig\tRTX_2080_Ti\tA100
\tblock=16;order=abc;ratio=0.5\t2.0\t1.5
\tblock=32;order=abc;ratio=0.5\tinvalid\t1.0
\tblock=128;order=cab;ratio=2\t4.0
\tblock=16;order=cab;ratio=0.5\t\tinvalid
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "conv.tsv"
    path.write_text(TABLE)
    return path


def test_configurations_are_rows_of_one_opaque_sketch(path: Path) -> None:
    (table,) = read_kernel_tables(path)
    recorded = table.recorded("A100")
    (sketch,) = recorded.space.sketches
    assert [v.name for v in sketch.variables] == ["block", "order", "ratio"]
    assert all(v.kind is VariableKind.CATEGORICAL for v in sketch.variables)
    assert sketch.variables[0].table.ravel().tolist() == [16, 32, 128]
    assert recorded.batches[0].is_opaque
    assert recorded.batches[0].column(0).ravel().tolist() == [16, 32, 16]


def test_values_that_are_no_whole_numbers_are_numbered_in_order(path: Path) -> None:
    (table,) = read_kernel_tables(path)
    assert table.choices[1:] == (("abc", "cab"), ("0.5", "2"))
    assert [v.table.ravel().tolist() for v in table.recorded("a100").space.sketches[0].variables[1:]] == [
        [0, 1]
    ] * 2


def test_times_failures_and_what_was_not_tried(path: Path) -> None:
    (table,) = read_kernel_tables(path)
    np.testing.assert_allclose(table.recorded("A100").run_secs[0], [1.5e-3, 1.0e-3, np.nan])
    np.testing.assert_allclose(table.recorded("RTX_2080_Ti").run_secs[0], [2.0e-3, np.nan, 4.0e-3])


def test_devices_share_the_sketch_and_differ_in_the_task(path: Path) -> None:
    (table,) = read_kernel_tables(path)
    one, other = table.recorded("A100"), table.recorded("RTX 2080 ti")
    assert one.space.sketches[0].sketch_id == other.space.sketches[0].sketch_id
    assert one.task.task_id != other.task.task_id
    assert one.task.task_id == table.recorded("a100").task.task_id


@pytest.mark.parametrize("name", ["RTX_2080_Ti", "rtx-2080-ti", "RTX 2080 Ti"])
def test_names_of_devices_are_read_leniently(path: Path, name: str) -> None:
    (table,) = read_kernel_tables(path)
    assert table.device(name) == "RTX_2080_Ti"
    assert plain_device_name(name) == "rtx-2080-ti"


def test_a_wrong_device_is_answered_with_those_there_are(path: Path) -> None:
    (table,) = read_kernel_tables(path)
    with pytest.raises(ConfigError, match="'H100'; expected one of: RTX_2080_Ti, A100"):
        table.recorded("H100")


def test_a_gzipped_file_and_several_workloads(tmp_path: Path) -> None:
    text = "workload\tconfig\tA100\nsmall\ta=1\t1\nlarge\ta=1;b=2\t5\nsmall\ta=2\t2\n"
    path = tmp_path / "gemm.tsv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    small, large = read_kernel_tables(path)
    assert (small.name, large.name) == ("gemm/small", "gemm/large")
    assert (small.recorded("A100").n_candidates, large.names) == (2, ("a", "b"))


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("\tblock=1\t1\t1", "line 3: parameters block, expected block, order, ratio"),
        ("\tblock\t1\t1", "line 3: its configuration is not name=value;name=value"),
        ("\tblock=1;order=a;ratio=1\t1\t1\t1", "line 3: 5 columns, expected 4"),
        ("\tblock=1;order=a;ratio=1\tfast\t1", "line 3: could not convert string to float: 'fast'"),
        ("\tblock=1;order=a;ratio=1\t-2\t1", "line 3: -2 is no time in milliseconds"),
        ("\tblock=1;order=a;ratio=1\tnan\t1", "line 3: nan is no time in milliseconds"),
        ("\tblock=16;order=abc;ratio=0.5\t9\t9", "1 configurations are there twice"),
        ("cut off", "line 3: its configuration"),
    ],
)
def test_a_broken_row_is_told_of_and_the_others_are_read(path: Path, row: str, says: str) -> None:
    lines = TABLE.splitlines()
    path.write_text("\n".join([*lines[:2], row.replace("cut off", "\tcut off"), *lines[2:]]))
    (table,) = read_kernel_tables(path)
    assert says in table.remarks[0]
    assert table.recorded("A100").run_secs[0][0] == 1.5e-3
    assert len(table.indices) == 4


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"workload\tconfig\n", b"\xff\xfe\x00", b"\x1f\x8bbroken"])
def test_what_is_no_table(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "table.tsv"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"is no table of kernels|cannot be read"):
        read_kernel_tables(path)


def test_a_device_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("workload\tconfig\tA100\tA100\n\ta=1\t1\t2\n")
    with pytest.raises(ConfigError, match="two columns of one device; got A100"):
        read_kernel_tables(tmp_path / "x.tsv")


def test_no_rows_and_no_file(tmp_path: Path) -> None:
    path = tmp_path / "table.tsv"
    with pytest.raises(ConfigError, match="cannot be read; got No such file"):
        read_kernel_tables(path)
    path.write_text("workload\tconfig\tA100\n")
    with pytest.raises(ConfigError, match="no configuration that can be read; got no rows"):
        read_kernel_tables(path)
    path.write_text("workload\tconfig\tA100\n\tx\t1\n")
    with pytest.raises(ConfigError, match="no configuration that can be read; got line 2"):
        read_kernel_tables(path)
