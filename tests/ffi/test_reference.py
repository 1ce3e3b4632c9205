"""The reference of the functions for other languages is that of the code."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from prune_engine.ffi import abi, handles, table_spaces
from prune_engine.ffi.answers import pruned_record, space_record
from prune_engine.ffi.functions import FUNCTIONS, PruneOptions
from prune_engine.ffi.handles import open_space
from prune_engine.ffi.registering import error_kinds

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "reference" / "ffi.md").read_text(encoding="utf-8")
_TYPES = {"tvm_ffi.Tensor": "Tensor", "tvm_ffi.Map": "Map", "|": "or"}


def _in_words(annotation: str) -> str:
    for ours, theirs in _TYPES.items():
        annotation = annotation.replace(ours, theirs)
    return annotation


def _row(name: str) -> str:
    signature = inspect.signature(FUNCTIONS[name])
    arguments = ", ".join(
        f"{one.name}: {_in_words(one.annotation)}"
        + (
            ""
            if one.default is one.empty
            else f' = "{one.default}"'
            if one.default == "{}"
            else f" = {one.default}"
        )
        for one in signature.parameters.values()
    )
    told = f"`{arguments}`" if arguments else "–"
    return f"| `{name}` | {told} | `{signature.return_annotation}` |".replace("tvm_ffi.", "")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signature_is_documented(name: str) -> None:
    assert _row(name) in TEXT


def test_nothing_else_is_documented() -> None:
    assert re.findall(r"^\| `(prune_engine\.\w+)` \| [`–]", TEXT, re.MULTILINE) == list(FUNCTIONS)


@pytest.mark.parametrize(
    "model",
    [
        handles.ProfileOptions,
        handles.WorkloadSource,
        handles.ModuleSource,
        table_spaces.TableSource,
        table_spaces.SketchSource,
        table_spaces.VariableSource,
        PruneOptions,
    ],
    ids=lambda model: model.__name__,
)
def test_every_key_is_documented(model: type) -> None:
    missing = [name for name in model.model_fields if f"`{name}`" not in TEXT]  # type: ignore[attr-defined]
    assert not missing


def test_every_key_of_answers_is_documented() -> None:
    space = open_space({"sketches": [{"variables": [{"name": "x", "values": [1, 2]}]}]}, "test")
    judge = handles.Profile("auto", {"draft_scorer": None}, "test")
    pruned = pruned_record(space, judge, 1, 8, 0)
    described = space_record(space)
    records = [pruned, *pruned["kept"], *pruned["verdicts"], *pruned["funnel"]]
    records += [described, *described["sketches"], *described["sketches"][0]["variables"]]
    missing = {key for record in records for key in record if f"`{key}`" not in TEXT}
    assert not missing


def test_every_documented_kind_exists() -> None:
    documented = set(re.findall(r"`(prune_engine\.\w+Error)`", TEXT))
    headers = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "prune_engine" / "include").rglob("*.h"))
    of_headers = {kind for kind in documented if f'"{kind}"' in headers}
    named = {f"prune_engine.{name}" for name in re.findall(r'StartError\("|(NotStartedError)', headers) if name}
    assert documented - of_headers - named - {"prune_engine.StartError"} <= set(error_kinds())


def test_the_header_has_the_version_of_the_code() -> None:
    header = (ROOT / "prune_engine" / "include" / "prune_engine" / "prune_engine.h").read_text(encoding="utf-8")
    assert f"kAbiVersion = {abi.abi_version()};" in header


#: The first release of the interface: what is here may only grow at its end.
FROZEN = {
    "prune_engine.AbiVersion": (),
    "prune_engine.CheckAbi": ("version",),
    "prune_engine.LoadProfile": ("name_or_path", "options"),
    "prune_engine.DescribeProfile": ("profile",),
    "prune_engine.LoadSpace": ("source",),
    "prune_engine.DescribeSpace": ("space",),
    "prune_engine.ChoiceTable": ("space", "sketch", "variable"),
    "prune_engine.RowsOfDecisions": ("space", "decisions", "sketch"),
    "prune_engine.MaskCandidates": ("space", "rows", "profile", "sketch", "symbols"),
    "prune_engine.ScoreCandidates": ("space", "rows", "profile", "sketch", "symbols"),
    "prune_engine.PruneSearchSpace": ("space", "profile", "options"),
}


@pytest.mark.parametrize("name", FROZEN)
def test_arguments_only_grow(name: str) -> None:
    parameters = list(inspect.signature(FUNCTIONS[name]).parameters.values())
    assert tuple(one.name for one in parameters[: len(FROZEN[name])]) == FROZEN[name]
    assert all(one.default is not one.empty for one in parameters[len(FROZEN[name]) :])
