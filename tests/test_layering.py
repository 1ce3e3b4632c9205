"""Layers point down: who may import what, read from the source with ast."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE, PLUGINS = ROOT / "prune_engine", ROOT / "plugins"

#: Everything else under prune_engine/ is core.
OUTER = ("api", "store", "metaschedule", "report", "display", "cli", "testing", "ffi")
#: The core may know what a store must offer, not how one is made.
STORE_INTERFACE = ("prune_engine.store.base",)
#: pydantic wants the TypedDict of typing_extensions before Python 3.12, and brings it along.
CORE_LIBRARIES = {"numpy", "pluggy", "pydantic", "pydantic_core", "typing_extensions", "yaml"}
#: One file each, with the reason.
CORE_EXCEPTIONS = {
    # The folder for a user's own profiles is each platform's own affair; imported when it is looked for.
    "prune_engine/hardware/registry.py": {"platformdirs"},
    # What Python before 3.11 reads TOML with; imported when a pack's project is checked.
    "prune_engine/hardware/packs.py": {"tomli"},
    # Comparing versions as installers do; imported where a plugin's requirements are read.
    "prune_engine/plugin_host/versions.py": {"packaging"},
    # Rank correlation with ties; imported when a ranking is judged.
    "prune_engine/recorded/ranking.py": {"scipy"},
}
#: Packages of the core, each of which may import those before it.
LAYERS = (
    "plugin_host",
    "stages",
    "library",
    "provenance",
    "audits",
    "whitelist",
    "decisions",
    "transfers",
    "explain",
    "loop",
    "own_kernels",
    "recorded",
)
#: What each outer package may import of the others; layers point down.
MAY_IMPORT: dict[str, set[str]] = {
    "store": set(),
    "report": {"store"},
    "display": set(),
    "metaschedule": {"store"},
    "ffi": {"metaschedule"},
    "testing": {"store"},
    "api": {"store", "report", "metaschedule", "display"},
    "cli": {"store", "report", "metaschedule", "display", "api", "testing"},
}
#: What points up nevertheless, each with its reason; take out what is gone.
UPWARD = {
    # A plugin's verbs are added to the command line as it is.
    ("prune_engine/testing/plugin_contract.py", "prune_engine.cli.app"),
}
PLUGIN_LIBRARIES = {"numpy"}
OWN_LIBRARIES = {"prune_engine_lightgbm": {"lightgbm"}, "prune_engine_kernel_tuner": {"kernel_tuner"}}
#: What no plugin may lean on: the engine's own works, and what stands above it.
INNER = (
    *("metaschedule", "cli", "display", "engine", "plugins", "api", "ffi", "report"),
    *("stages", "plugin_host", "provenance", "audits", "whitelist", "decisions", "transfers", "explain", "loop"),
    "recorded",
)
#: Library -> the only folders that import it.
KEPT_IN = {
    "tvm": ("prune_engine/metaschedule/",),
    # The foreign-function interface by itself is light: it needs no compiler.
    "tvm_ffi": ("prune_engine/metaschedule/", "prune_engine/ffi/"),
    "sqlalchemy": ("prune_engine/store/",),
    "alembic": ("prune_engine/store/",),
    "lightgbm": ("plugins/prune_engine_lightgbm/",),
    "kernel_tuner": ("plugins/prune_engine_kernel_tuner/package.py",),
    # Its configurations come in by its own call.
    "triton": (),
    "pytest": ("prune_engine/testing/",),
    "typer": ("prune_engine/cli/",),
    "rich": ("prune_engine/display/", "prune_engine/cli/"),
    "jinja2": ("prune_engine/report/", "prune_engine/cli/plugin_new.py"),
    "plotly": ("prune_engine/report/",),
}


@dataclass(frozen=True)
class Import:
    """One import: the module, and the names taken out of it."""

    file: str
    line: int
    module: str
    names: tuple[str, ...]

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.module} {', '.join(self.names)}"


def imports_of(source: str, file: str) -> Iterator[Import]:
    """Imports anywhere in a file, also inside functions, but for those only a type checker sees."""
    package = ".".join(Path(file).with_suffix("").parts[:-1])
    for node in _runtime_nodes(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(file, node.lineno, alias.name, ())
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            parent = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            yield Import(file, node.lineno, ".".join([*parent, *([node.module] if node.module else [])]), names)
        elif isinstance(node, ast.Call) and (module := _imported_by_name(node)):
            yield Import(file, node.lineno, module, ())


def _runtime_nodes(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            for other in child.orelse:
                yield other
                yield from _runtime_nodes(other)
            continue
        yield child
        yield from _runtime_nodes(child)


def _imported_by_name(node: ast.Call) -> str | None:
    """The module of an ``import_module("...")``, where it is written out."""
    called = getattr(node.func, "attr", getattr(node.func, "id", ""))
    if called not in ("import_module", "__import__") or not node.args:
        return None
    first = node.args[0]
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def imports_under(folder: Path) -> list[Import]:
    found = []
    for path in sorted(folder.rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        found += imports_of(path.read_text(encoding="utf-8"), file)
    return found


def is_core(file: str) -> bool:
    parts = Path(file).parts
    return parts[0] == "prune_engine" and not (len(parts) > 2 and parts[1] in OUTER)


def is_within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


PRODUCT = imports_under(PACKAGE) + imports_under(PLUGINS)


def core_breaks(item: Import) -> bool:
    """Whether an import is one that the core must not have."""
    if item.top == "prune_engine":
        full = {item.module, *(f"{item.module}.{name}" for name in item.names)}
        outer = tuple(f"prune_engine.{package}" for package in OUTER)
        return any(is_within(m, outer) and not is_within(m, STORE_INTERFACE) for m in full)
    allowed = CORE_LIBRARIES | CORE_EXCEPTIONS.get(item.file, set()) | set(sys.stdlib_module_names)
    return item.top not in allowed


def outer_breaks(item: Import) -> bool:
    """Whether an import leads from one outer package into another that it must not know."""
    package = Path(item.file).parts[1]
    forbidden = tuple(f"prune_engine.{other}" for other in OUTER if other not in {package, *MAY_IMPORT[package]})
    full = {item.module, *(f"{item.module}.{name}" for name in item.names)}
    return any(is_within(module, forbidden) for module in full)


def plugin_breaks(item: Import) -> bool:
    """Whether an import is one that a first-party plugin must not have: private names, adapters, strangers."""
    plugin = Path(item.file).parts[1]
    if item.top == "prune_engine":
        words = [*item.module.split("."), *item.names]
        hidden = any(word.startswith("_") and not word.startswith("__") for word in words)
        inner = tuple(f"prune_engine.{name}" for name in INNER)
        full = {item.module, *(f"{item.module}.{name}" for name in item.names)}
        return hidden or any(is_within(m, inner) for m in full)
    allowed = PLUGIN_LIBRARIES | OWN_LIBRARIES.get(plugin, set()) | {plugin} | set(sys.stdlib_module_names)
    return item.top not in allowed


def test_there_is_something_to_read() -> None:
    assert len(PRODUCT) > 200
    assert {Path(i.file).parts[0] for i in PRODUCT} == {"prune_engine", "plugins"}


def test_core_imports_itself_and_few_libraries() -> None:
    assert [str(i) for i in PRODUCT if is_core(i.file) and core_breaks(i)] == []


def test_outer_packages_point_down() -> None:
    outer = [i for i in PRODUCT if i.file.startswith("prune_engine/") and not is_core(i.file)]
    strays = [i for i in outer if outer_breaks(i)]
    assert [str(i) for i in strays if (i.file, i.module) not in UPWARD] == []
    assert {(i.file, i.module) for i in strays} == UPWARD


def test_every_outer_package_has_its_place() -> None:
    """A new package is core until it is placed; then it must be said what it may import."""
    assert set(MAY_IMPORT) == set(OUTER)
    folders = {file.parent.name for file in PACKAGE.glob("*/__init__.py")}
    assert folders - set(OUTER) == {"hardware", "schemas", "symbols", *LAYERS}


def test_packages_of_the_core_point_down() -> None:
    """The files beside them are the engine's contracts and what puts the packages together; they may know any."""
    places = {package: place for place, package in enumerate(LAYERS)}
    strays = [
        str(item)
        for item in PRODUCT
        if is_core(item.file)
        and (here := places.get(Path(item.file).parts[1])) is not None
        and places.get([*item.module.split("."), ""][1], -1) > here
    ]
    assert strays == []
    assert all(Path(PACKAGE / package).is_dir() for package in LAYERS)


