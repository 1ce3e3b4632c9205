"""One seed covers every draw: where random numbers come from, and two replays that are the same byte for byte."""

from __future__ import annotations

import ast
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from kits.recordings import gemm_database

from prune_engine.decisions.files import decision_files, lines_of

ROOT = Path(__file__).parents[1]

#: Every place that makes a source of random numbers, and what it is seeded with. A constant is for draws that no
#: result depends on, or that must be equal in every run: hashes of rows, probes of a trace, samples that check a
#: reading. Everything else hangs on the seed of the options.
SOURCES = {
    ("plugins/prune_engine_explore/keys.py", "default_rng", "24301"),
    ("plugins/prune_engine_lightgbm/__init__.py", "ResidualVerifier", "config.seed"),
    ("plugins/prune_engine_lightgbm/__init__.py", "DecisionVerifier", "config.seed"),
    ("prune_engine/api/studies.py", "default_rng", "seed"),
    ("prune_engine/cli/candidates.py", "default_rng", "seed"),
    ("prune_engine/cli/explain_why_not.py", "default_rng", "asked['seed']"),
    ("prune_engine/cli/prune.py", "default_rng", "seed"),
    ("prune_engine/engine.py", "default_rng", "config.seed"),
    ("prune_engine/ffi/sessions.py", "default_rng", "seed"),
    ("prune_engine/metaschedule/embedded_search.py", "default_rng", "self._config.seed"),
    ("prune_engine/metaschedule/embedding.py", "Schedule", "1"),
    ("prune_engine/metaschedule/interpreter/reader.py", "default_rng", "0"),
    ("prune_engine/metaschedule/materialise.py", "Schedule", "1"),
    ("prune_engine/metaschedule/materialise.py", "TuneContext", "seed + 1"),
    ("prune_engine/metaschedule/materialise.py", "default_rng", "0"),
    ("prune_engine/metaschedule/measure/arguments.py", "default_rng", "[seed, position]"),
    ("prune_engine/metaschedule/measure/stress.py", "default_rng", "[seed, 1]"),
    ("prune_engine/metaschedule/measure/stress_inputs.py", "default_rng", "[seed, position]"),
    ("prune_engine/metaschedule/model_inputs.py", "default_rng", "seed"),
    # The seed of the context in which a caller of MetaSchedule puts the strategy.
    ("prune_engine/metaschedule/search.py", "Setting", "int(context.rand_state)"),
    ("prune_engine/metaschedule/traces.py", "Schedule", "1"),
    ("prune_engine/metaschedule/traces.py", "default_rng", "0"),
    ("prune_engine/metaschedule/tune.py", "MeasureSettings", "request.config.seed"),
    ("prune_engine/own_kernels/pruner.py", "default_rng", "self._config.seed"),
    ("prune_engine/recorded/ranking.py", "default_rng", "config.seed"),
    ("prune_engine/recorded/ranking.py", "default_rng", "seed"),
    ("prune_engine/row_memory.py", "default_rng", "24301"),
}
#: Calls that hand a seed on: what they are given is told here only where it is made.
PASSED_ON = {"seed", "request.config.seed", "config.seed", "self._config.seed", "self._seed"}
MAKERS = {"default_rng", "RandomState", "Random", "SeedSequence", "PCG64", "Generator"}
#: Modules whose state is global: nobody may draw from them.
GLOBAL = {"random"}
#: Functions of numpy.random that draw from its global state.
ALLOWED_OF_NUMPY = {"default_rng", "Generator", "SeedSequence"}


def calls() -> list[tuple[str, ast.Call, str]]:
    found = []
    for folder in ("prune_engine", "plugins"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "testing" in path.relative_to(ROOT).parts:
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call):
                    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                    found.append((path.relative_to(ROOT).as_posix(), node, name))
    return found


def seed_of(call: ast.Call, name: str) -> str | None:
    """What a call is seeded with, as text; None for one that takes no seed."""
    named = [keyword.value for keyword in call.keywords if keyword.arg in ("seed", "rand_state", "random_state")]
    if name in MAKERS:
        return ast.unparse(call.args[0]) if call.args else "nothing"
    return ast.unparse(named[0]) if named else None


def test_every_source_of_random_numbers_is_known() -> None:
    found = {(file, name, seed) for file, call, name in calls() if (seed := seed_of(call, name)) is not None}
    unknown = {one for one in found - SOURCES if one[1] in MAKERS or one[2] not in PASSED_ON}
    assert not unknown, "seed these from the options' seed, and list them"
    assert found >= SOURCES, "these are gone"


def test_nobody_draws_from_a_global_source() -> None:
    for folder in ("prune_engine", "plugins"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
                if isinstance(node, ast.Import):
                    assert not {alias.name.partition(".")[0] for alias in node.names} & GLOBAL, place
                elif isinstance(node, ast.ImportFrom):
                    assert (node.module or "").partition(".")[0] not in GLOBAL, place
                elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("np.random", "numpy.random"):
                    assert node.attr in ALLOWED_OF_NUMPY, place


def replayed(database: Path, folder: Path, hash_seed: str) -> tuple[bytes, list[tuple[str, ...]], list[bytes]]:
    """Stdout of a replay in a process of its own, what it measured, in order, and its decisions but for the run."""
    folder.mkdir()
    command = [sys.executable, "-m", "prune_engine.cli", "tune", "--replay", str(database), "--json", "--quiet"]
    command += ["--profile", "amd-epyc-9654", "--block", "rules", "--trials", "12", "--batch", "4"]
    done = subprocess.run(
        [*command, "--seed", "5", "--store", "store.sqlite3", "--out", "."],
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "XDG_DATA_HOME": str(folder)},
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    with sqlite3.connect(folder / "store.sqlite3") as connection:
        rows = list(connection.execute("SELECT candidate_id, decisions, run_secs FROM measurements ORDER BY seq"))
    decisions = [line for file in decision_files(folder / "decisions") for line in lines_of(file)]
    return done.stdout, rows, [re.sub(rb'"run":"[0-9a-f]+"', b"", line) for line in decisions]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gemm_database(tmp_path_factory.mktemp("seeds") / "gemm")


def test_a_seed_gives_one_sequence_of_trials_whatever_the_process(database: Path, tmp_path: Path) -> None:
    """Byte for byte, though the two processes order their sets and dictionaries of strings differently."""
    one = replayed(database, tmp_path / "one", "1")
    two = replayed(database, tmp_path / "two", "4242")
    assert one == two
    assert len(one[1]) == 13  # the default, and twelve trials
    assert sum(b'"measured":null' not in line for line in one[2]) == 12
