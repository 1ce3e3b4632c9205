"""Where profiles are looked for, and what is said when none is found."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from prune_engine.errors import ProfileError
from prune_engine.hardware import DeviceKind, Probe, ProfileRegistry, host_profile, load_profile
from prune_engine.hardware import registry as registry_module
from prune_engine.hardware.writer import write_profile
from prune_engine.testing import make_profile

#: Short name of each device that ships -> its profile.
BUILT_IN = {
    "xeon-8272cl": "intel-xeon-8272cl",
    "e5-2673-v4": "intel-xeon-e5-2673-v4",
    "epyc-7452": "amd-epyc-7452",
    "graviton2": "aws-graviton2",
    "epyc-9654": "amd-epyc-9654",
    "xeon-8480plus": "intel-xeon-8480plus",
    "cortex-a72": "broadcom-bcm2711",
    "m2": "apple-m2",
    "k80": "nvidia-tesla-k80",
    "t4": "nvidia-t4",
    "titanv": "nvidia-titan-v",
    "a100": "nvidia-a100-sxm-80gb",
    "a100-40": "nvidia-a100-sxm-40gb",
    "orin": "nvidia-jetson-agx-orin",
    "h100": "nvidia-h100-sxm",
    "h200": "nvidia-h200-sxm",
    "rtx-2080-ti": "nvidia-rtx-2080-ti",
    "rtx-3090": "nvidia-rtx-3090",
    "a4000": "nvidia-rtx-a4000",
    "mi250x": "amd-mi250x-gcd",
    "w6600": "amd-radeon-pro-w6600",
    "ascend-910b": "huawei-ascend-910b2",
    "mlu370": "cambricon-mlu370-x4",
    "kunlun": "baidu-kunlun-k200",
    "kunlun-2": "baidu-kunlun-r200",
}
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
    assert set(registry.profiles()) >= set(BUILT_IN.values())
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


def probed(folder: Path, model: str, n_threads: int) -> None:
    """A measured profile in a folder."""
    probe = Probe(cpu_model=model, n_threads=n_threads, measured_at="yesterday", version="0")
    profile = make_profile(name=f"probe-{n_threads}t", cores=n_threads).model_copy(update={"probe": probe})
    write_profile(profile, folder / f"{profile.name}.yaml")


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
        assert "made for this processor, AMD EPYC 9654" in registry.choose("auto", n_threads=96).reason

    def test_what_was_measured_here_with_as_many_threads(
        self, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(registry_module, "cpu_model", lambda: "ACME 9000")
        probed(folders["user"], "ACME 9000", 3)
        registry = make_registry(folders)
        choice = registry.choose("auto", n_threads=3)
        assert (choice.profile.name, choice.reason) == ("probe-3t", "measured on this machine at yesterday")
        assert registry.resolve("auto", n_threads=2).name == "host", "other threads, other bandwidth"
        monkeypatch.setattr(registry_module, "cpu_model", lambda: "ACME 9001")
        assert registry.resolve("auto", n_threads=3).name == "host", "a home that moved to another machine"

    def test_processor_model_goes_before_the_measurement(
        self, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(registry_module, "cpu_model", lambda: "AMD EPYC 9654 96-Core Processor")
        probed(folders["user"], "AMD EPYC 9654 96-Core Processor", 96)
        assert make_registry(folders).resolve("auto", n_threads=96).name == "amd-epyc-9654"

    def test_without_either_it_is_said_what_could_be_done(self, folders: dict[str, Path]) -> None:
        choice = make_registry(folders).choose("auto", n_threads=3)
        assert choice.profile == host_profile(3)
        assert "operating system" in choice.reason
        assert "prune-engine profiles probe --threads 3" in choice.reason


def test_choice_says_where_a_profile_came_from(folders: dict[str, Path]) -> None:
    file = write(folders["user"], 4)
    registry = make_registry(folders)
    assert registry.choose("acme-1").reason == f"user, {file}"
    assert registry.choose(str(file)).reason == f"read from {file}"


class TestBuiltIn:
    """The YAML files in the repository are the ones that are found, and are what they say."""

    def test_are_found(self, folders: dict[str, Path]) -> None:
        found = [e for e in make_registry(folders).entries() if e.layer == "built in"]
        assert {e.name for e in found} == set(BUILT_IN.values())
        assert [e.error for e in found] == [None] * len(found)

    @pytest.mark.parametrize(("alias", "name"), BUILT_IN.items())
    def test_short_names(self, folders: dict[str, Path], alias: str, name: str) -> None:
        assert make_registry(folders).resolve(alias).name == name

    def test_no_name_means_two_devices(self) -> None:
        profiles = [load_profile(path) for path in FOLDER.glob("*.yaml")]
        names = [name for profile in profiles for name in (profile.name, *profile.aliases)]
        assert len(set(names)) == len(names)

    def test_every_npu_scratchpad_has_a_size(self) -> None:
        """What the rules against spilling need."""
        for name in ("huawei-ascend-910b2", "cambricon-mlu370-x4"):
            profile = load_profile(FOLDER / f"{name}.yaml")
            pads = [m for m in profile.memory if m.is_hard_limit and m.name != "dram"]
            assert len(pads) >= 3
            assert all(m.limit_bytes for m in pads)

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
            if profile.kind is DeviceKind.NPU:  # whether their vector units fuse multiply-adds is not published
                continue
            for unit in profile.compute:
                peak = unit.peak_flop_per_sec.get("float32")
                if peak and unit.count and unit.lanes and profile.clock_hz:
                    expected = unit.count.value * unit.lanes.value * 2 * profile.clock_hz.value
                    assert peak.value == pytest.approx(expected, rel=1e-6), f"{profile.name}: {unit.name}"