def test_plugins_import_public_names_only() -> None:
    assert [str(i) for i in PRODUCT if i.file.startswith("plugins/") and plugin_breaks(i)] == []


@pytest.mark.parametrize("library", KEPT_IN)
def test_library_is_kept_in_its_folder(library: str) -> None:
    strays = [i for i in PRODUCT if i.top == library and not i.file.startswith(KEPT_IN[library])]
    assert [str(i) for i in strays] == []


def test_testing_kit_imports_pytest_in_contracts_only() -> None:
    strays = [i for i in PRODUCT if i.top == "pytest" and not i.file.endswith("_contract.py")]
    # Its __init__ asks for it when a contract is asked for; the subprocess below shows it waits till then.
    assert {i.file for i in strays} <= {"prune_engine/testing/__init__.py"}


def test_nothing_in_the_product_imports_tests() -> None:
    assert [str(i) for i in PRODUCT if i.top in ("tests", "conftest")] == []


BAD = [
    ("prune_engine/x.py", "import tvm", core_breaks),
    ("prune_engine/x.py", "def f():\n    from tvm import tir", core_breaks),
    ("prune_engine/x.py", "import importlib\nimportlib.import_module('tvm.tir')", core_breaks),
    ("prune_engine/x.py", "from prune_engine.store.sql import SqlStore", core_breaks),
    ("prune_engine/x.py", "from prune_engine.store import open_store", core_breaks),
    ("prune_engine/x.py", "from prune_engine import cli", core_breaks),
    ("prune_engine/x.py", "from prune_engine.metaschedule import traces", core_breaks),
    ("prune_engine/hardware/x.py", "from ..metaschedule import traces", core_breaks),
    ("prune_engine/x.py", "import rich", core_breaks),
    ("prune_engine/hardware/x.py", "import platformdirs", core_breaks),
    ("plugins/prune_engine_x/a.py", "from prune_engine.plugin_host.registrations import RETURNS", plugin_breaks),
    ("plugins/prune_engine_x/a.py", "from prune_engine.space import _divisors", plugin_breaks),
    ("plugins/prune_engine_x/a.py", "from prune_engine import metaschedule", plugin_breaks),
    ("plugins/prune_engine_x/a.py", "from prune_engine.api.tuning import tune", plugin_breaks),
    ("plugins/prune_engine_x/a.py", "import lightgbm", plugin_breaks),
    ("plugins/prune_engine_x/a.py", "import prune_engine_lightgbm", plugin_breaks),
    ("prune_engine/metaschedule/x.py", "from prune_engine.display import tables", outer_breaks),
    ("prune_engine/ffi/x.py", "from prune_engine.api.tuning import tune", outer_breaks),
    ("prune_engine/api/x.py", "from prune_engine.cli import options", outer_breaks),
    ("prune_engine/display/x.py", "from prune_engine.api.records import as_record", outer_breaks),
    ("prune_engine/store/x.py", "from ..report import writing", outer_breaks),
]
GOOD = [
    ("prune_engine/x.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import typer", core_breaks),
    ("prune_engine/x.py", "from prune_engine.store.base import Store", core_breaks),
    ("prune_engine/x.py", "import numpy.typing, re", core_breaks),
    ("plugins/prune_engine_x/a.py", "from prune_engine.space import DesignSpace", plugin_breaks),
    ("plugins/prune_engine_lightgbm/a.py", "import lightgbm", plugin_breaks),
    ("plugins/prune_engine_x/a.py", "from prune_engine_x.b import c", plugin_breaks),
    ("prune_engine/api/x.py", "from prune_engine.report.writing import make_report", outer_breaks),
    ("prune_engine/api/x.py", "from prune_engine.display import tables", outer_breaks),
    ("prune_engine/cli/x.py", "from prune_engine.api.requests import model_request", outer_breaks),
]


