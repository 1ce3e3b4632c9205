"""Packs: never imported; as installed, as a project and as a wheel; one broken file costs that one."""

from __future__ import annotations

import os
import re
import sys
import zipfile
from pathlib import Path

import pytest

from prune_engine.errors import ProfileError
from prune_engine.hardware import BrokenProfileWarning, ProfileRegistry, load_profile
from prune_engine.hardware.entries import yaml_files
from prune_engine.hardware.loader import MAX_BYTES
from prune_engine.hardware.pack_project import import_name, pack_project
from prune_engine.hardware.packs import (
    ENTRY_POINT_GROUP,
    Pack,
    installed_packs,
    packs_of_project,
    packs_of_wheel,
    repeated_names,
    ships_yaml,
)

ACME = Path(__file__).parents[1] / "third_party" / "acme-npu-pack"
NPU1 = (ACME / "src" / "acme_npu_pack" / "acme-npu1.yaml").read_text(encoding="utf-8")
#: What a pack of ten has, one of which is broken.
N_FILES = 10


def numbered(number: int) -> str:
    return NPU1.replace("name: acme-npu1", f"name: acme-npu{number}").replace("[npu1]", f"[npu{number}]")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where packages are installed."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


def install(site: Path, value: str, files: dict[str, str], name: str = "acme") -> None:
    """Install a pack without any Python file: a package of YAML files and an entry point."""
    info = site / f"{name}_pack-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-pack\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{ENTRY_POINT_GROUP}]\n{name} = {value}\n")
    for path, text in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)


def registry(tmp_path: Path) -> ProfileRegistry:
    return ProfileRegistry(environ={}, user_folder=tmp_path / "nobody")


def of_acme(packs: object) -> Pack:
    (pack,) = (one for one in packs if one.name == "acme")  # type: ignore[attr-defined]
    return pack


def ten_files() -> dict[str, str]:
    files = {f"acme_pack/acme-npu{n}.yaml": numbered(n) for n in range(N_FILES)}
    files["acme_pack/acme-npu7.yaml"] = numbered(7).replace("value: 8192", "value: -8192", 1)
    return files


class TestOneBrokenAmongTen:
    @pytest.fixture
    def found(self, site: Path, tmp_path: Path) -> ProfileRegistry:
        install(site, "acme_pack", ten_files())
        return registry(tmp_path)

    def test_nine_load_and_one_is_named_with_line_and_field(self, found: ProfileRegistry) -> None:
        entries = [entry for entry in found.entries() if entry.layer == "pack acme"]
        assert len([entry for entry in entries if entry.profile]) == N_FILES - 1
        (broken,) = (entry for entry in entries if entry.error)
        assert broken.name == "acme-npu7"
        assert str(broken.error).endswith(
            "acme-npu7.yaml:13: memory.0.capacity_bytes.value: input should be greater than 0, got -8192. "
            "Write a number above 0, or null for the whole field if it is unknown."
        )
        assert [line for line, _, _ in broken.error.mistakes] == [13]

    def test_the_others_resolve_with_a_warning_once(self, found: ProfileRegistry) -> None:
        with pytest.warns(BrokenProfileWarning, match=r"acme-npu7\.yaml:13: memory\.0\.capacity_bytes") as told:
            names = [found.resolve(name).name for name in ("acme/npu3", "npu4")]
        assert names == ["acme-npu3", "acme-npu4"]
        assert len(told) == 1

    def test_auto_tells_of_it(self, found: ProfileRegistry) -> None:
        with pytest.warns(BrokenProfileWarning, match=r"acme-npu7\.yaml"):
            found.resolve("auto", n_threads=3)

    @pytest.mark.parametrize("name", ["acme/npu7", "acme-npu7"])
    def test_who_asks_for_it_is_told(self, found: ProfileRegistry, name: str) -> None:
        with pytest.raises(ProfileError, match=r"acme-npu7\.yaml:13: memory\.0\.capacity_bytes"):
            found.resolve(name)

    def test_unknown_name_tells_of_it(self, found: ProfileRegistry) -> None:
        with pytest.raises(ProfileError, match=r"not usable: .*acme-npu7\.yaml:13: memory\.0\.capacity_bytes"):
            found.resolve("npu7")


