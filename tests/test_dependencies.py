"""What is imported is required: a fresh environment has no more than the package asks for."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
FOLDERS = [ROOT / "prune_engine", *sorted((ROOT / "plugins").iterdir())]
OWN = {folder.name for folder in FOLDERS}
#: What comes with a requirement, which has it in its own interface.
BROUGHT = {"markupsafe": "jinja2", "ml_dtypes": "apache-tvm", "pydantic_core": "pydantic"}
#: Only the contract classes import it; `plugins check` says so where it is missing.
OPTIONAL = {"pytest"}


def required() -> set[str]:
    """Names of the distributions that the package, or an extra for other tuners, requires."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["kernel-tuner"], *extras["triton"]]
    return {canonical(re.split(r"[^\w.-]", line)[0]) for line in lines}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported() -> Iterator[tuple[str, str]]:
    """Top-level packages of others, by file."""
    for folder in FOLDERS:
        for path in folder.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    names = [node.module]
                for name in {name.partition(".")[0] for name in names} - OWN - set(sys.stdlib_module_names):
                    yield name, str(path.relative_to(ROOT))


def test_all_that_is_imported_is_required() -> None:
    distributions, names = packages_distributions(), required()
    unasked = {
        (name, path)
        for name, path in imported()
        if name not in OPTIONAL
        and canonical(BROUGHT.get(name, name)) not in names
        and not names & {canonical(d) for d in distributions.get(name, ())}
    }
    assert not unasked
    assert len({name for name, _ in imported()}) > 15


def test_what_tvms_builder_and_runner_import_is_required() -> None:
    """apache-tvm does not ask for it, and `tune_tir` fails without."""
    assert "cloudpickle" in required()
    tvm = find_spec("tvm")
    assert tvm is not None
    popen_pool = Path(str(tvm.origin)).parent / "support" / "popen_pool.py"
    assert "import cloudpickle" in popen_pool.read_text(encoding="utf-8"), "TVM does without: is it still needed?"
