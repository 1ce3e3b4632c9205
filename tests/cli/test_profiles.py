"""`prune-engine profiles`, as a user types it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import typer.main

from prune_engine.cli import profiles as profiles_module
from prune_engine.cli.app import make_app
from prune_engine.cli.profile_tables import quantity
from prune_engine.hardware import load_profile

Run = Callable[..., "subprocess.CompletedProcess[str]"]
ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "hardware_profiles"
A100 = FOLDER / "nvidia-a100-sxm-80gb.yaml"
PAGE = ROOT / "docs" / "profiles" / "index.md"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "bytes", "unknown"),
        (49152, "bytes", "48 KiB"),
        (1000, "bytes", "1000 B"),
        (42331013120, "bytes", "39.42 GiB"),
        (40 * 2**30, "bytes", "40 GiB"),
        (2.039e12, "bytes/s", "2.039 TB/s"),
        (1.949184e13, "flop/s", "19.49 Tflop/s"),
        (1.41e9, "Hz", "1.41 GHz"),
        (8.155e-07, "s", "815.5 ns"),
        (5e-6, "s", "5 µs"),
        (1e-10, "s", "0.1 ns"),
        (108, "", "108"),
        ("16×16×32", "m×n×k", "16×16×32"),
    ],
)
def test_quantities_can_be_read(value: float | str | None, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


def test_list(cli: Run) -> None:
    done = cli("profiles", "list")
    assert done.returncode == 0, done.stderr
    for name in ("nvidia-a100-sxm-80gb", "huawei-ascend-910b2", "ascend-910b", "built in"):
        assert name in done.stdout


def test_list_as_json_tells_hidden_and_unusable_files(
    cli: Run, environment: dict[str, str], tmp_path: Path
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "bad.yaml").write_text("name: [")
    (own / "a100.yaml").write_text(A100.read_text())
    environment["PRUNE_ENGINE_PROFILE_PATH"] = str(own)
    rows = json.loads(cli("profiles", "list", "--json").stdout)
    same = [row for row in rows if row["name"] == "nvidia-a100-sxm-80gb"]
    assert [row["layer"] for row in same] == ["PRUNE_ENGINE_PROFILE_PATH", "built in"]
    assert same[0]["digest"] == same[1]["digest"] == load_profile(A100).digest()
    bad = next(row for row in rows if row["name"] == "bad")
    assert "bad.yaml:1: not YAML" in bad["error"]
    text = cli("profiles", "list").stdout
    assert "nvidia-a100-sxm-80gb (hidden)" in text
    assert "not usable: " in text


def install_plugin(environment: dict[str, str], tmp_path: Path, code: str) -> None:
    """Put an installed plugin `acme` on the path."""
    info = tmp_path / "site" / "acme-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[prune_engine.plugins]\nacme = acme_plugin\n")
    (tmp_path / "site" / "acme_plugin.py").write_text(code)
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path / "site"), environment.get("PYTHONPATH", "")])


def test_profiles_of_plugins_are_listed(cli: Run, environment: dict[str, str], tmp_path: Path) -> None:
    code = (
        "from prune_engine.hookspecs import hookimpl\n"
        "from prune_engine.testing import make_profile\n"
        "@hookimpl\n"
        "def register_hardware_profiles():\n"
        "    return [make_profile(name='acme-computed')]\n"
    )
    install_plugin(environment, tmp_path, code)
    rows = {row["name"]: row for row in json.loads(cli("profiles", "list", "--json").stdout)}
    assert (rows["acme-computed"]["layer"], rows["acme-computed"]["origin"]) == ("plugin", "acme")


def test_show(cli: Run) -> None:
    done = cli("profiles", "show", "a100")
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line}
    assert "2.039 TB/s" in rows["memory.dram.bandwidth_bytes_per_sec"]
    assert rows["memory.dram.bandwidth_bytes_per_sec"].endswith("[XLA]")
    assert "openxla/xla" in rows["[XLA]"]
    assert not [line for line in done.stdout.splitlines() if line.endswith(" ")]
    assert "unknown" in rows["memory.l2.bandwidth_bytes_per_sec"]
    assert "derived" in rows["memory.registers.capacity_bytes"]
    assert load_profile(A100).digest() in done.stdout


def test_show_as_json(cli: Run) -> None:
    record = json.loads(cli("profiles", "show", "t4", "--json").stdout)
    assert record["name"] == "nvidia-t4"
    assert record["limits"]["threads_per_core"] == {"value": 1024, "source": "CCCL", "origin": "declared"}


def test_show_auto_says_what_was_taken(cli: Run) -> None:
    done = cli("profiles", "show", "auto", "--threads", "1")
    assert re.search(r"^found: .+", done.stdout, re.MULTILINE), done.stdout


def test_unknown_name(cli: Run) -> None:
    done = cli("profiles", "show", "a1000")
    assert done.returncode == 2
    assert "unknown hardware profile" in done.stderr
    assert "Traceback" not in done.stderr


def test_plugin_that_fails_is_told_and_left_out(cli: Run, environment: dict[str, str], tmp_path: Path) -> None:
    install_plugin(environment, tmp_path, "raise RuntimeError('planted')")
    done = cli("profiles", "show", "a100")
    assert done.returncode == 0
    assert re.search("plugin acme is left out: .*planted", done.stderr)
    assert "planted" not in done.stdout


class TestCheck:
    def test_needs_no_plugin(self, cli: Run, environment: dict[str, str], tmp_path: Path) -> None:
        """`profiles` is a verb of ours: plugins are not loaded to see whether it is one of theirs."""
        install_plugin(environment, tmp_path, "import sys; print('imported', file=sys.stderr)")
        done = cli("profiles", "check", A100)
        assert (done.returncode, done.stderr) == (0, "")

    def test_good_files_and_folders(self, cli: Run) -> None:
        done = cli("profiles", "check", A100, FOLDER)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert len(lines) == 1 + len(list(FOLDER.glob("*.yaml")))
        assert re.search(r"ok, nvidia-a100-sxm-80gb: \d+ numbers, \d+ unknown$", lines[0])

    def test_levels_of_an_npu_that_no_rule_reads_are_noted(self, cli: Run) -> None:
        ascend, cambricon = FOLDER / "huawei-ascend-910b2.yaml", FOLDER / "cambricon-mlu370-x4.yaml"
        done = cli("profiles", "check", ascend, cambricon)
        assert done.returncode == 0
        (note,) = done.stderr.splitlines()
        assert re.search(r"note: .*ascend-910b2.yaml: no rule reads memory l1; rules read l0a, .*wram$", note)

    def test_all_mistakes_of_all_files_are_told(self, cli: Run, tmp_path: Path) -> None:
        text = A100.read_text()
        (tmp_path / "one.yaml").write_text(text.replace("2.039e+12", "2.039e12"))
        (tmp_path / "two.yaml").write_text(text.replace("launch_secs:", "launch:"))
        (tmp_path / "new.yaml").write_text(text.replace("schema_version: 1", "schema_version: 2"))
        (tmp_path / "binary.yaml").write_bytes(b"\x00\xff")
        (tmp_path / "empty.yaml").write_text("")
        names = ("one.yaml", "two.yaml", "new.yaml", "binary.yaml", "empty.yaml", "absent.yaml")
        done = cli("profiles", "check", *names, A100)
        assert done.returncode == 2
        assert "nvidia-a100-sxm-80gb.yaml: ok" in done.stdout
        errors = done.stderr.splitlines()
        assert len(errors) == len(names), done.stderr
        for name, line, problem in zip(
            names,
            errors,
            (
                r"one.yaml:36: memory.3.bandwidth_bytes_per_sec.value: '2.039e12' is text to YAML.*3.35e\+12",
                r"two.yaml:\d+: launch: unknown key, its unit is missing. Write launch_secs",
                r"new.yaml:2: schema_version: .*got 2; expected at most 1. Upgrade",
                r"binary.yaml:1: cannot be read",
                r"empty.yaml:1: .*the file is empty",
                r"absent.yaml: cannot be read: No such file",
            ),
            strict=True,
        ):
            assert re.search(problem, line), f"{name}: {line}"


class TestDiff:
    def test_fields_values_and_ratio(self, cli: Run) -> None:
        done = cli("profiles", "diff", "a100-40", "a100")
        rows = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line}
        assert rows["memory.dram.bandwidth_bytes_per_sec"][1:] == ["1.555", "TB/s", "2.039", "TB/s", "1.31"]
        assert "core_count" not in rows, "the same in both"

    def test_as_json(self, cli: Run) -> None:
        rows = {row["field"]: row for row in json.loads(cli("profiles", "diff", "h100", "h200", "--json").stdout)}
        assert rows["memory.dram.bandwidth_bytes_per_sec"]["ratio"] == pytest.approx(4.8 / 3.35232)
        assert rows["memory.dram.bandwidth_bytes_per_sec"]["unit"] == "bytes/s"

    def test_nothing_differs(self, cli: Run) -> None:
        assert "say the same" in cli("profiles", "diff", "a100", A100).stdout


class TestProbe:
    def test_measured_profile_is_what_auto_takes(self, cli: Run, environment: dict[str, str]) -> None:
        """The whole way, on one thread: measure, write, find again."""
        done = cli("profiles", "probe", "--threads", "1", "--json", timeout=150)
        assert done.returncode == 0, done.stderr
        record = json.loads(done.stdout)
        assert record["file"].startswith(environment["XDG_CONFIG_HOME"])
        peaks = next(unit for unit in record["compute"] if unit["name"] == "vector")["peak_flop_per_sec"]
        assert set(peaks) >= {"float32", "float64"}
        assert peaks["float32"]["origin"] == "measured"
        assert any(m["bandwidth_bytes_per_sec"] for m in record["memory"])
        assert "peak-float32: " in done.stderr
        assert record["probe"]["n_threads"] == 1
        again = cli("profiles", "show", "auto", "--threads", "1")
        # A profile made for this very processor model would go first; none that ships has one core.
        assert again.stdout.startswith(record["name"])
        assert "found: measured on this machine at 20" in again.stdout
        assert cli("profiles", "check", record["file"]).returncode == 0

    def test_file_that_cannot_be_written(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Told before a minute of measuring, not after it."""
        from prune_engine.errors import OutputError

        (tmp_path / "file").write_text("")
        monkeypatch.setattr("prune_engine.metaschedule.probe_kernels.ProbeKernels", _unwanted)
        with pytest.raises(OutputError, match="cannot be written"):
            profiles_module.probe(threads=1, out=tmp_path / "file" / "x.yaml")

    def test_more_threads_than_cores(self, cli: Run) -> None:
        done = cli("profiles", "probe", "--threads", "100000")
        assert done.returncode == 2
        assert "more threads than usable cores" in done.stderr