class TestInstalled:
    def test_package_inside_a_package_is_not_imported(self, site: Path, tmp_path: Path) -> None:
        files = {"acme_top/__init__.py": "raise RuntimeError", "acme_top/tables/acme-npu1.yaml": NPU1}
        install(site, "acme_top.tables", files)
        assert registry(tmp_path).resolve("acme/npu1").name == "acme-npu1"
        assert "acme_top" not in sys.modules

    @pytest.mark.parametrize(
        ("value", "files", "problem"),
        [
            ("no_such_package", {}, r"package no_such_package cannot be found: no such package is installed"),
            ("acme_module", {"acme_module.py": ""}, r"acme_module cannot be found: it is no package with a folder"),
            ("acme_pack:profiles", {"acme_pack/a.yaml": NPU1}, r"names a package; got 'acme_pack:profiles'"),
            ("acme_pack", {"acme_pack/__init__.py": ""}, r"acme_pack holds no YAML file.*package-data"),
        ],
    )
    def test_pack_that_cannot_be_used_is_listed(
        self, site: Path, tmp_path: Path, value: str, files: dict[str, str], problem: str
    ) -> None:
        install(site, value, files)
        (entry,) = (entry for entry in registry(tmp_path).entries() if entry.layer == "pack acme")
        assert (entry.name, entry.profile, entry.origin) == ("acme", None, "acme-pack 1.0")
        with pytest.raises(ProfileError, match=problem):
            raise entry.error  # type: ignore[misc]

    def test_two_packs_with_one_entry_point_name(self, site: Path, tmp_path: Path) -> None:
        install(site, "one_pack", {"one_pack/acme-npu1.yaml": NPU1}, "one")
        install(site, "two_pack", {"two_pack/acme-npu2.yaml": numbered(2)}, "two")
        found = registry(tmp_path).profiles()
        assert {"acme-npu1", "acme-npu2"} <= set(found)


class TestNames:
    @pytest.mark.parametrize("name", ["nvidia/a100", "NVIDIA/A100", "nvidia/a100-sxm-80gb"])
    def test_vendor_and_device(self, tmp_path: Path, name: str) -> None:
        assert registry(tmp_path).resolve(name).name == "nvidia-a100-sxm-80gb"

    def test_a_file_of_that_path_goes_first(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "nvidia").mkdir()
        (tmp_path / "nvidia" / "a100").write_text(NPU1)
        monkeypatch.chdir(tmp_path)
        assert registry(tmp_path).resolve("nvidia/a100").name == "acme-npu1"

    @pytest.mark.parametrize("path", ["./nvidia/a100", "/nvidia/a100", "a/nvidia/a100", "nvidia/a100.yaml"])
    def test_other_paths_are_files(self, tmp_path: Path, path: str) -> None:
        with pytest.raises(ProfileError, match="cannot be read"):
            registry(tmp_path).resolve(path)

    def test_repeated_names(self, tmp_path: Path) -> None:
        for number, name in ((1, "a"), (1, "b"), (2, "c")):
            (tmp_path / f"{name}.yaml").write_text(numbered(number))
        from prune_engine.hardware.entries import entries_at

        found = list(repeated_names(tuple(entries_at(tmp_path, "file"))))
        assert [(Path(e.origin).name, name, Path(o.origin).name) for e, name, o in found] == [
            ("b.yaml", "acme-npu1", "a.yaml"),
            ("b.yaml", "npu1", "a.yaml"),
        ]


class TestProject:
    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        for path, text in pack_project("acme-npu-pack", "acme", "acme-npu1.yaml", NPU1).items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        return tmp_path

    def test_is_read(self, project: Path) -> None:
        pack = of_acme(packs_of_project(project))
        assert [entry.name for entry in pack.entries] == ["acme-npu1"]
        assert pack.package == import_name("acme-npu-pack") == "acme_npu_pack"
        assert ships_yaml(project, pack.package)

    def test_the_outside_pack_is_one(self) -> None:
        (entry,) = of_acme(packs_of_project(ACME)).entries
        assert entry.profile == load_profile(ACME / "src" / "acme_npu_pack" / "acme-npu1.yaml")

    def test_flat_layout_and_mapped_folders(self, project: Path) -> None:
        (project / "src" / "acme_npu_pack").rename(project / "acme_npu_pack")
        assert [e.name for e in of_acme(packs_of_project(project)).entries] == ["acme-npu1"]
        (project / "acme_npu_pack").rename(project / "tables")
        with (project / "pyproject.toml").open("a") as file:
            file.write('\n[tool.setuptools.package-dir]\nacme_npu_pack = "tables"\n')
        assert [e.name for e in of_acme(packs_of_project(project)).entries] == ["acme-npu1"]

    def test_package_that_is_not_there(self, project: Path) -> None:
        (project / "src" / "acme_npu_pack").rename(project / "src" / "other")
        (entry,) = of_acme(packs_of_project(project)).entries
        with pytest.raises(ProfileError, match=r"names the package acme_npu_pack, which is not in the project"):
            raise entry.error  # type: ignore[misc]

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ('[project]\nname = "x"\n', r"declares no pack.*prune_engine\.hardware_profiles"),
            ("[project\n", r"pyproject\.toml: cannot be read: .*line 1"),
            ("project = 3\n", "declares no pack"),
        ],
    )
    def test_what_is_no_pack(self, project: Path, text: str, problem: str) -> None:
        (project / "pyproject.toml").write_text(text)
        with pytest.raises(ProfileError, match=problem):
            list(packs_of_project(project))

    @pytest.mark.parametrize(
        ("old", "new", "does"),
        [
            ('"*" = ["*.yaml"]', "", False),
            ('"*" = ["*.yaml"]', '"acme_npu_pack" = ["acme-*.yaml", "*.y*ml"]', True),
            ('"*" = ["*.yaml"]', '"other" = ["*.yaml"]', False),
            ("setuptools.build_meta", "hatchling.build", True),
            ('["*.yaml"]', '[""]', False),
            ('["*.yaml"]', "3", False),
        ],
    )
    def test_yaml_that_is_not_packaged(self, project: Path, old: str, new: str, does: bool) -> None:
        path = project / "pyproject.toml"
        path.write_text(path.read_text().replace(old, new))
        assert ships_yaml(project, "acme_npu_pack") is does


