"""Broken and hostile files of every format of ours: an error of the tree, in bounded memory, and nothing is run."""

from __future__ import annotations

import gzip
import io
import json
import random
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz.mutations import broken_bytes, broken_json, broken_lines, nested
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prune_engine_lightgbm.files import ModelFile, read_model, write_model
from reliability.figure import Figure

from prune_engine.cli.run import _load
from prune_engine.decisions.records import read_decisions
from prune_engine.errors import PruneEngineError
from prune_engine.hardware.loader import load_profile
from prune_engine.library.files import read_library, write_library
from prune_engine.metaschedule.record_rows import UNREADABLE, read_rows, structure_of
from prune_engine.provenance.policy_files import read_lock
from prune_engine.recorded.kernel_table_files import read_kernel_tables
from prune_engine.testing import make_profile

PROFILE = Path(__file__).parent.parent.parent / "hardware_profiles" / "amd-epyc-7452.yaml"


@dataclass(frozen=True)
class Format:
    """How a format is read, a good file of it, and how that is broken."""

    name: str
    read: Callable[[Path], object]
    good: Callable[[Path], bytes]
    broken: Callable[[bytes, random.Random], bytes]
    suffix: str = ""


def profile(folder: Path) -> bytes:
    return PROFILE.read_bytes()


def hostile_yaml(content: bytes, draw: random.Random) -> bytes:
    """A profile with a few lines that YAML has ways to abuse."""
    lines = content.decode().splitlines()
    at = draw.randrange(len(lines) + 1)
    nine = ", ".join(["*a"] * 9)
    bomb = "\n".join(
        ["a: &a [1]"]
        + [f"{c}: &{c} [{', '.join([f'*{b}'] * 9)}]" for b, c in zip("abcdefg", "bcdefgh", strict=True)]
    )
    hostile = [
        "x: !!python/object/apply:os.abort []",
        "!!python/object/new:os.system ['false']",
        "x: !!python/name:os.abort",
        "x: &a [*a]",
        bomb,
        f"x: [{nine}]",
        f"x: {'9' * 5000}",
        "x: 1e999999999",
        "x: 0x" + "f" * 9000,
        "x: 9999-99-99",
        f"x: {nested(2000)}",
        "- " * 3000 + "x",
        lines[at % len(lines)],
        "<<: {name: other}",
        "? [a, b]\n: c",
        "x: !!binary '!!!'",
        "x: !!timestamp 2001-99-99",
        "--- \nname: second",
        "%YAML 9.9\n---",
        "\x85\u2028x: \ufeff",
    ]
    lines.insert(at, draw.choice(hostile))
    return "\n".join(lines).encode()


def yaml_or_bytes(content: bytes, draw: random.Random) -> bytes:
    return hostile_yaml(content, draw) if draw.randrange(2) else broken_bytes(content, draw)


def library(folder: Path) -> bytes:
    from prune_engine.testing.store_samples import store_entry

    write_library(folder / "good", [store_entry((1e-3,)), store_entry((2e-3,), model="m")])
    return (folder / "good").read_bytes()


def lines_or_gzip(content: bytes, draw: random.Random) -> bytes:
    """Broken lines, which may be compressed, whole or broken again."""
    text = broken_lines(content.decode(), draw).encode("utf-8", "replace")
    kind = draw.randrange(3)
    packed = gzip.compress(text, 1) if kind else text
    return broken_bytes(packed, draw) if kind == 2 else packed


def kernels(folder: Path) -> bytes:
    return b"workload\tconfig\tgpu a\tgpu b\ngemm\ta=1;b=2\t0.5\tinvalid\ngemm\ta=2;b=2\t\t0.25\nconv\tc=x\t1\t2\n"


def bytes_or_gzip(content: bytes, draw: random.Random) -> bytes:
    if draw.randrange(3) == 0:
        return broken_bytes(gzip.compress(content), draw)
    cells = content.decode().split("\t")
    cells[draw.randrange(len(cells))] = draw.choice(("", "nan", "1e999", "-1", "9" * 5000, "=;=", "\0", "a=1;a=2"))
    return broken_bytes("\t".join(cells).encode(), draw) if draw.randrange(2) else "\t".join(cells).encode()


def json_or_bytes(content: bytes, draw: random.Random) -> bytes:
    if draw.randrange(3) == 0:
        return broken_bytes(content, draw)
    return broken_json(content.decode(), draw).encode("utf-8", "replace")


def policy(folder: Path) -> bytes:
    from prune_engine.provenance.policy import _SECTIONS, Policy
    from prune_engine.provenance.policy_files import write_lock

    write_lock(folder / "good", Policy({name: {"a": {"order": 1}, "epsilon": 0.1} for name in _SECTIONS}))
    return (folder / "good").read_bytes()


def whitelist(folder: Path) -> bytes:
    from kits.whitelists import make_listed

    from prune_engine.whitelist.entries import Whitelist
    from prune_engine.whitelist.files import whitelist_text

    entry = make_listed()
    return whitelist_text(Whitelist({entry.entry_id: entry}, {}, 1), "a test").encode()


def read_whitelisted(path: Path) -> object:
    from prune_engine.whitelist.files import read_whitelist

    return read_whitelist(path)


def decisions(folder: Path) -> bytes:
    from prune_engine.decisions.records import LINES, Decision, DecisionKind
    from prune_engine.verdicts import Outcome, Stage

    one = Decision(1, "run", "task", 1, Stage.RULE, "acme.rule", DecisionKind.HEURISTIC, Outcome.DROPPED, "why")
    return (LINES.dump_json(one) + b"\n") * 3


def read_all_decisions(path: Path) -> object:
    return list(read_decisions(path.parent))


