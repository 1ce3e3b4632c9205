"""`prune-engine plugins new`: a small project that works, to put an idea of one's own into."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import shutil
import tempfile
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from prune_engine import __version__
from prune_engine.errors import ConfigError, OutputError

_TEMPLATES = Path(__file__).parent / "templates" / "plugin"
_PREFIX = "prune-engine-"
_NAME = re.compile(r"[a-z]([a-z0-9._-]*[a-z0-9])?")
_MAX_LENGTH = 40


class PluginKind(str, Enum):
    """What the plugin registers."""

    RULE = "rule"
    DRAFT = "draft"
    VERIFIER = "verifier"
    TRANSFER = "transfer"
    EXPLORER = "explorer"
    SELECTOR = "selector"


_KIND_WORDS = ", ".join(kind.value for kind in PluginKind)


@dataclass(frozen=True, slots=True)
class _Kind:
    """The words of a kind. ``strategy`` is the second half of its strategy's name."""

    base: str
    hook: str
    class_name: str
    strategy: str
    summary: str
    run_text: str
    run_command: str


_TUNE = "prune-engine tune gemm:256x256x256 --trials 32"
_KINDS = {
    PluginKind.RULE: _Kind(
        "Rule",
        "register_rules",
        "UnrollLimit",
        "unroll-limit",
        "it leaves out candidates that unroll more than 64 steps",
        "See what it cuts of a space:",
        "prune-engine prune gemm:512x512x512",
    ),
    PluginKind.DRAFT: _Kind(
        "DraftScorer",
        "register_draft_scorers",
        "Roofline",
        "roofline",
        "it ranks candidates by a roofline of arithmetic and memory traffic",
        "See how it ranks candidates, and tune with it:",
        "prune-engine candidates gemm:256x256x256 -n 10 --draft {strategy}\n" + _TUNE + " --draft {strategy}",
    ),
    PluginKind.VERIFIER: _Kind(
        "Verifier",
        "register_verifiers",
        "Ridge",
        "ridge",
        "it predicts latency by a ridge regression on the decisions",
        "Tune with it:",
        _TUNE + " --verifier {strategy}",
    ),
    PluginKind.TRANSFER: _Kind(
        "ScheduleTransfer",
        "register_transfers",
        "Unchanged",
        "unchanged",
        "it proposes decisions of the library as they are, where the task has the same choices",
        "Tune with what the library knows:",
        _TUNE,
    ),
    PluginKind.EXPLORER: _Kind(
        "Explorer",
        "register_explorers",
        "Walk",
        "walk",
        "it draws at random, half of it one decision away from the fastest so far",
        "Tune with it:",
        _TUNE + " --explorer {strategy}",
    ),
    PluginKind.SELECTOR: _Kind(
        "Selector",
        "register_selectors",
        "Shares",
        "shares",
        "it takes the best by score, with a few audits and draws at random",
        "Tune with it:",
        _TUNE + " --selector {strategy}",
    ),
}


def new(
    name: Annotated[str, typer.Argument(help="Name of the plugin, such as hello.", show_default=False)],
    kind: Annotated[
        PluginKind, typer.Option(metavar="KIND", help=f"What it registers: {_KIND_WORDS}.")
    ] = PluginKind.RULE,
    folder: Annotated[Path | None, typer.Option(help="Folder to make.", show_default="prune-engine-NAME")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Write a small plugin that works: a strategy, its contract test, and all that installing it takes."""
    short = _checked_name(name)
    place = folder or Path(f"{_PREFIX}{short}")
    files = plugin_files(short, kind)
    _write(files, place)
    if as_json:
        typer.echo(json.dumps({"name": short, "kind": kind.value, "folder": str(place), "files": list(files)}))
        return
    typer.echo(f"wrote {place}, a plugin with a {kind.value}:")
    for path in files:
        typer.echo(f"  {path}")
    typer.echo(f"next: pip install -e '{place}[test]', then prune-engine plugins check {place}")


def plugin_files(name: str, kind: PluginKind) -> dict[str, str]:
    """The project's files by path, for a name that `_checked_name` returned."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    about = _KINDS[kind]
    package = re.sub(r"[-.]", "_", f"{_PREFIX}{name}")
    strategy = f"{name.replace('.', '-')}.{about.strategy}"
    base = re.sub(r"(?<!^)(?=[A-Z])", " ", about.base).lower()
    words = {
        "name": name,
        "distribution": f"{_PREFIX}{name}",
        "package": package,
        "module": kind.value,
        "class_name": about.class_name,
        "base": about.base,
        "hook": about.hook,
        "strategy": strategy,
        "summary": about.summary,
        "kind_name": base,
        "kind_title": f"A {base}" if base[0] not in "aeiou" else f"An {base}",
        "run_text": about.run_text,
        "run_command": about.run_command.format(strategy=strategy),
        "engine_versions": _engine_versions(),
    }
    templates = {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        f"{package}/__init__.py": "init.py",
        f"{package}/{kind.value}.py": f"{kind.value}.py",
        f"tests/test_{kind.value}.py": f"test_{kind.value}.py",
    }
    # Plain text: nothing is to be escaped for HTML.
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False
    )
    return {path: environment.get_template(f"{t}.jinja").render(words) for path, t in templates.items()}


def _engine_versions() -> str:
    """From this version to the next major one, which may call plugins otherwise."""
    major, minor = __version__.split(".")[:2]
    return f">={major}.{minor},<{int(major) + 1}"


def _checked_name(name: str) -> str:
    """A plugin's name without the usual prefix. Raises ConfigError unless it can be one and is free."""
    from prune_engine.plugin_host.loading import find_plugins

    short = name.lower().removeprefix(_PREFIX)
    if not _NAME.fullmatch(short) or len(short) > _MAX_LENGTH or re.search(r"[._-]{2}", short):
        raise ConfigError(
            "cannot be the name of a plugin",
            who="NAME",
            got=repr(name if len(name) <= 80 else name[:77] + "..."),
            expected=f"up to {_MAX_LENGTH} letters, digits and single hyphens, first a letter, as in hello",
        )
    taken = {source.name: source.distribution for source in find_plugins(())}
    package, distribution = re.sub(r"[-.]", "_", f"{_PREFIX}{short}"), f"{_PREFIX}{short}"
    who = None
    if short in taken:
        who = f"a plugin of {taken[short] or 'another project'} has it"
    elif _is_installed(distribution):
        who = f"the distribution {distribution} is installed"
    elif importlib.util.find_spec(package) is not None:
        who = f"a module {package} can be imported"
    if who:
        raise ConfigError(f"is taken: {who}", who=f"NAME {short!r}", remedy="Choose another one.")
    return short


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _write(files: dict[str, str], place: Path) -> None:
    """Make the folder, with all of the files or not at all. Raises ConfigError if there is one already."""
    if place.exists() or place.is_symlink():
        raise ConfigError(
            "is there already, and nothing is overwritten",
            who=str(place),
            remedy="Choose another folder by --folder, or remove it.",
        )
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".prune-engine-new-", dir=place.parent))
    except OSError as error:
        raise _output_error(place, error) from error
    try:
        for name, text in files.items():
            file = made / "project" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        (made / "project").rename(place)
    except OSError as error:
        raise _output_error(place, error) from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _output_error(place: Path, error: OSError) -> OutputError:
    return OutputError(
        "cannot be written",
        who=str(place),
        got=error.strerror or str(error),
        remedy="Choose another folder by --folder.",
    )
