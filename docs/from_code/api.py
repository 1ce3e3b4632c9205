"""The pages of the Python interface: which modules are public, by reader. All else may change at any time."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

#: Pages of the reference: title, what it is for, and modules; what is here is what docs/compatibility.md promises.
PAGES: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "programs": (
        "For programs",
        "What `import prune_engine` offers. [The guide](../../guides/python.md) shows it at work.",
        ("prune_engine",),
    ),
    "plugins": (
        "For plugins",
        "The strategies, what they are shown and what they return.",
        (
            "prune_engine.hookspecs",
            "prune_engine.strategies",
            "prune_engine.candidates",
            "prune_engine.space",
            "prune_engine.verdicts",
            "prune_engine.measurement",
            "prune_engine.task",
            "prune_engine.lifecycle",
            "prune_engine.config",
        ),
    ),
    "symbols": (
        "Symbols",
        "Columns over a batch: defining them, and what they are made of.",
        ("prune_engine.symbols.table", "prune_engine.symbols.expr", "prune_engine.symbols.evaluate"),
    ),
    "testing": ("Testing", "Contract classes and things to test with.", ("prune_engine.testing",)),
    "hardware": (
        "Hardware profiles",
        "Profiles as objects.",
        ("prune_engine.hardware", "prune_engine.hardware.schema"),
    ),
    "engine": (
        "The engine",
        "For programs that bring their own tasks and their own way of measuring.",
        ("prune_engine.engine", "prune_engine.plugins", "prune_engine.store.base", "prune_engine.store.open"),
    ),
    "metaschedule": (
        "In MetaSchedule",
        "Drop-ins for those who tune with TVM's own code. [The guide](../../guides/tvm.md) shows them at work.",
        ("prune_engine.metaschedule",),
    ),
    "errors": (
        "Errors",
        "Every error is a `PruneEngineError` with the exit code of the program.",
        ("prune_engine.errors",),
    ),
}


def api_page(name: str) -> str:
    """Return one page in Markdown, for mkdocstrings."""
    title, purpose, modules = PAGES[name]
    parts = [f"# {title}\n\n{purpose}\n"]
    for module in modules:
        if module == "prune_engine":
            parts += _names_of_the_package()
            continue
        # A package is what it names; a module shows what it defines.
        shown = getattr(importlib.import_module(module), "__all__", None)
        members = f"\n    options:\n      members: {list(shown)}" if shown else ""
        parts.append(f"::: {module}{members}\n")
    return "\n".join(parts)


def _names_of_the_package() -> list[str]:
    """What `prune_engine` imports when it is first used, shown from where it is defined."""
    package = importlib.import_module("prune_engine")
    things = [(name, getattr(package, name)) for name in sorted(package.__all__, key=str.lower)]
    elsewhere = {module for _, _, modules in PAGES.values() for module in modules}
    options = "\n    options:\n      show_root_full_path: false\n"
    parts = []
    for name, thing in things:
        home = getattr(thing, "__module__", None)
        if home in elsewhere:  # shown once, on its own page
            parts.append(f"## {name}\n\n[`{home}.{name}`][{home}.{name}]\n")
        elif home is not None:
            parts.append(f"::: {home}.{name}{options}")
    return parts
