"""What `plugins check` is pointed at: a plugin file, the folder of a project, or an installed plugin by name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from prune_engine.errors import ConfigError

_GROUP = "prune_engine.plugins"


@dataclass(frozen=True, slots=True)
class CheckTarget:
    """A plugin to be checked. ``file`` is a plugin file's path; ``entry`` what an entry point of a project names.

    Neither is set for one that is installed. ``paths`` are put in front of Python's. ``requires`` are the
    requirements of its distribution.
    """

    name: str
    file: str = ""
    entry: str = ""
    paths: tuple[str, ...] = ()
    distribution: str | None = None
    version: str | None = None
    requires: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Its fields, for the process that loads it."""
        return asdict(self)

    @staticmethod
    def of_json(fields: Mapping[str, Any]) -> CheckTarget:
        """What ``as_json`` gave."""
        return CheckTarget(**{**fields, "paths": tuple(fields["paths"]), "requires": tuple(fields["requires"])})


def check_targets(what: str) -> list[CheckTarget]:
    """The plugins that a path or a name stands for. Nothing is imported. Raises ConfigError."""
    path = Path(what)
    if path.is_file():
        return [_of_file(path)]
    if (path / "pyproject.toml").is_file():
        return list(_of_project(path))
    from prune_engine.plugin_host.loading import find_plugins

    found = list(find_plugins(()))
    named = [source for source in found if source.name == what]
    if not named:
        is_folder = path.is_dir()
        raise ConfigError(
            "a folder without pyproject.toml" if is_folder else "no such file, folder or plugin",
            who=what,
            expected="a plugin file, the folder of a project, or an installed plugin: "
            + ", ".join(sorted({source.name for source in found})),
            remedy="`prune-engine plugins new NAME` writes such a project." if is_folder else None,
        )
    return [
        CheckTarget(
            source.name, distribution=source.distribution, version=source.version, requires=tuple(source.requires)
        )
        for source in named[:1]  # the second of a name is never loaded
    ]


def _of_file(path: Path) -> CheckTarget:
    if path.suffix != ".py":
        raise ConfigError("not a plugin file", who=str(path), expected="the path of one Python file")
    return CheckTarget(path.stem, file=str(path.resolve()))


def _of_project(folder: Path) -> Iterator[CheckTarget]:
    file = folder / "pyproject.toml"
    content = _toml(file)
    project = content.get("project", {})
    points = _table(_table(project, "entry-points"), _GROUP)
    if not points:
        raise ConfigError(
            "registers no plugin",
            who=str(file),
            expected=f'a line below [project.entry-points."{_GROUP}"], such as: hello = "prune_engine_hello"',
            remedy="Add it; or install the project, if it is written elsewhere, and check the plugin by its name.",
        )
    requires = project.get("dependencies", [])
    for name, entry in points.items():
        if not isinstance(entry, str) or not entry.partition(":")[0].replace(".", "_").isidentifier():
            raise ConfigError(
                "an entry point that names no module", who=f"{file}: {name}", got=repr(entry), expected='"package"'
            )
        yield CheckTarget(
            str(name),
            entry=entry,
            paths=tuple(str(path) for path in _import_folders(folder, content)),
            distribution=str(project["name"]) if "name" in project else None,
            version=str(project["version"]) if "version" in project else None,
            requires=tuple(map(str, requires)) if isinstance(requires, list) else (),
        )


def _import_folders(folder: Path, content: Mapping[str, Any]) -> list[Path]:
    """Where the project's packages lie: what setuptools is told, src, or the folder itself."""
    setuptools = _table(_table(content, "tool"), "setuptools")
    packages = setuptools.get("packages")
    where = _table(_table(setuptools, "packages"), "find").get("where") if isinstance(packages, dict) else None
    told = [*(where if isinstance(where, list) else ()), *_table(setuptools, "package-dir").values()]
    folders = [folder / str(part) for part in (*told, "src", "")]
    # Of a package's own folder, its parent: that is where Python looks for it.
    parents = [one.parent for one in folders if (one / "__init__.py").is_file()]
    unique = dict.fromkeys(one.resolve() for one in (*folders, *parents) if one.is_dir())
    return list(unique)


def _table(content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = content.get(key, {})
    return value if isinstance(value, dict) else {}


def _toml(file: Path) -> Mapping[str, Any]:
    # Part of Python since 3.11; before, pytest brings it, without which nothing is checked either.
    reader = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        content: Mapping[str, Any] = reader.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError("cannot be read", who=str(file), got=str(error), expected="TOML") from error
    return content
