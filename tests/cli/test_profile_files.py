"""`prune-engine profiles new` and `profiles check`, of files, packs, wheels and names."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from prune_engine.hardware import load_profile
from prune_engine.hardware.pack_project import pack_project

Inside = Callable[..., "tuple[int, str, str]"]
ACME = Path(__file__).parents[1] / "third_party" / "acme-npu-pack"
NPU1 = (ACME / "src" / "acme_npu_pack" / "acme-npu1.yaml").read_text(encoding="utf-8")
BROKEN = NPU1.replace("core_count: {value: 4", "core_count: {value: 4.5").replace("launch_secs:", "launch:")


class TestNew:
    @pytest.mark.parametrize("kind", ["cpu", "gpu", "npu"])
    def test_file_that_loads(self, inside: Inside, tmp_path: Path, kind: str) -> None:
        code, out, _ = inside("profiles", "new", "acme/x1", "--kind", kind)
        assert (code, out.splitlines()[0]) == (0, "written: acme-x1.yaml")
        profile = load_profile(tmp_path / "acme-x1.yaml")
        assert (profile.name, profile.kind.value, profile.core_count) == ("acme-x1", kind, None)

    def test_pack_is_that_of_the_third_party(self, inside: Inside, tmp_path: Path) -> None:
        code, out, _ = inside("profiles", "new", "acme/npu1", "--kind", "npu", "--pack", "acme-npu-pack", "--json")
        assert code == 0
        written = json.loads(out)["files"]
        assert "acme-npu-pack/src/acme_npu_pack/acme-npu1.yaml" in written
        for file in written:
            if not file.endswith(".yaml"):
                other = ACME / Path(file).relative_to("acme-npu-pack")
                assert (tmp_path / file).read_text() == other.read_text(), f"write {other} anew"

    def test_like_another_in_a_folder(self, inside: Inside, tmp_path: Path) -> None:
        code, out, _ = inside("profiles", "new", "acme/g1", "--like", "nvidia/a100", "--folder", "new/folder")
        assert (code, out.splitlines()[0]) == (0, "written: new/folder/acme-g1.yaml")
        code, out, err = inside("profiles", "check", "new/folder", "--json")
        (row,) = json.loads(out)["profiles"]
        assert (code, row["name"], err) == (2, "acme-g1", "")
        assert {it["problem"].partition(":")[2] for it in row["mistakes"]} == {" no source is given"}
        assert "value: 1.41e+9" in (tmp_path / "new" / "folder" / "acme-g1.yaml").read_text()

    def test_name_that_hides_another_is_told(self, inside: Inside) -> None:
        _, _, err = inside("profiles", "new", "nvidia/a100", "--like", "a100")
        assert "note: nvidia-a100 is a profile already (built in)" in err

    def test_nothing_is_overwritten(self, inside: Inside, tmp_path: Path) -> None:
        (tmp_path / "acme-x1.yaml").write_text("mine")
        code, _, err = inside("profiles", "new", "acme/x1", "--kind", "cpu")
        assert (code, (tmp_path / "acme-x1.yaml").read_text()) == (5, "mine")
        assert "acme-x1.yaml: is there already, and nothing is overwritten" in err
        (tmp_path / "acme-pack").mkdir()
        code, _, err = inside("profiles", "new", "acme/x1", "--kind", "cpu", "--pack", "acme-pack")
        assert (code, list((tmp_path / "acme-pack").iterdir())) == (5, [])

    def test_place_that_cannot_be_written(self, inside: Inside, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        code, _, err = inside("profiles", "new", "acme/x1", "--kind", "cpu", "--folder", "file/below")
        assert code == 5
        assert "cannot be written (" in err
        assert "Name another place by --folder." in err

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            (["ACME/X 1", "--kind", "cpu"], "got 'ACME/X 1'; expected vendor/device, each of a-z"),
            (["ACME/X 1", "--kind", "cpu"], "Write acme/x-1."),
            (["x1", "--kind", "cpu"], "Write it as in acme/npu1."),
            (["acme/../../x1", "--kind", "cpu"], "no name for a profile"),
            ([f"acme/{'x' * 80}", "--kind", "cpu"], "80 characters in all"),
            (["acme/x1"], "which kind of device?; expected --kind cpu, gpu or npu, or --like a profile"),
            (["acme/x1", "--like", "a100", "--kind", "cpu"], "nvidia-a100-sxm-80gb is a gpu; got cpu"),
            (["acme/x1", "--like", "nothing"], "unknown hardware profile; got 'nothing'"),
            (["acme/x1", "--kind", "cpu", "--pack", "../x"], "no name for a pack; got '../x'"),
            (["acme/x1", "--kind", "cpu", "--pack", "class"], "no name for a pack; got 'class'"),
            (["acme/x1", "--kind", "cpu", "--pack", "x" * 300], "no name for a pack; got 'xxx"),
            (["acme/x1", "--kind", "cpu", "--pack", "json"], "a package json is installed already"),
            (["acme/x1", "--kind", "cpu", "--pack", "prune-engine"], "a package prune_engine is installed already"),
        ],
    )
    def test_bad_input(self, inside: Inside, tmp_path: Path, arguments: list[str], problem: str) -> None:
        code, out, err = inside("profiles", "new", *arguments)
        assert (code, out) == (2, "")
        assert problem in err
        assert list(tmp_path.iterdir()) == []


class TestCheck:
    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        """A pack with two devices, one of them broken."""
        folder = tmp_path / "acme-npu-pack"
        files = dict(pack_project("acme-npu-pack", "acme", "acme-npu1.yaml", NPU1))
        files["src/acme_npu_pack/acme-npu2.yaml"] = BROKEN.replace("acme-npu1", "acme-npu2")
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        return folder

    def test_project(self, inside: Inside, project: Path) -> None:
        code, out, err = inside("profiles", "check", project.name)
        assert code == 2
        assert "acme-npu1.yaml: ok, acme-npu1: 33 numbers, 11 unknown" in out
        assert out.splitlines()[-1] == "1 of 2 profiles cannot be used, the others can"
        assert "acme-npu2.yaml:7: core_count.value: " in err
        assert "acme-npu2.yaml:73: launch: unknown key, its unit is missing. Write launch_secs." in err

    def test_wheel(self, inside: Inside, project: Path, tmp_path: Path) -> None:
        wheel = tmp_path / "acme_npu_pack-0.1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for file in (project / "src" / "acme_npu_pack").iterdir():
                archive.write(file, f"acme_npu_pack/{file.name}")
            points = "[prune_engine.hardware_profiles]\nacme = acme_npu_pack\n"
            archive.writestr("acme_npu_pack-0.1.0.dist-info/entry_points.txt", points)
        code, out, _ = inside("profiles", "check", wheel.name, "--json")
        rows = json.loads(out)["profiles"]
        assert (code, [row["error"] is None for row in rows]) == (2, [True, False])
        assert [it["line"] for it in rows[1]["mistakes"]] == [7, 73]
        assert {row["pack"] for row in rows} == {"acme"}

    def test_a_built_in_profile_that_is_hidden(self, inside: Inside, tmp_path: Path) -> None:
        """A pack is found before what ships, by its aliases as well; what ships does not hide itself."""
        (tmp_path / "x1.yaml").write_text(NPU1.replace("name: acme-npu1", "name: x1").replace("[npu1]", "[t4]"))
        code, _, err = inside("profiles", "check", "x1.yaml")
        assert (code, "hides the built-in profile nvidia-t4: both are called t4" in err) == (0, True)
        assert "hides" not in inside("profiles", "check", "t4")[2]

    def test_yaml_that_the_wheel_will_not_have(self, inside: Inside, project: Path) -> None:
        path = project / "pyproject.toml"
        path.write_text(path.read_text().replace('"*" = ["*.yaml"]', ""))
        _, _, err = inside("profiles", "check", project.name)
        assert "note: " in err
        assert "the wheel will hold no YAML" in err

    def test_one_name_twice(self, inside: Inside, project: Path) -> None:
        (project / "src" / "acme_npu_pack" / "acme-npu2.yaml").write_text(NPU1)
        code, _, err = inside("profiles", "check", project.name)
        assert code == 2
        assert "acme-npu1 is a name of " in err
        assert "Rename one." in err

    @pytest.mark.parametrize("name", ["nvidia/a100", "a100", "nvidia-a100-sxm-80gb"])
    def test_profile_by_name(self, inside: Inside, name: str) -> None:
        code, out, _ = inside("profiles", "check", name)
        assert code == 0
        assert "nvidia-a100-sxm-80gb: 32 numbers, 10 unknown" in out

    @pytest.mark.parametrize(
        ("what", "problem"),
        [
            ("absent.yaml", "absent.yaml: cannot be read: No such file"),
            ("absent.whl", "absent.whl: cannot be read: "),
            ("empty", "empty: the folder holds no profile; expected *.yaml, or a pyproject.toml"),
            ("other", "declares no pack"),
            ("no-such-name", "unknown hardware profile; got 'no-such-name'"),
        ],
    )
    def test_what_is_not_there(self, inside: Inside, tmp_path: Path, what: str, problem: str) -> None:
        (tmp_path / "empty").mkdir()
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "pyproject.toml").write_text('[project]\nname = "other"\n')
        code, _, err = inside("profiles", "check", what)
        assert code == 2
        assert problem in err

    def test_all_that_is_named_is_checked(self, inside: Inside, project: Path) -> None:
        code, out, err = inside("profiles", "check", "absent.yaml", project.name, "a100")
        assert code == 2
        assert out.count(": ok, ") == 2
        assert "absent.yaml" in err
        assert out.splitlines()[-1] == "2 of 4 profiles cannot be used, the others can"


def test_broken_file_is_told_by_list_and_by_who_looks_up(
    inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "acme-npu1.yaml").write_text(NPU1)
    (folder / "acme-npu2.yaml").write_text(BROKEN)
    monkeypatch.setenv("PRUNE_ENGINE_PROFILE_PATH", str(folder))
    _, out, err = inside("profiles", "list")
    assert "acme-npu1 " in out
    assert "not usable: " in out
    assert "acme-npu2.yaml:7: core_count.value: " in out
    assert err == ""
    code, out, err = inside("profiles", "show", "acme/npu1")
    assert code == 0
    assert err.startswith("warning: a hardware profile is left out: ")
    assert "acme-npu2.yaml:7: core_count.value: " in err
    assert "(1 more; `prune-engine profiles check` tells all)" in err


def test_prune_says_which_field_of_the_profile_cut(
    inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRUNE_ENGINE_PROFILE_PATH", str(ACME / "src" / "acme_npu_pack"))
    code, out, err = inside("prune", "gemm:64x64x64", "--profile", "acme/npu1", "--json")
    assert code == 0, err
    (task,) = json.loads(out)["tasks"]
    reasons = {step["rule"]: step["reason"] for step in (*task["space_rules"], *task["rules"]) if step["n_cut"]}
    assert "which holds 8192 (acme-npu1, memory.l0a.capacity_bytes)" in reasons["rules.scratchpads"]
    assert "acme-npu1, compute.cube" in reasons["rules.matrix-alignment"]
    assert all(step["reason"] is None for step in task["rules"] if not step["n_cut"])
