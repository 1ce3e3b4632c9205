"""Recordings as a prior: what is taught, what is left out and why, and what becomes of the file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kits.recordings import fake_recording

from prune_engine.candidates import CandidateBatch
from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError, OutputError, PluginContractError
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.recorded.priors import MIN_RAN, LearntPrior, check_prior_place, learn_prior
from prune_engine.recorded.spaces import RecordedSpace
from prune_engine.testing import make_space, make_task

PLUGIN = '''
import json
import numpy as np
from pathlib import Path
from prune_engine.errors import ConfigError
from prune_engine.hookspecs import hookimpl
from prune_engine.strategies import Verifier
from prune_engine.verdicts import VerifyScores


class Memory(Verifier):
    """Writes down what it was taught; refuses to start from less than 20 rows."""

    name = "memory.verifier"
    takes_prior = True

    def __init__(self, prior):
        self.rows, self.prior = [], prior

    def score(self, batch, context):
        if self.prior not in ("none", "builtin"):
            self.load(Path(self.prior))
            if len(self.rows) < 20:
                raise ConfigError("teaches nothing", who=self.prior, got="too few", expected="20 rows")
        return VerifyScores(np.ones(len(batch)), np.zeros(len(batch)), "0", is_trained=False)

    def update(self, batch, measurements, context):
        where = batch.space.task.name, batch.sketch.index
        self.rows += [[*where, m.latency_secs, m.is_censored] for m in measurements]

    def save(self, path):
        path.write_text(json.dumps(self.rows))

    def load(self, path):
        self.rows = json.loads(path.read_text())


class Forgetful(Memory):
    name = "forgetful.verifier"

    def save(self, path):
        path.write_text("[")
        raise RuntimeError("forgot")


class Starter(Memory):
    name = "starter.verifier"
    takes_prior = False


@hookimpl
def register_verifiers(config):
    return [Memory(config.prior), Forgetful(config.prior), Starter(config.prior)]
'''


@pytest.fixture
def config(tmp_path: Path) -> EngineConfig:
    (tmp_path / "memory.py").write_text(PLUGIN)
    return EngineConfig.of(plugin_files=(tmp_path / "memory.py",), draft_scorer=None, verifier="memory.verifier")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "prior"


def readable(name: str, n: int = 40, *, shape: tuple[int, int, int] = (32, 32, 32)) -> RecordedSpace:
    """A recording of whose two sketches the first can be read."""
    task = make_task(name, shape=shape)
    space = make_space(task, symbols={"threads_per_block": [32.0, 64.0]})
    space = replace(space, sketches=(space.sketches[0], replace(space.sketches[1], nests=None)))
    batches = []
    for sketch in space.sketches:
        tables = [np.arange(n, dtype=np.int32) // (i + 1) % len(v.rows) for i, v in enumerate(sketch.variables)]
        batches.append(CandidateBatch(space, sketch, np.unique(np.stack(tables, axis=1), axis=0)))
    secs = tuple(np.linspace(1e-3, 2e-3, len(batch)) for batch in batches)
    return RecordedSpace(name, task, space, tuple(batches), secs)


def learn(
    spaces: Sequence[RecordedSpace], config: EngineConfig, profile: HardwareProfile, file: Path, **options: int
) -> tuple[LearntPrior, list[tuple[str, int, float | None, bool]]]:
    found = learn_prior(spaces, config, profile, file, **options)
    return found, [tuple(row) for row in json.loads(file.read_text())]


def test_every_recording_is_taught(config: EngineConfig, profile: HardwareProfile, file: Path) -> None:
    spaces = [fake_recording(30, name="one", failed=(1, 2)), fake_recording(20, name="two")]
    found, rows = learn(spaces, config, profile, file)
    assert [kernel.n_rows for kernel in found.kernels] == [60, 40]
    assert (found.verifier, found.n_rows, len(found.learnt)) == ("memory.verifier", 100, 2)
    assert found.kernels[0].n_failed == sum(secs is None for name, _, secs, _ in rows if name == "one") == 2
    assert sorted(name for name, *_ in rows) == ["one"] * 60 + ["two"] * 40


def test_as_many_as_asked_for_are_drawn(config: EngineConfig, profile: HardwareProfile, file: Path) -> None:
    spaces = [fake_recording(30, name="one"), fake_recording(9, name="two")]
    found, rows = learn(spaces, config, profile, file, n_rows=25)
    assert [kernel.n_rows for kernel in found.kernels] == [25, 18]
    assert learn(spaces, config, profile, file, n_rows=25)[1] == rows
    assert learn(spaces, config.model_copy(update={"seed": 1}), profile, file, n_rows=25)[1] != rows


def test_what_was_stopped_early_is_told_as_such(config: EngineConfig, profile: HardwareProfile, file: Path) -> None:
    recorded = fake_recording(20)
    marks = tuple(secs > np.median(secs) for secs in recorded.run_secs)
    _, rows = learn([replace(recorded, is_censored=marks)], config, profile, file)
    told = {(sketch, secs) for _, sketch, secs, is_censored in rows if is_censored}
    assert told == {
        (number, one)
        for number, (secs, mark) in enumerate(zip(recorded.run_secs, marks, strict=True))
        for one in secs[mark].tolist()
    }
    assert told


def test_why_kernels_are_left_out(config: EngineConfig, profile: HardwareProfile, file: Path) -> None:
    good, dead, few = fake_recording(20), fake_recording(8, name="dead"), fake_recording(5, name="few")
    for secs in dead.run_secs:
        secs[:] = np.nan
    found, rows = learn([dead, good, few, good], config, profile, file)
    assert [kernel.left_out for kernel in found.kernels] == [
        "no candidate of it ran",
        None,
        f"only 10 of 10 candidates ran, and it takes {MIN_RAN}",
        "all of it was recorded in an earlier source, too",
    ]
    assert len(rows) == found.n_rows == 40


def test_what_an_earlier_source_lacks_is_learnt(config: EngineConfig, profile: HardwareProfile, file: Path) -> None:
    whole = fake_recording(40)
    part = whole.only([np.arange(len(batch)) < 20 for batch in whole.batches])
    found, rows = learn([part, whole], config, profile, file)
    assert [kernel.n_rows for kernel in found.kernels] == [40, 40]
    assert len({(sketch, secs) for _, sketch, secs, _ in rows}) == len(
        {(number, one) for number, secs in enumerate(whole.run_secs) for one in secs.tolist()}
    )


def test_beside_what_can_be_read_decisions_alone_are_left_out(
    config: EngineConfig, profile: HardwareProfile, file: Path
) -> None:
    spaces = [fake_recording(20, name="opaque"), readable("half")]
    found, rows = learn(spaces, config, profile, file)
    assert found.kernels[0].left_out == (
        "no sketch of it that ran can be read, and its decisions tell nothing of other kernels"
    )
    assert {(name, sketch) for name, sketch, *_ in rows} == {("half", 0)}
    few = readable("few").only([np.arange(len(batch)) < 5 for batch in readable("few").batches])
    found, rows = learn([spaces[0], few], config, profile, file)
    assert {name for name, *_ in rows} == {"opaque"}, "too few can be read to count"


@pytest.mark.parametrize(
    ("verifier", "says"),
    [
        (None, "there is no verifier that could know another device"),
        ("starter.verifier", "verifier starter.verifier: starts from no file"),
        ("no.such", "no such strategy"),
    ],
)
def test_verifiers_without_a_file(
    config: EngineConfig, profile: HardwareProfile, file: Path, verifier: str | None, says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        learn_prior([fake_recording()], config.model_copy(update={"verifier": verifier}), profile, file)
    assert not list(file.parent.iterdir())


def test_nothing_to_learn_from(config: EngineConfig, profile: HardwareProfile, file: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to learn a prior from; got few: only 10 of 10"):
        learn_prior([fake_recording(5, name="few")], config, profile, file)
    with pytest.raises(ConfigError, match="got none that can be read"):
        learn_prior([], config, profile, file)
    assert not list(file.parent.iterdir())


def test_a_prior_that_the_verifier_refuses_is_not_written(
    config: EngineConfig, profile: HardwareProfile, file: Path
) -> None:
    file.write_text("[]")
    with pytest.raises(ConfigError, match="no prior, so it was not written; got too few; expected 20 rows"):
        learn_prior([fake_recording(9)], config, profile, file)
    assert file.read_text() == "[]"
    assert list(file.parent.iterdir()) == [file]


def test_a_verifier_that_cannot_write_leaves_nothing(
    config: EngineConfig, profile: HardwareProfile, file: Path
) -> None:
    file.write_text("[]")
    with pytest.raises(PluginContractError, match=r"forgetful\.verifier: raised an exception; got RuntimeError"):
        learn_prior([fake_recording()], config.model_copy(update={"verifier": "forgetful.verifier"}), profile, file)
    assert file.read_text() == "[]"
    assert list(file.parent.iterdir()) == [file]


def test_only_priors_are_replaced(config: EngineConfig, profile: HardwareProfile, file: Path) -> None:
    learn(spaces := [fake_recording()], config, profile, file)
    learn(spaces, config, profile, file)
    for content in (b"\x08\x01onnx", b"SQLite format 3\0"):
        file.write_bytes(content)
        with pytest.raises(OutputError, match="holds something else, which is not overwritten"):
            learn_prior(spaces, config, profile, file)
        assert file.read_bytes() == content
    with pytest.raises(OutputError, match="it is a folder"):
        check_prior_place(file.parent, config)
    with pytest.raises(OutputError, match="is no file"):
        check_prior_place(Path("/dev/null"), config)
