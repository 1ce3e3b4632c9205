"""`prune-engine verify` and `prune-engine policy` on artefacts that the tests put together."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kits.recordings import RECORDS_FILE, TARGET, gemm_database, lines, schedules

from prune_engine.artifact_files import file_digest
from prune_engine.config import EngineConfig
from prune_engine.hardware.host import cpu_model
from prune_engine.hardware.registry import ProfileRegistry
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.metaschedule.artifact_metadata import ArtifactMetadata, read_metadata
from prune_engine.plugins import PluginHost
from prune_engine.provenance.policy import Policy, policy_of
from prune_engine.strategy_set import load_strategies

Inside = Callable[..., "tuple[int, str, str]"]

#: A rule that drops everything it is asked about; the options name its kind and the field that makes it do so.
RULE = """
import numpy as np
from prune_engine.hookspecs import hookimpl
from prune_engine.strategies import Rule
from prune_engine.verdicts import RuleKind

class Grumpy(Rule):
    name, kind = "grumpy.rule", RuleKind.{kind}
    def mask(self, batch, profile):
        return np.full(len(batch), {keeps})
    def reason(self, symbols, profile):
        return "does not like it"

@hookimpl
def register_rules():
    return [Grumpy()]
"""


def policy(profile: HardwareProfile, **options: Any) -> Policy:
    config = EngineConfig.of(**options)
    host = PluginHost(config)
    host.load()
    return policy_of(host, load_strategies(host, config), config, profile)


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    return make_artifact(tmp_path / "out")


def make_artifact(folder: Path, *, plugin: Path | None = None, **changes: Any) -> Path:
    """What `tune` leaves, with one of the kit's schedules as the only winner, but no real library."""
    gemm_database(folder / "database")
    one = schedules()
    profile = ProfileRegistry().resolve("auto", n_threads=1)
    (folder / "model.so").write_bytes(b"library")
    kernel = {
        "task_id": one.task.task_id,
        "name": "gemm",
        "weight": 2,
        "candidate_id": one.candidate_ids[0],
        "trace_json": one.traces[0],
        "default_secs": 100.0,
        "best_secs": 10.0,
    }
    manifest = {
        "device": cpu_model(),
        "policy": policy(profile, plugin_files=(plugin,) if plugin else ()).as_json(),
        "profile": profile.name,
        "profile_content": profile.model_dump(mode="json", exclude_unset=True),
        "kernels": [{**kernel, **changes}],
    }
    metadata = ArtifactMetadata(
        schema_version=1,
        model_name="gemm",
        model_digest="",
        library="model.so",
        library_digest=file_digest(folder / "model.so"),
        target=one.task.target,
        n_threads=1,
        inputs=(),
        outputs=(),
        versions={"numpy": "0.1"},
        created_at=0.0,
        manifest=manifest,
    )
    (folder / "metadata.json").write_text(metadata.model_dump_json())
    return folder


def change(folder: Path, **manifest: Any) -> None:
    metadata = read_metadata(folder)
    changed = {name: value for name, value in {**metadata.manifest, **manifest}.items() if value is not None}
    (folder / "metadata.json").write_text(metadata.model_copy(update={"manifest": changed}).model_dump_json())


def verified(inside: Inside, *arguments: object, code: int = 0) -> dict[str, Any]:
    got, out, err = inside("verify", *arguments, "--json", "-q")
    assert got == code, out + err
    record: dict[str, Any] = json.loads(out)
    assert record["is_regression"] == bool(code)
    return record


def checks(record: dict[str, Any]) -> dict[str, tuple[str, str]]:
    (kernel,) = record["kernels"]
    return {check["name"]: (check["status"], check["message"]) for check in kernel["checks"]}


def test_the_target_is_the_recordings(artifact: Path) -> None:
    assert json.loads(read_metadata(artifact).target)["num-cores"] == json.loads(TARGET)["num-cores"]


