"""YAML that is wrong says where and what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from prune_engine.errors import ProfileError
from prune_engine.hardware import load_profile
from prune_engine.hardware.loader import parse_profile

GOOD = """\
schema_version: 1
name: acme-1
kind: gpu
core_count: {value: 4, source: sheet}
clock_hz: {value: 1.5e+9, source: sheet}
memory:
  - name: dram
    scope: chip
    instances: null
    capacity_bytes: null
    bandwidth_bytes_per_sec: {value: 3.35e+12, source: sheet}
    line_bytes: null
    is_hard_limit: true
compute: []
limits:
  vector_bytes: null
  threads_per_warp: {value: 32, source: sheet}
  threads_per_block: {value: 1024, source: sheet}
  threads_per_core: null
  registers_per_block: null
  shared_memory_per_block_bytes: {value: 49_152, source: sheet, origin: derived}
transaction_bytes: null
launch_secs: null
combine: pipe
sources:
  sheet: the data sheet
"""


@pytest.fixture(params=["libyaml", "pure Python"], autouse=True)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyYAML is built with or without libyaml; nobody should notice."""
    if request.param == "pure Python":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)


def test_good_profile_loads(tmp_path: Path) -> None:
    path = tmp_path / "acme-1.yaml"
    path.write_text(GOOD)
    profile = load_profile(path)
    assert profile.value("memory.dram.bandwidth_bytes_per_sec") == 3.35e12
    assert profile.value("limits.shared_memory_per_block_bytes") == 49152


