"""Where profiles are looked for, and what is said when none is found."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from prune_engine.errors import ProfileError
from prune_engine.hardware import DeviceKind, ProfileRegistry, host_profile, load_profile
from prune_engine.hardware import registry as registry_module
from prune_engine.testing import make_profile

BUILT_IN = {"amd-epyc-9654", "intel-xeon-8480plus", "nvidia-a100-sxm-80gb"}
FOLDER = Path(__file__).parents[2] / "hardware_profiles"
A100 = (FOLDER / "nvidia-a100-sxm-80gb.yaml").read_text()


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """A folder for each layer, and a pack of one YAML file and a module that must not be imported."""
    made = {name: tmp_path / name for name in ("explicit", "path", "user", "site")}
    for folder in made.values():
        folder.mkdir()
    pack = made["site"] / "acme_profiles"
    pack.mkdir()
    (pack / "__init__.py").write_text("raise RuntimeError('packs are data, they are not imported')")
    info = made["site"] / "acme_profiles-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-profiles\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[prune_engine.hardware_profiles]\nacme = acme_profiles\n")
    monkeypatch.syspath_prepend(str(made["site"]))
    return {**made, "pack": pack}


def write(folder: Path, cores: int, name: str = "acme-1") -> Path:
    """A profile that tells by its core count from which folder it came."""
    path = folder / f"{name}.yaml"
    text = A100.replace("name: nvidia-a100-sxm-80gb", f"name: {name}", 1).replace("[a100, nvidia-a100]", "[acme]")
    path.write_text(text.replace("core_count: {value: 108", f"core_count: {{value: {cores}"))
    return path


def make_registry(folders: dict[str, Path], **options: object) -> ProfileRegistry:
    environ = {"PRUNE_ENGINE_PROFILE_PATH": str(folders["path"])}
    return ProfileRegistry(environ=environ, user_folder=folders["user"], **options)


def cores(registry: ProfileRegistry, name: str) -> float | None:
    return registry.resolve(name).value("core_count")


def test_search_order(folders: dict[str, Path]) -> None:
    """Layers are added from the last to the first; each new one hides what was found before."""
    name = "nvidia-a100-sxm-80gb"
    assert cores(make_registry(folders), name) == 108
    computed = [("plugin", make_profile(DeviceKind.GPU, name=name, cores=5))]
    assert cores(make_registry(folders, computed=computed), name) == 5
    for layer, number in (("pack", 4), ("user", 3), ("path", 2)):
        write(folders[layer], number, name)
        assert cores(make_registry(folders, computed=computed), name) == number
    explicit = write(folders["explicit"], 1, name)
    assert cores(make_registry(folders, computed=computed), str(explicit)) == 1


def test_packs_are_not_imported(folders: dict[str, Path]) -> None:
    write(folders["pack"], 4)
    assert cores(make_registry(folders), "acme-1") == 4
    assert "acme_profiles" not in sys.modules


def test_path_variable_takes_files_and_folders(folders: dict[str, Path]) -> None:
    file, folder = write(folders["explicit"], 1, "one"), folders["path"]
    write(folder, 2, "two")
    environ = {"PRUNE_ENGINE_PROFILE_PATH": os.pathsep.join([str(file), "", str(folder)])}
    registry = ProfileRegistry(environ=environ, user_folder=folders["user"])
    assert (cores(registry, "one"), cores(registry, "two")) == (1, 2)


def test_path_variable_that_leads_nowhere(folders: dict[str, Path]) -> None:
    registry = ProfileRegistry(environ={"PRUNE_ENGINE_PROFILE_PATH": "/no/such/folder"})
    with pytest.raises(ProfileError, match=r"PRUNE_ENGINE_PROFILE_PATH.*/no/such/folder"):
        registry.resolve("a100")


@pytest.mark.parametrize("name", ["nvidia-a100-sxm-80gb", "a100", "A100", "NVIDIA-A100"])
def test_names_and_aliases_in_any_case(folders: dict[str, Path], name: str) -> None:
    assert make_registry(folders).resolve(name).name == "nvidia-a100-sxm-80gb"


def test_unknown_name_says_what_there_is(folders: dict[str, Path]) -> None:
    with pytest.raises(ProfileError, match=r"'amd-epyc-9645'.*'auto'.*Did you mean amd-epyc-9654"):
        make_registry(folders).resolve("amd-epyc-9645")


def test_path_that_is_not_there(folders: dict[str, Path]) -> None:
    with pytest.raises(ProfileError, match=r"absent\.yaml.*cannot be read"):
        make_registry(folders).resolve("absent.yaml")


def test_broken_file_hurts_only_who_asks_for_it(folders: dict[str, Path]) -> None:
    broken = folders["user"] / "broken.yaml"
    broken.write_text("schema_version: 1\nname: [")
    registry = make_registry(folders)
    assert set(registry.profiles()) >= BUILT_IN
    assert registry.resolve("a100").name == "nvidia-a100-sxm-80gb"
    assert registry.resolve("auto", n_threads=3)
    with pytest.raises(ProfileError, match=r"broken\.yaml:\d+: not YAML"):
        registry.resolve("broken")
    with pytest.raises(ProfileError, match=r"not usable: .*broken\.yaml"):
        registry.resolve("something-else")
    entry = next(e for e in registry.entries() if e.name == "broken")
    assert (entry.layer, entry.profile) == ("user", None)
    assert entry.error is not None


def test_hidden_profiles_are_listed(folders: dict[str, Path]) -> None:
    write(folders["user"], 3)
    write(folders["path"], 2)
    layers = [e.layer for e in make_registry(folders).entries() if e.name == "acme-1"]
    assert layers == ["PRUNE_ENGINE_PROFILE_PATH", "user"]


class TestAuto:
    def test_this_machine(self, folders: dict[str, Path]) -> None:
        profile = make_registry(folders).resolve("auto", n_threads=3)
        assert profile == host_profile(3)

    def test_profile_of_this_processor_if_the_size_is_right(
        self, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(registry_module, "cpu_model", lambda: "AMD EPYC 9654 96-Core Processor")
        registry = make_registry(folders)
        assert registry.resolve("auto", n_threads=96).name == "amd-epyc-9654"
        assert registry.resolve("auto", n_threads=8).name == "host", "a slice is not the socket"


class TestBuiltIn:
    """The YAML files in the repository are the ones that are found, and are what they say."""

    def test_are_found(self, folders: dict[str, Path]) -> None:
        found = [e for e in make_registry(folders).entries() if e.layer == "built in"]
        assert {e.name for e in found} >= BUILT_IN
        assert [e.error for e in found] == [None] * len(found)

    @pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda p: p.stem)
    def test_file_is_named_after_its_profile_and_uses_its_sources(self, path: Path) -> None:
        profile = load_profile(path)
        assert profile.name == path.stem
        text = path.read_text()
        unused = [tag for tag in profile.sources if f"source: {tag}" not in text]
        assert not unused, f"sources that no number names: {unused}"

    def test_peaks_follow_from_units_and_clock(self) -> None:
        for path in FOLDER.glob("*.yaml"):
            profile = load_profile(path)
            for unit in profile.compute:
                peak = unit.peak_flop_per_sec.get("float32")
                if peak and unit.count and unit.lanes and profile.clock_hz:
                    expected = unit.count.value * unit.lanes.value * 2 * profile.clock_hz.value
                    assert peak.value == pytest.approx(expected, rel=1e-6), f"{profile.name}: {unit.name}"