def _unwanted(*_: object, **__: object) -> None:
    raise AssertionError("measured although the result cannot be kept")


class TestPage:
    def test_lists_what_ships(self) -> None:
        section = PAGE.read_text(encoding="utf-8").partition("## Profiles that ship")[2]
        rows = dict(re.findall(r"^\| `([a-z0-9.-]+)` \| (.*) \|$", section, re.MULTILINE))
        profiles = [load_profile(path) for path in FOLDER.glob("*.yaml")]
        expected = {p.name: f"{p.description} | {', '.join(f'`{alias}`' for alias in p.aliases)}" for p in profiles}
        assert rows == expected

    def test_tells_all_verbs_and_options(self) -> None:
        text = PAGE.read_text(encoding="utf-8")
        group = typer.main.get_command(make_app()).commands["profiles"]  # type: ignore[attr-defined]
        for name, command in group.commands.items():
            assert f"profiles {name}" in text
            for parameter in command.params:
                for option in parameter.opts:
                    if option.startswith("--") and option != "--help":
                        assert option in text, f"profiles {name} {option}"

    def test_commands_parse(self) -> None:
        group = typer.main.get_command(make_app()).commands["profiles"]  # type: ignore[attr-defined]
        lines = re.findall(r"^prune-engine profiles (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
        assert len(lines) >= 5
        for line in lines:
            verb, *words = shlex.split(line, comments=True)
            group.commands[verb].make_context(verb, words)

    def test_tells_every_field_of_the_schema(self) -> None:
        from prune_engine.hardware import Calibration, ComputeUnit, HardwareProfile, Limits, MemoryLevel

        text = PAGE.read_text(encoding="utf-8")
        for model in (HardwareProfile, MemoryLevel, ComputeUnit, Limits, Calibration):
            for field in model.model_fields:
                assert f"`{field}`" in text, f"{model.__name__}.{field}"

    def test_example_is_a_profile(self) -> None:
        from prune_engine.hardware.loader import parse_profile

        examples = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        assert parse_profile(examples[0], "the page").name == "acme-1000"
