"""Files and lists of Kernel Tuner's results: their units, what failed, and what is no such file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prune_engine_kernel_tuner import read_results

from prune_engine.errors import ConfigError

kernel_tuner = pytest.importorskip("kernel_tuner", reason="the optional extra kernel-tuner")


def test_units_of_t4_files_count(tmp_path: Path) -> None:
    def line(unit: str, value: float) -> dict[str, Any]:
        measured = [{"name": "time", "value": value, "unit": unit}]
        return {"configuration": {"a": unit}, "times": {}, "invalidity": "correct", "measurements": measured}

    units = {
        "ms": 1.0,
        "s": 1e-3,
        "us": 1e3,
        "ns": 1e6,
        "": 1.0,
        "nanoseconds": 1e6,
        "Second": 1e-3,
        "\u00b5s": 1e3,
    }
    failed = {**line("ms", 1.0), "invalidity": "compile"}
    path = tmp_path / "t4.json"
    path.write_text(json.dumps({"results": [*(line(u, v) for u, v in units.items()), failed]}))
    found = read_results(path).run_secs
    assert np.allclose(found[:-1], 1e-3)
    assert np.isnan(found[-1])


@pytest.mark.parametrize("metadata", [{"timeunit": "seconds"}, [1], None])
def test_the_unit_of_a_whole_t4_file_counts(metadata: Any, tmp_path: Path) -> None:
    line = {"configuration": {"a": 1}, "measurements": [{"name": "time", "value": 1.0}]}
    (tmp_path / "t4.json").write_text(json.dumps({"metadata": metadata, "results": [line]}))
    expected = 1.0 if isinstance(metadata, dict) else 1e-3
    assert read_results(tmp_path / "t4.json").run_secs.tolist() == [expected]


def test_what_failed_has_failed_by_any_objective() -> None:
    lines = [{"a": 1, "time": "RuntimeFailedConfig", "energy": 3.0}, {"a": 2, "time": 1.0, "energy": 3.0}]
    found = read_results([*lines, {"a": 3, "__error__": "x", "energy": 3.0}], objective="energy").run_secs
    assert np.isnan(found).tolist() == [True, False, True]


BAD_FILES = {
    "missing": (None, "cannot be read; got No such file"),
    "no json": ("{nothing", "is no file of Kernel Tuner's results; got .*Error"),
    "a number": ("5", "is no file of Kernel Tuner's results; got int"),
    "another file": ('{"name": 1}', "is no file of Kernel Tuner's results; got an object with name"),
    "no configuration": ('{"results": [{"times": {}}]}', ".*a result without a configuration"),
    "nothing ran": ('{"cache": {"1": {"a": 1, "time": "InvalidConfig"}}}', "holds no configuration that ran"),
    "another objective": ('{"cache": {"1": {"a": 1, "energy": 3.0}}}', ".*without a number for 'time'"),
    "no time": (
        '{"results": [{"configuration": {}, "measurements": [{"name": "time", "value": 1, "unit": "min"}]}]}',
        "a time in a unit that is not known; got 'min'",
    ),
    "too large a number": ('[{"a": 1, "time": 1' + "0" * 400 + "}]", "holds no configuration that ran"),
    "endless": ('[{"a": 1, "time": 1e999}]', "holds no configuration that ran"),
    "nested": ("[" * 100_000, "is no file of Kernel Tuner's results|cannot be read"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_told(case: str, tmp_path: Path) -> None:
    text, message = BAD_FILES[case]
    path = tmp_path / "results.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=rf"results\.json: ({message})"):
        read_results(path)