@pytest.mark.parametrize(("file", "source", "breaks"), BAD, ids=[b[1].splitlines()[-1].strip() for b in BAD])
def test_the_checks_see_a_bad_import(file, source, breaks) -> None:
    assert any(breaks(i) for i in imports_of(source, file))


@pytest.mark.parametrize(("file", "source", "breaks"), GOOD, ids=[g[1].splitlines()[-1].strip() for g in GOOD])
def test_the_checks_pass_a_good_import(file, source, breaks) -> None:
    assert not any(breaks(i) for i in imports_of(source, file))


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import prune_engine", ("tvm", "lightgbm", "sqlalchemy", "onnx", "typer", "rich", "yaml")),
        ("import prune_engine.hardware", ("tvm", "yaml", "platformdirs", "sqlalchemy")),
        ("import prune_engine.plugins, prune_engine.engine", ("tvm", "lightgbm", "sqlalchemy", "pytest")),
        ("import prune_engine.testing", ("tvm", "pytest", "sqlalchemy")),
        ("import prune_engine.cli", ("tvm", "lightgbm", "onnx", "onnxruntime", "sqlalchemy")),
        ("import prune_engine.own_kernels.pruner", ("tvm", "lightgbm", "sqlalchemy", "typer", "rich")),
        (
            "import prune_engine.api.tuning, prune_engine.api.search, prune_engine.api.results",
            ("tvm", "lightgbm", "onnx", "onnxruntime", "sqlalchemy", "typer", "rich"),
        ),
        ("import prune_engine.ffi", ("tvm", "lightgbm", "sqlalchemy", "typer")),
        ("import prune_engine_triton", ("triton", "torch", "tvm")),
        ("import prune_engine_kernel_tuner", ("kernel_tuner", "tvm")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_import_stays_light(statement: str, absent: tuple[str, ...]) -> None:
    program = f"import sys; {statement}; print([m for m in {absent!r} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.strip() == "[]"


def test_every_package_is_installed() -> None:
    """An editable installation finds files that a wheel would lack."""
    tomllib = pytest.importorskip("tomllib", reason="part of Python since 3.11")
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = [file.parent for top in (PACKAGE, *PLUGINS.iterdir()) for file in top.rglob("__init__.py")]
    found = {".".join(f.relative_to(ROOT if PACKAGE in (f, *f.parents) else PLUGINS).parts) for f in folders}
    assert found <= set(listed), f"not in pyproject.toml: {sorted(found - set(listed))}"
    assert len(set(listed)) == len(listed)