class TestWithoutMeasuring:
    def test_a_winner_that_still_holds(self, inside: Inside, artifact: Path) -> None:
        record = verified(inside, artifact, "--no-measure", "--block", "transfer", "--plugin", self.blank(artifact))
        found = checks(record)
        assert {name: status for name, (status, _) in found.items()} == {
            **{"legal": "passed", "rules": "passed", "correct": "skipped", "time": "skipped"}
        }
        fields = {change["field"] for change in record["policy"]["changes"]}
        assert "plugins/transfer/version" in fields
        assert record["versions"]["numpy"]["old"] == "0.1"
        assert record["kernels"][0]["old"] == {"best_secs": 10.0, "default_secs": 100.0, "speedup": 10.0}
        assert record["kernels"][0]["new"] is None

    @staticmethod
    def blank(folder: Path) -> Path:
        (folder / "blank.py").write_text("")
        return folder / "blank.py"

    def test_people_are_told_the_same(self, inside: Inside, artifact: Path) -> None:
        code, out, err = inside("verify", artifact, "--no-measure")
        assert code == 0, err
        assert "policy: " in out
        assert "version of numpy: 0.1 -> " in out
        assert out.splitlines()[-1] == "1 kernel: 1 skipped; no regression"
        assert "kernel 1 of 1: gemm" in err

    @pytest.mark.parametrize(
        ("kind", "options", "code", "check", "status"),
        [
            ("HEURISTIC", (), 0, "rules", "warning"),
            ("HEURISTIC", ("--strict",), 1, "rules", "warning"),
            ("LEGALITY", (), 1, "legal", "failed"),
        ],
    )
    def test_a_new_rule_that_drops_a_winner(
        self, inside: Inside, artifact: Path, kind: str, options: tuple[str], code: int, check: str, status: str
    ) -> None:
        (artifact / "grumpy.py").write_text(RULE.format(kind=kind, keeps=False))
        record = verified(inside, artifact, "--no-measure", "--plugin", artifact / "grumpy.py", *options, code=code)
        assert checks(record)[check][0] == status
        assert "grumpy.rule" in checks(record)[check][1]
        assert "does not like it" in checks(record)[check][1]
        assert "rules/grumpy.rule/kind" in {change["field"] for change in record["policy"]["changes"]}

    def test_a_guess_that_always_dropped_the_winner_is_no_news(self, inside: Inside, tmp_path: Path) -> None:
        """It was found by an audit, say: nothing changed."""
        plugin = tmp_path / "grumpy.py"
        plugin.write_text(RULE.format(kind="HEURISTIC", keeps=False))
        folder = make_artifact(tmp_path / "out", plugin=plugin)
        record = verified(inside, folder, "--no-measure", "--strict", "--plugin", plugin)
        status, message = checks(record)["rules"]
        assert status == "passed"
        assert "no new objection; " in message
        assert "grumpy.rule would drop it, as before" in message
        assert not record["policy"]["changes"]

    def test_a_profile_that_makes_a_rule_drop_it_is_news(self, inside: Inside, tmp_path: Path) -> None:
        plugin = tmp_path / "grumpy.py"
        plugin.write_text(RULE.format(kind="HEURISTIC", keeps='profile.name == "host"'))
        folder = make_artifact(tmp_path / "out", plugin=plugin)
        options = ("--no-measure", "--plugin", plugin, "--profile", "intel-xeon-8480plus")
        record = verified(inside, folder, *options)
        assert checks(record)["rules"][0] == "warning"
        assert record["profile"] == {"old": "host", "new": "intel-xeon-8480plus"}
        assert "profile/digest" in {change["field"] for change in record["policy"]["changes"]}

    def test_a_plugin_that_fails_is_told_of(self, inside: Inside, artifact: Path) -> None:
        (artifact / "broken.py").write_text("1 / 0")
        record = verified(inside, artifact, "--no-measure", "--plugin", artifact / "broken.py")
        assert "plugin broken failed: " in record["remarks"][0]

    def test_a_schedule_that_the_compiler_refuses(self, inside: Inside, tmp_path: Path) -> None:
        folder = make_artifact(tmp_path / "out", trace_json=schedules("softmax:8x16", 3).traces[0])
        record = verified(inside, folder, "--no-measure", code=1)
        assert list(checks(record)) == ["legal"]
        assert "the compiler does not take the schedule any more" in checks(record)["legal"][1]

    def test_a_library_that_was_changed(self, inside: Inside, artifact: Path) -> None:
        (artifact / "model.so").write_bytes(b"another")
        record = verified(inside, artifact, "--no-measure", code=1)
        assert record["checks"][0]["status"] == "failed"
        (artifact / "model.so").unlink()
        verified(inside, artifact, "--no-measure", code=1)

    def test_a_kernel_without_its_module(self, inside: Inside, tmp_path: Path) -> None:
        folder = make_artifact(tmp_path / "out", task_id="0" * 24)
        record = verified(inside, folder, "--no-measure")
        assert record["kernels"][0]["status"] == "warning"

    def test_an_artefact_that_names_no_winners(self, inside: Inside, artifact: Path) -> None:
        """As of an earlier version: the best record of the database stands for them."""
        change(artifact, kernels=None, policy=None, profile_content=None)
        record = verified(inside, artifact, "--no-measure")
        assert record["kernels"][0]["old"]["best_secs"] == min(schedules().secs)
        assert record["policy"]["old"] is None
        assert "does not name its winners" in record["remarks"][0]

    def test_an_untuned_artefact(self, inside: Inside, artifact: Path) -> None:
        change(artifact, kernels=[])
        (artifact / "database" / RECORDS_FILE).unlink()
        assert verified(inside, artifact, "--no-measure")["kernels"] == []

    @pytest.mark.parametrize(
        ("manifest", "code", "says"),
        [
            ({"kernels": [{"name": 1}]}, 6, "the kernels in the metadata are damaged"),
            ({"kernels": "all"}, 6, "the kernels in the metadata are damaged"),
            ({"policy": {"content": {}}}, 2, "is no policy"),
        ],
    )
    def test_metadata_that_are_damaged(
        self, inside: Inside, artifact: Path, manifest: dict[str, Any], code: int, says: str
    ) -> None:
        change(artifact, **manifest)
        got, out, err = inside("verify", artifact, "--no-measure", "-q")
        assert (got, out) == (code, "")
        assert says in err

    def test_usage(self, inside: Inside, artifact: Path, tmp_path: Path) -> None:
        assert inside("verify", artifact, "--profile", "no-such")[0] == 2
        assert inside("verify", artifact, "--max-slowdown", "0.5")[0] == 2
        assert inside("verify", tmp_path / "missing")[0] == 6

    def test_more_threads_than_here(self, inside: Inside, artifact: Path) -> None:
        metadata = read_metadata(artifact).model_copy(update={"n_threads": 4096})
        (artifact / "metadata.json").write_text(metadata.model_dump_json())
        code, _, err = inside("verify", artifact)
        assert code == 2
        assert "--no-measure" in err
        verified(inside, artifact, "--no-measure")