class TestWheel:
    @staticmethod
    def wheel(tmp_path: Path, files: dict[str, str], points: str | None) -> Path:
        path = tmp_path / "acme_pack-1.0-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in files.items():
                archive.writestr(name, text)
            if points is not None:
                archive.writestr("acme_pack-1.0.dist-info/entry_points.txt", points)
        return path

    def test_is_read_with_its_broken_file(self, tmp_path: Path) -> None:
        found = of_acme(
            packs_of_wheel(self.wheel(tmp_path, ten_files(), f"[{ENTRY_POINT_GROUP}]\nacme = acme_pack\n"))
        )
        assert len(found.entries) == N_FILES
        (broken,) = (entry for entry in found.entries if entry.error)
        assert str(broken.error).startswith(
            f"{tmp_path}/acme_pack-1.0-py3-none-any.whl/acme_pack/acme-npu7.yaml:13: "
        )

    @pytest.mark.parametrize(
        ("files", "points", "problem"),
        [
            ({}, None, "the wheel holds no pack"),
            ({}, "[console_scripts]\na = b\n", "the wheel holds no pack"),
            ({"acme_pack/__init__.py": ""}, f"[{ENTRY_POINT_GROUP}]\nacme = acme_pack\n", "holds no YAML file"),
            ({}, f"[{ENTRY_POINT_GROUP}]\nacme = acme_pack:data\n", "names a package; got 'acme_pack:data'"),
            ({}, "acme = acme_pack\n", r"entry_points\.txt: cannot be read: .*no section headers"),
            ({}, f"[{ENTRY_POINT_GROUP}]\nacme\n", r"entry_points\.txt: cannot be read: .*'acme"),
            ({}, f"[{ENTRY_POINT_GROUP}]\nacme = a\nacme = b\n", "cannot be read: .*already exists"),
            ({}, "#" * (MAX_BYTES + 1), "entry_points.txt: cannot be read: more than 1048576 bytes"),
        ],
    )
    def test_what_is_no_pack(self, tmp_path: Path, files: dict[str, str], points: str | None, problem: str) -> None:
        with pytest.raises(ProfileError, match=problem):
            raise of_acme(packs_of_wheel(self.wheel(tmp_path, files, points))).entries[0].error  # type: ignore[misc]

    def test_what_is_no_wheel(self, tmp_path: Path) -> None:
        path = tmp_path / "x.whl"
        path.write_text("not a zip file")
        with pytest.raises(ProfileError, match=r"x\.whl: cannot be read: .*; expected a wheel"):
            list(packs_of_wheel(path))

    @pytest.mark.parametrize(
        ("offset", "local_offset", "value", "problem"),
        [(8, 6, 1, "encrypted"), (10, 8, 97, "compression method is not supported")],
    )
    def test_wheel_of_another_kind(
        self, tmp_path: Path, offset: int, local_offset: int, value: int, problem: str
    ) -> None:
        """Flags and method of each member, in the directory of the archive and in front of the member."""
        path = self.wheel(tmp_path, ten_files(), f"[{ENTRY_POINT_GROUP}]\nacme = acme_pack\n")
        content = bytearray(path.read_bytes())
        for start, place in ((b"PK\x01\x02", offset), (b"PK\x03\x04", local_offset)):
            for match in re.finditer(re.escape(start), bytes(content)):
                content[match.start() + place] = value
        path.write_bytes(content)
        with pytest.raises(ProfileError, match=rf"\.whl: cannot be read: .*{problem}"):
            list(packs_of_wheel(path))

    def test_damaged_member_costs_that_one(self, tmp_path: Path) -> None:
        path = tmp_path / "acme_pack-1.0-py3-none-any.whl"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(
                "acme_pack-1.0.dist-info/entry_points.txt", f"[{ENTRY_POINT_GROUP}]\nacme = acme_pack\n"
            )
            for name, text in ten_files().items():
                archive.writestr(name, text)
            start = archive.getinfo("acme_pack/acme-npu3.yaml").header_offset + 60
        content = bytearray(path.read_bytes())
        content[start : start + 30] = b"\xff" * 30
        path.write_bytes(content)
        entries = of_acme(packs_of_wheel(path)).entries
        assert sum(entry.profile is not None for entry in entries) == N_FILES - 2  # one of the ten is no YAML
        (damaged,) = (entry for entry in entries if entry.name == "acme-npu3")
        assert "acme-npu3.yaml: cannot be read" in str(damaged.error)


def test_pipe_in_a_folder_is_no_profile(tmp_path: Path) -> None:
    """Nobody may ever write into it, and whoever opens it waits."""
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "npu1.yaml").write_text(NPU1)
    assert [file.name for file in yaml_files(tmp_path)] == ["npu1.yaml"]


def test_packs_of_this_environment_can_be_used() -> None:
    assert [entry.error for pack in installed_packs() for entry in pack.entries if entry.error] == []