def packed_lines(content: bytes, draw: random.Random) -> bytes:
    packed = gzip.compress(broken_lines(content.decode(), draw).encode("utf-8", "replace"), 1)
    return broken_bytes(packed, draw) if draw.randrange(2) else packed


def records(folder: Path) -> bytes:
    insts = [["GetSBlock", [], ["C", "main"], ["b0"]], ["SampleCategorical", [], [[0, 16], [0.5, 0.5]], ["v1"]]]
    insts += [["Annotate", ["b0", "v1"], ["x"], []], ["EnterPostproc", [], [], []]]
    row = [0, [[insts, [[1, 0]]], [1e-3, 2e-3], {"kind": "llvm"}, [["TENSOR", "float32", [1, 2]]]]]
    return (json.dumps(row) + "\n").encode() * 3


def read_all_records(path: Path) -> object:
    """As `recorded` does."""
    found = []
    for row in read_rows(path):
        if not isinstance(row, str):
            try:
                found.append(structure_of(row.instructions))
            except UNREADABLE:
                continue
    return found


def text_lines(content: bytes, draw: random.Random) -> bytes:
    return broken_lines(content.decode(), draw).encode("utf-8", "replace")


def model(folder: Path) -> bytes:
    from prune_engine_lightgbm.device import device_of
    from prune_engine_lightgbm.rows import Block, Labels, TaskRows

    rows = TaskRows()
    labels = Labels(np.log2(np.full(3, 1e-3)), np.zeros(3, bool))
    rows.add(Block(0, "sketch", np.zeros((3, 2), np.int32), {"flops": np.ones(3, np.float32)}, labels))
    write_model(folder / "good", ModelFile(device_of(make_profile()), {"task": rows}))
    return (folder / "good").read_bytes()


def broken_archive(content: bytes, draw: random.Random) -> bytes:
    """An archive with a broken header, an array of another shape or kind, or broken bytes."""
    if draw.randrange(3) == 0:
        return broken_bytes(content, draw)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = draw.choice(sorted(members))
    kind = draw.randrange(5)
    if name == "header.npy" and kind <= 2:
        header = np.load(io.BytesIO(members[name])).tobytes().decode()
        members[name] = npy(np.frombuffer(broken_json(header, draw).encode("utf-8", "replace"), np.uint8))
    elif kind == 0:
        members[name] = npy_header(
            draw.choice(["(4503599627370496,)", "(-1,)", "(2, 1099511627776)", "()", "(0,)"])
        )
    elif kind == 1:
        members[name] = npy_header("(1,)", draw.choice(["|O", "<U999999999", "|V8", "<M8[ns]", "<c16", "|S0"]))
    elif kind == 2:
        members[name] = broken_bytes(members[name], draw)
    elif kind == 3:
        del members[name]
    else:
        members[draw.choice(sorted(members))] = members[name]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for key, data in members.items():
            archive.writestr(key, data)
    return out.getvalue()


def npy(array: np.ndarray[Any, Any]) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array, allow_pickle=False)
    return out.getvalue()


def npy_header(shape: str, dtype: str = "<f8") -> bytes:
    """An array that says it has a shape, and has eight bytes."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(8)


def array(folder: Path) -> bytes:
    return npy(np.arange(12.0).reshape(3, 4))


def broken_array(content: bytes, draw: random.Random) -> bytes:
    if draw.randrange(2):
        return broken_bytes(content, draw)
    shapes = ["(4503599627370496,)", "(-1,)", "(2, 1099511627776)", "()", "(1, (2,))", "(10**9,)", "('a',)"]
    return npy_header(draw.choice(shapes), draw.choice(["<f8", "|O", "<U999999999", "|V8", "x" * 100]))


FORMATS = [
    Format("profile", load_profile, profile, yaml_or_bytes),
    Format("library", read_library, library, lines_or_gzip),
    Format("kernel table", read_kernel_tables, kernels, bytes_or_gzip),
    Format("policy lock", read_lock, policy, json_or_bytes),
    Format("whitelist", read_whitelisted, whitelist, json_or_bytes),
    Format("decisions", read_all_decisions, decisions, packed_lines, "0001.jsonl.gz"),
    Format("tuning records", read_all_records, records, text_lines),
    Format("verifier model", read_model, model, broken_archive),
    Format("input array", _load, array, broken_array),
]


@pytest.mark.filterwarnings("ignore")  # readers tell of lines that they pass over
@pytest.mark.parametrize("format_", FORMATS, ids=lambda f: f.name)
@pytest.mark.usefixtures("bounded_memory")
def test_broken_files_are_errors_of_the_tree(
    format_: Format, tmp_path: Path, is_full: bool, reached: Callable[[Figure], None]
) -> None:
    good = format_.good(tmp_path)
    path = tmp_path / "fuzz" / (format_.suffix or "file")
    path.parent.mkdir()
    path.write_bytes(gzip.compress(good) if format_.name == "decisions" else good)
    assert format_.read(path) is not None, "the file is a good one before it is broken"
    seen = {"read": 0, "refused": 0}
    longest = [0]

    @settings(
        max_examples=5000 if is_full else 60,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=True))
    def broken(draw: random.Random) -> None:
        path.write_bytes(format_.broken(good, draw))
        try:
            format_.read(path)
        except PruneEngineError as error:
            seen["refused"] += 1
            longest.append(len(str(error)))
        else:
            seen["read"] += 1

    broken()
    assert max(longest) < 20_000, "a message that nobody reads"
    assert seen["refused"] or format_.name in ("decisions", "tuning records"), "nothing that was broken was refused"
    reached(
        Figure(f"fuzz_{format_.name.replace(' ', '_')}", sum(seen.values()), {"unexpected errors": 0}, details=seen)
    )
