"""Standard streams as cron, daemons and full disks hand them over."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from prune_engine.display.streams import telling_warnings

COMMAND = f"{sys.executable} -m prune_engine.cli plugins --json"


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-c", line], cwd=folder, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_obstacle(tmp_path: Path, closed: str) -> None:
    done = shell(f"{COMMAND} {closed}", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_closed_stderr_does_not_become_a_file_of_ours(tmp_path: Path) -> None:
    """What is written to descriptor 2 must not end up in the next file that is opened."""
    (tmp_path / "plugin.py").write_text("import os\nf = open('mine', 'w')\nos.write(2, b'noise')\n")
    shell(f"{COMMAND} --plugin plugin.py 2>&-", tmp_path)
    assert (tmp_path / "mine").read_text() == ""


def test_reader_that_went_away(tmp_path: Path) -> None:
    assert "Traceback" not in shell(f"{COMMAND} | true", tmp_path).stderr


def test_full_disk_behind_stdout(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from prune_engine.display.streams import writing_to_stdout\n"
        "from prune_engine.errors import OutputError\n"
        "try:\n"
        "    with writing_to_stdout('Make room.'):\n"
        "        print('much')\n"
        "except OutputError as error:\n"
        "    print(error, file=sys.stderr)\n"
    )
    (tmp_path / "code.py").write_text(code)
    done = shell(f"{sys.executable} code.py > /dev/full", tmp_path)
    assert (done.returncode, done.stderr.strip()) == (
        0,
        "standard output: cannot be written; got No space left on device. Make room.",
    )


@pytest.mark.parametrize("verb", ["plugins", "profiles list", "profiles show t4", "profiles show t4 --json"])
def test_full_disk_behind_a_verb(verb: str, tmp_path: Path) -> None:
    done = shell(f"{sys.executable} -m prune_engine.cli {verb} > /dev/full", tmp_path)
    assert done.returncode == 5
    told = json.loads(done.stderr)["message"] if "--json" in verb else done.stderr.removeprefix("error: ")
    assert told.startswith("standard output: cannot be written")


def test_warnings_to_users_are_lines_and_those_to_developers_stay(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with telling_warnings(told.append), telling_warnings():
            warnings.warn("a broken profile", stacklevel=1)
            with telling_warnings(told.append):
                warnings.warn("another", stacklevel=1)
            warnings.warn("old", DeprecationWarning, stacklevel=1)
    assert told == ["warning: another"]
    assert capsys.readouterr().err.startswith("warning: a broken profile\n")
