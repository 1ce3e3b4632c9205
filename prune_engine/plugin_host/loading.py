"""Find plugins and import them, one at a time, so that one that breaks breaks alone."""

from __future__ import annotations

import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from prune_engine.errors import ConfigError, PluginContractError

ENTRY_POINT_GROUP = "prune_engine.plugins"
#: The distribution of the plugins that come with the engine.
OWN_DISTRIBUTION = "prune-engine"


@dataclass(frozen=True, slots=True)
class PluginSource:
    """A plugin that was found but not imported yet. ``module`` is what importing it needs to exist.

    ``requires`` are the requirements of its distribution (PEP 508).
    """

    name: str
    module: str
    version: str | None
    distribution: str | None
    load: Callable[[], object]
    requires: Sequence[str] = ()


def find_plugins(plugin_files: Sequence[Path]) -> Iterator[PluginSource]:
    """Yield installed plugins by name, then plugin files in the order given. Imports nothing.

    Raises ConfigError for a plugin file that is not there.
    """
    found = entry_points(group=ENTRY_POINT_GROUP)
    for point in sorted(found, key=lambda p: (p.name, p.dist.name if p.dist else "")):
        yield _of_entry_point(point)
    for path in plugin_files:
        if path.suffix != ".py" or not path.is_file():
            raise ConfigError(
                "no such plugin file",
                who=str(path),
                expected="the path of one Python file",
                remedy="Correct the path, or install the plugin and leave the option out.",
            )
        yield _of_file(path)


def missing_dependency(source: PluginSource, error: BaseException) -> str | None:
    """The command that installs what a plugin misses, or None if the error is another one."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return None
    module = error.name.partition(".")[0]
    if module in (source.module.partition(".")[0], "prune_engine"):
        return None  # the plugin's own file is missing or misspelt: nothing to install
    return f"pip install {_requirement(source.distribution, module)}"


def describe(error: BaseException) -> str:
    """One line: type, message and the innermost place."""
    text = " ".join(str(error).split())
    # What is no Exception was wrapped where the plugin was called; it is the plugin's place that helps.
    raised = error.__cause__ if isinstance(error, PluginContractError) and error.__cause__ else error
    frames = traceback.extract_tb(raised.__traceback__)
    # A file that cannot be compiled has no frame of its own: the text names it.
    is_place = bool(frames) and not (isinstance(error, SyntaxError) and "<frozen" in frames[-1].filename)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if is_place else ""
    return f"{type(error).__name__}: {text}{place}" if text else f"{type(error).__name__}{place}"


def _of_entry_point(point: EntryPoint) -> PluginSource:
    dist = point.dist
    # Reading them takes a millisecond, which our own need not.
    requires = dist.requires if dist and dist.name != OWN_DISTRIBUTION else None
    return PluginSource(
        name=point.name,
        module=point.module,
        version=dist.version if dist else None,
        distribution=dist.name if dist else None,
        load=point.load,
        requires=tuple(requires or ()),
    )


def _of_file(path: Path) -> PluginSource:
    module = f"_prune_engine_plugin_file_{re.sub(r'[^0-9A-Za-z_]', '_', path.stem)}"

    def load() -> ModuleType:
        spec = importlib.util.spec_from_file_location(module, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} cannot be imported")
        loaded = importlib.util.module_from_spec(spec)
        # Dataclasses and pickle look a class's module up there.
        sys.modules[module] = loaded
        try:
            spec.loader.exec_module(loaded)
        except BaseException:
            del sys.modules[module]
            raise
        return loaded

    return PluginSource(path.stem, module, None, None, load)


def _requirement(distribution: str | None, module: str) -> str:
    """The requirement that brings a module: the plugin's own extra if it declares one, else its name."""
    wanted = re.sub(r"[-_.]+", "-", module).lower()
    try:
        declared = Distribution.from_name(distribution).requires or [] if distribution else []
    except ModuleNotFoundError:
        declared = []
    for requirement in declared:
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        if name and re.sub(r"[-_.]+", "-", name.group()).lower() == wanted:
            extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", requirement)
            return f"'{distribution}[{extra.group(1)}]'" if extra else f"'{requirement.split(';')[0].strip()}'"
    return module