#: What is replaced, by what, the line it must name, and what the message must hold: key, value, remedy.
WRONG = {
    "exponent without sign": (
        "3.35e+12",
        "3.35e12",
        11,
        ["memory.0.bandwidth_bytes_per_sec.value", "'3.35e12' is text", "3.35e+12"],
    ),
    "quoted number": ("value: 1024", 'value: "1024"', 18, ["limits.threads_per_block.value", "'1024' is text"]),
    "unit in the value": ("49_152", "48 KiB", 21, ["shared_memory_per_block_bytes.value", "'48 KiB' is text"]),
    "bare number": ("{value: 32, source: sheet}", "32", 17, ["threads_per_warp", "Write {value: 32, source:"]),
    "no source": ("{value: 32, source: sheet}", "{value: 32}", 17, ["threads_per_warp.source", "missing"]),
    "unexplained source": (
        "{value: 4, source: sheet}",
        "{value: 4, source: me}",
        4,
        ["core_count.source", "'me'", "Add me to sources"],
    ),
    "yes for text": ("name: acme-1", "name: yes", 2, ["name", "True"]),
    "unit missing in the key": ("launch_secs:", "launch:", 23, ["launch", "Write launch_secs"]),
    "misspelt key": ("threads_per_warp:", "thread_per_warp:", 17, ["Did you mean threads_per_warp"]),
    "number left out": ("transaction_bytes: null\n", "", 1, ["transaction_bytes", "as null if it is unknown"]),
    "duplicate key": ("combine: pipe", "combine: pipe\ncombine: sum", 25, ["duplicate key 'combine'", "line 24"]),
    "duplicate key deep down": ("    line_bytes: null", "    line_bytes: null\n    name: l2", 13, ["'name'"]),
    "octal": ("value: 1024", "value: 01024", 18, ["01024", "without a leading 0"]),
    "sixties": ("value: 1024", "value: 17:04", 18, ["17:04", "decimal"]),
    "key that is no text": ("sources:\n", "sources:\n  no: x\n", 26, ["'no' is not text", "quotes"]),
    "key that is a list": ("combine: pipe", "combine: pipe\n? [a]\n: b", 25, ["not text"]),
    "unknown kind": ("kind: gpu", "kind: tpu", 3, ["kind", "'cpu', 'gpu' or 'npu'", "'tpu'"]),
    "negative": ("value: 1024", "value: -1", 18, ["greater than 0", "-1"]),
    "fraction": ("value: 1024", "value: 10.5", 18, ["integer", "10.5"]),
    "infinite": ("1.5e+9", ".inf", 5, ["clock_hz.value"]),
    "limit of the kind left out": (
        "  threads_per_core: null\n",
        "",
        15,
        ["limits.threads_per_core: missing", "null if it is unknown"],
    ),
    "newer schema": ("schema_version: 1", "schema_version: 2", 1, ["newer", "at most 1", "Upgrade"]),
    "schema as text": ("schema_version: 1", 'schema_version: "1"', 1, ["schema_version", "'1'"]),
    "no schema": ("schema_version: 1\n", "", 1, ["schema_version", "missing"]),
    "broken syntax": ("compute: []", "compute: [", None, ["not YAML"]),
    "no such date": ("name: acme-1", "name: 2024-13-45", None, ["not YAML that can be read"]),
    "self-reference": ("compute: []", "compute: &a [*a]", 14, ["contains itself", "Write it out"]),
    "unknown level": ("name: dram", "name: dramm", 7, ["gpu has no memory level dramm", "registers, shared, l1"]),
    "two units of one name": (
        "compute: []",
        "compute:" + 2 * "\n- {name: a, count: null, peak_flop_per_sec: {}}",
        16,
        ["compute.1.name: two compute units share a name: a"],
    ),
    "list left out": ("compute: []\n", "", 1, ["compute: missing. Give compute, as [] if there is none."]),
    "null for a list": ("compute: []", "compute: null", 14, ["compute: must not be null. Give compute, as []"]),
    "mapping left out": (
        "  sheet: the data sheet\n",
        "",
        25,
        ["sources: must not be null", "as {} if there is none"],
    ),
    "choice left out": ("combine: pipe\n", "", 1, ["Give combine: sum or max or pipe."]),
    "kind left out": ("kind: gpu\n", "", 1, ["Give kind: cpu or gpu or npu."]),
    "yes or no left out": ("    is_hard_limit: true\n", "", 7, ["Give is_hard_limit: true or false."]),
    "negative capacity": (
        "    capacity_bytes: null",
        "    capacity_bytes: {value: -1, source: sheet}",
        10,
        ["memory.0.capacity_bytes.value", "greater than 0", "-1"],
    ),
    "more usable than there is": (
        "    capacity_bytes: null",
        "    capacity_bytes: {value: 8, source: sheet}\n    usable_bytes: {value: 9, source: sheet}",
        7,
        ["memory.0", "usable_bytes 9 is more than capacity_bytes 8"],
    ),
    "tile without source": (
        "compute: []",
        "compute:\n- name: cube\n  count: null\n  peak_flop_per_sec: {}\n  tiles: {int8: {m: 1, n: 1, k: 1}}",
        18,
        ["tiles.int8.source", "missing"],
    ),
    "character that YAML does not allow": ("combine: pipe", "combine: p\0ipe", 24, ["not YAML"]),
    "python object": ("name: acme-1", "name: !!python/name:os.system ''", 2, ["not YAML"]),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_profile_says_where_and_what(what: str) -> None:
    old, new, line, expected = WRONG[what]
    assert old in GOOD
    with pytest.raises(ProfileError) as caught:
        parse_profile(GOOD.replace(old, new, 1), "acme.yaml")
    message = str(caught.value)
    assert message.startswith("acme.yaml:" if line is None else f"acme.yaml:{line}: "), message
    for text in expected:
        assert text in message


def test_every_problem_is_told_at_once_on_a_line_of_its_own() -> None:
    """Of YAML, of single fields, and of what they say together."""
    text = (
        GOOD.replace("threads_per_warp: {value: 32, source: sheet}", "threads_per_warp: {value: 32, source: me}")
        .replace("value: 1024", "value: x")
        .replace("name: dram", "name: dramm")
        .replace("combine: pipe", "combine: pipe\ncombine: sum")
        .replace("  threads_per_core: null\n", "")
        .replace("compute: []\n", "compute: null\n")
    )
    with pytest.raises(ProfileError) as caught:
        parse_profile(text, "acme.yaml")
    assert str(caught.value).splitlines() == [
        "acme.yaml:7: memory.0.name: a gpu has no memory level dramm. "
        "It may have: registers, shared, l1, l2, l3, dram.",
        "acme.yaml:14: compute: must not be null. Give compute, as [] if there is none.",
        "acme.yaml:15: limits.threads_per_core: missing; profiles of kind gpu give it. "
        "Give threads_per_core, as null if it is unknown.",
        "acme.yaml:17: limits.threads_per_warp.source: source 'me' is not explained in sources (sheet). "
        "Add me to sources, or name one that is there.",
        "acme.yaml:18: limits.threads_per_block.value: 'x' is text, not a number. "
        "Write a plain number in the unit that the key names.",
        "acme.yaml:24: duplicate key 'combine', first on line 23. Keep one of them.",
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [("threads_per_warp:", "thread_per_warp:"), ("combine: pipe", "combine: pipe\non: 1")],
    ids=["misspelt limit", "key that is no text"],
)
def test_one_mistake_is_told_once(old: str, new: str) -> None:
    with pytest.raises(ProfileError) as caught:
        parse_profile(GOOD.replace(old, new), "acme.yaml")
    assert len(str(caught.value).splitlines()) == 1, caught.value


def test_a_type_of_elements_is_one() -> None:
    unit = "compute: [{name: alu, count: null, peak_flop_per_sec: {flot16: null}}]"
    with pytest.raises(ProfileError, match=r"flot16.*such as float16"):
        parse_profile(GOOD.replace("compute: []", unit), "acme-1.yaml")
    parse_profile(GOOD.replace("compute: []", unit.replace("flot16", "float8_e4m3fn")), "acme-1.yaml")


@pytest.mark.parametrize("text", ["- a\n- b\n", "just text", "7"])
def test_not_a_mapping(text: str) -> None:
    with pytest.raises(ProfileError, match=r"acme.yaml:1: not a profile.*expected a YAML mapping"):
        parse_profile(text, "acme.yaml")


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing yet\n"])
def test_empty_file(text: str) -> None:
    with pytest.raises(ProfileError, match=r"acme.yaml:1: .*the file is empty.*key: value"):
        parse_profile(text, "acme.yaml")


def test_few_lines_that_stand_for_millions_of_values() -> None:
    """Ten aliases of ten aliases of ...: 10^9 values out of one kilobyte."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(ProfileError, match=r"acme.yaml:5: stands for more than \d+ values.*Write it out"):
        parse_profile("\n".join(lines), "acme.yaml")
    merges = ["m0: &m0 {a: 1, b: 2}"]
    merges += [f"m{i}: &m{i} {{<<: [{', '.join([f'*m{i - 1}'] * 10)}]}}" for i in range(1, 9)]
    with pytest.raises(ProfileError, match="stands for more than"):
        parse_profile("\n".join(merges), "acme.yaml")


def test_aliases_may_be_used() -> None:
    text = GOOD.replace("threads_per_core: null", "threads_per_core: *n").replace(
        "threads_per_warp: {value: 32", "threads_per_warp: &n {value: 32"
    )
    assert parse_profile(text, "acme.yaml").value("limits.threads_per_core") == 32


def test_end_of_the_text_is_its_last_line() -> None:
    for text in ("name: [", "name: [\n"):
        with pytest.raises(ProfileError, match=r"^acme.yaml:1: not YAML"):
            parse_profile(text, "acme.yaml")


def test_nesting_without_end() -> None:
    with pytest.raises(ProfileError, match=r"acme.yaml"):
        parse_profile("[" * 5000 + "]" * 5000, "acme.yaml")


def test_file_too_large(tmp_path: Path) -> None:
    """Also one that has no end."""
    path = tmp_path / "huge.yaml"
    path.write_text(GOOD + "# " + "x" * (1 << 20))
    for file in (path, Path("/dev/zero")):
        with pytest.raises(ProfileError, match=r"too large for a profile; got more than 1048576 bytes"):
            load_profile(file)


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"absent.yaml: cannot be read: No such file.*Correct the path"):
        load_profile(tmp_path / "absent.yaml")
    with pytest.raises(ProfileError, match=r"cannot be read: Is a directory"):
        load_profile(tmp_path)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"name: a\n\xff\xfe\x00")
    with pytest.raises(ProfileError, match=r"binary.yaml:2: cannot be read: .*Save it as UTF-8"):
        load_profile(binary)
