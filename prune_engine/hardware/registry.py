"""Find a profile by name or path.

Search order: an explicit file, PRUNE_ENGINE_PROFILE_PATH, the user's folder, installed packs, profiles that
plugins compute, built-in profiles. The first one found under a name hides those after it.
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from prune_engine.errors import ProfileError
from prune_engine.hardware.entries import ProfileEntry, entries_at
from prune_engine.hardware.host import cpu_model, host_profile, usable_cpus
from prune_engine.hardware.loader import load_profile
from prune_engine.hardware.packs import installed_packs
from prune_engine.hardware.schema import HardwareProfile

PATH_VARIABLE = "PRUNE_ENGINE_PROFILE_PATH"
_BUILT_IN_PACKAGE = "prune_engine_hardware_profiles"
_VENDOR_AND_DEVICE = re.compile(r"[a-z0-9][a-z0-9._-]*/[a-z0-9][a-z0-9._-]*")


class BrokenProfileWarning(UserWarning):
    """A file that may be a profile cannot be used, and the others are."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A profile and, for people, where it came from."""

    profile: HardwareProfile
    reason: str


class ProfileRegistry:
    """The profiles that can be named on this machine.

    Args:
        computed: (plugin name, profile) pairs, as collected from ``register_hardware_profiles``.
        environ: environment variables, those of the process by default.
        user_folder: folder of the user's own profiles, by default the platform's configuration folder.
    """

    def __init__(
        self,
        computed: Iterable[tuple[str, HardwareProfile]] = (),
        *,
        environ: Mapping[str, str] | None = None,
        user_folder: Path | None = None,
    ) -> None:
        self._computed = tuple(computed)
        self._environ = os.environ if environ is None else environ
        self._user_folder = user_folder
        self._entries: tuple[ProfileEntry, ...] | None = None
        self._has_told = False

    def resolve(self, name_or_path: str, *, n_threads: int | None = None) -> HardwareProfile:
        """Find a profile by name, alias, or path of a YAML file; ``auto`` is this machine.

        ``auto`` is the profile made for this processor's model if one has as many cores as we use
        (``n_threads``, by default all usable processors), else what `prune-engine profiles probe` measured
        here with as many threads, else `host_profile`. ``nvidia/a100`` is ``nvidia-a100``.

        Files that were found and cannot be used are told by one BrokenProfileWarning each, once per registry: they
        may be what was meant. Raises ProfileError.
        """
        return self.choose(name_or_path, n_threads=n_threads).profile

    def choose(self, name_or_path: str, *, n_threads: int | None = None) -> Choice:
        """Like `resolve`, with where the profile came from and, for ``auto``, why this one."""
        if name_or_path == "auto":
            choice = self._of_this_machine(n_threads or len(usable_cpus()))
            self._tell_of_broken()
            return choice
        if _is_path(name_or_path):
            return Choice(load_profile(Path(name_or_path)), f"read from {name_or_path}")
        wanted = name_or_path.lower().replace("/", "-")
        for entry in self.entries():
            aliases = entry.profile.aliases if entry.profile else ()
            if wanted in (entry.name, *aliases):
                if entry.error:
                    raise entry.error
                if entry.profile:
                    self._tell_of_broken()
                    return Choice(entry.profile, f"{entry.layer}, {entry.origin}")
        raise self._unknown(name_or_path)

    def profiles(self) -> Mapping[str, HardwareProfile]:
        """Usable profiles by name, the first found under each."""
        found: dict[str, HardwareProfile] = {}
        for entry in self.entries():
            if entry.profile:
                found.setdefault(entry.name, entry.profile)
        return found

    def entries(self) -> tuple[ProfileEntry, ...]:
        """Everything found, in search order, hidden and unusable ones too. Files are read once.

        Raises ProfileError if PRUNE_ENGINE_PROFILE_PATH names something that is not there.
        """
        if self._entries is None:
            self._entries = tuple(self._search())
        return self._entries

    def _search(self) -> Iterator[ProfileEntry]:
        for path in self._path_variable():
            yield from entries_at(path, PATH_VARIABLE)
        yield from entries_at(self._user_folder or user_folder(), "user")
        for pack in installed_packs():
            yield from pack.entries
        for plugin, profile in self._computed:
            yield ProfileEntry(profile.name, "plugin", plugin, profile)
        built_in = importlib.util.find_spec(_BUILT_IN_PACKAGE)
        for folder in (built_in.submodule_search_locations or ()) if built_in else ():
            yield from entries_at(Path(folder), "built in")

    def _path_variable(self) -> Iterator[Path]:
        for part in filter(None, self._environ.get(PATH_VARIABLE, "").split(os.pathsep)):
            path = Path(part).expanduser()
            if not path.exists():
                raise ProfileError(
                    "no such file or folder",
                    who=PATH_VARIABLE,
                    got=part,
                    expected=f"files and folders separated by {os.pathsep!r}",
                    remedy="Correct the variable or unset it.",
                )
            yield path

    def _of_this_machine(self, n_threads: int) -> Choice:
        model = cpu_model()
        # A profile of a whole socket says little about a slice of it: peaks and shared levels differ.
        fitting = [
            profile
            for profile in self.profiles().values()
            if profile.core_count is not None and profile.core_count.value == n_threads
        ]
        for profile in fitting:
            if any(re.search(pattern, model) for pattern in profile.cpu_model_patterns):
                return Choice(profile, f"made for this processor, {model}")
        for profile in fitting:
            probe = profile.probe
            if probe and (probe.cpu_model, probe.n_threads) == (model, n_threads):
                return Choice(profile, f"measured on this machine at {probe.measured_at}")
        remedy = f"`prune-engine profiles probe --threads {n_threads}` measures the rest"
        return Choice(host_profile(n_threads), f"what the operating system says; {remedy}")

    def _tell_of_broken(self) -> None:
        if not self._has_told:
            self._has_told = True
            for entry in self.entries():
                if entry.error:
                    text = f"a hardware profile is left out: {first_mistake(entry.error)}"
                    warnings.warn(text, BrokenProfileWarning, stacklevel=4)

    def _unknown(self, name: str) -> ProfileError:
        names = sorted(self.profiles())
        close = difflib.get_close_matches(name.lower(), names, n=3)
        broken = [first_mistake(e.error) for e in self.entries() if e.error]
        note = f"; not usable: {'; '.join(broken)}" if broken else ""
        return ProfileError(
            f"unknown hardware profile{note}",
            who="hardware profile",
            got=repr(name),
            expected=f"'auto', the path of a YAML file, or one of: {', '.join(names) or 'none found'}",
            remedy=f"Did you mean {' or '.join(close)}?" if close else "Name one of those.",
        )


def first_mistake(error: ProfileError) -> str:
    """An error on one line: the first mistake, and how many more there are."""
    first, *others = str(error).splitlines()
    return f"{first} ({len(others)} more; `prune-engine profiles check` tells all)" if others else first


def _is_path(text: str) -> bool:
    """Whether a file is meant; ``vendor/device`` is a name unless there is such a file."""
    if text.endswith((".yaml", ".yml")):
        return True
    return os.sep in text and (not _VENDOR_AND_DEVICE.fullmatch(text.lower()) or Path(text).exists())


def user_folder() -> Path:
    """Where a user's own profiles lie, and those that were measured."""
    import platformdirs  # only those who look for a profile pay for it

    return Path(platformdirs.user_config_path("prune_engine")) / "profiles"