class TestMeasuring:
    def test_a_winner_is_built_run_and_timed(self, inside: Inside, artifact: Path) -> None:
        """Recorded as taking 10 s: whatever it takes now is no slower."""
        record = verified(inside, artifact)
        (kernel,) = record["kernels"]
        found = checks(record)
        assert found["correct"][0] == "passed", found
        assert kernel["new"]["best_secs"] > 0
        assert kernel["new"]["default_secs"] > 0
        assert kernel["slowdown"] < 1

    def test_a_winner_that_got_slower_by_time_and_gain(self, inside: Inside, tmp_path: Path) -> None:
        folder = make_artifact(tmp_path / "out", best_secs=1e-12, default_secs=1.0)
        record = verified(inside, folder, code=1)
        assert checks(record)["correct"][0] == "passed"
        assert checks(record)["time"][0] == "failed"


class TestPolicy:
    def test_show_diff_and_pin(self, inside: Inside, artifact: Path, tmp_path: Path) -> None:
        code, out, err = inside("policy", "show", "--json", "--threads", 1)
        assert code == 0, err
        shown = json.loads(out)
        assert shown == read_metadata(artifact).manifest["policy"]
        code, out, _ = inside("policy", "show", artifact)
        assert code == 0
        assert shown["hash"] in out
        assert "rules.refused: legality, of plugin rules" in out

        lock = tmp_path / "policy.lock"
        code, out, _ = inside("policy", "pin", lock, "--threads", 1, "--disable-rule", "rules.l1-residency")
        assert code == 0
        assert str(lock) in out
        code, out, _ = inside("policy", "diff", artifact, lock)
        assert out.splitlines()[2:] == ["rules/rules.l1-residency/is_enabled: true -> false"]
        code, out, _ = inside("policy", "diff", lock, "current", "--threads", 1, "--json")
        changes = json.loads(out)["changes"]
        assert changes == [{"field": "rules/rules.l1-residency/is_enabled", "old": False, "new": True}]
        assert inside("policy", "diff", lock, lock)[1].endswith("no difference\n")

    def test_a_run_of_a_store(self, inside: Inside, tmp_path: Path) -> None:
        from prune_engine.store.sql import SqlStore

        store = SqlStore(f"sqlite:///{tmp_path / 's.sqlite3'}")
        made = policy(ProfileRegistry().resolve("auto", n_threads=1))
        run_id, without = store.start_run({"policy": made.as_json()}), store.start_run({})
        store.close()
        code, out, err = inside("policy", "show", run_id[:10], "--store", tmp_path / "s.sqlite3", "--json")
        assert code == 0, err
        assert json.loads(out)["hash"] == made.hash
        for source, says in ((without, "no policy was recorded"), ("zzz", "no policy of this name")):
            code, _, err = inside("policy", "show", source, "--store", tmp_path / "s.sqlite3")
            assert code == 2
            assert says in err
        assert inside("policy", "show", "zzz")[0] == 2

    def test_tune_by_another_policy_than_the_pinned_one(self, inside: Inside, tmp_path: Path) -> None:
        lock = tmp_path / "policy.lock"
        inside("policy", "pin", lock, "--threads", 1, "--batch", 7)
        arguments = ("tune", "gemm:8x8x8", "--threads", 1, "--trials", 0, "-q", "--no-builtin-library")
        code, out, err = inside(*arguments, "--policy", lock)
        assert (code, out) == (2, "")
        assert "thresholds/batch_size: 7 -> 16" in err
        assert not (tmp_path / "tuned" / "gemm_8x8x8" / "metadata.json").exists()


def test_records_are_those_of_the_kit(artifact: Path) -> None:
    assert len(lines(artifact / "database")) == len(schedules().secs)


def test_a_database_without_modules_verifies_nothing(inside: Inside, artifact: Path) -> None:
    """It was cut off: that must not pass as what an update of the compiler's hashes is warned of."""
    (artifact / "database" / "database_workload.json").write_text("")
    code, out, err = inside("verify", artifact, "--no-measure")
    assert (code, out) == (6, "")
    assert "holds no module" in err
