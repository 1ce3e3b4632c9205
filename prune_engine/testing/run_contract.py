"""Run contract classes and tell of each check as it begins and ends, so that whoever waits knows where it hangs."""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from prune_engine.errors import PruneEngineError
from prune_engine.testing.registered_contract import Subject

#: Told of each event: ``{"event": "start", "id": ...}``, or a finished case.
Tell = Callable[[Mapping[str, object]], None]

_MODULE = "prune_engine_checked_contracts"
#: What to do where a failed check leaves a doubt.
_REMEDIES = {
    "mask_looks_at_each_candidate_alone": "Compare with numbers of the profile, not with others of the batch.",
    "each_candidate_is_scored_alone": "Do not scale by the batch: the best of one batch may be poor in another.",
    "sketches_that_could_not_be_read_are_no_failure": "Ask batch.is_opaque first, and keep what cannot be judged.",
    "inputs_are_not_changed": "Copy an array before writing into it.",
    "names_are_its_own": "Give the strategy a name that begins with your plugin's.",
    "engines_share_no_strategy": "Make the object inside the hook.",
    "refuses_another_file": "Raise prune_engine.errors.ConfigError for what `save` did not write.",
    "seed_decides": "Draw from the generator that is passed in, and from nothing else.",
}


@dataclass(slots=True)
class _Case:
    status: str = "passed"
    detail: Mapping[str, object] | None = None


def run_contracts(classes: Sequence[type], folder: Path, done: Collection[str], tell: Tell) -> None:
    """Run classes of `contract_classes` in an empty folder, without those cases whose ids are ``done``."""
    module = ModuleType(_MODULE)
    for number, contract in enumerate(classes):
        setattr(module, f"Test{number}", contract)
    sys.modules[_MODULE] = module
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (folder / "test_contracts.py").write_text(f"from {_MODULE} import *\n", encoding="utf-8")
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "--tb=no",
        "--rootdir",
        str(folder),
        "-c",
        str(folder / "pytest.ini"),
    ]
    pytest.main([*options, str(folder)], plugins=[_Teller(frozenset(done), tell)])


class _Teller:
    """A plugin of pytest's."""

    def __init__(self, done: Collection[str], tell: Tell) -> None:
        self._done, self._tell = done, tell
        self._case = _Case()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what was done before."""
        items[:] = [item for item in items if item.nodeid not in self._done]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A case begins."""
        self._case = _Case()
        self._tell({"event": "start", "id": nodeid})

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """A phase of a case is over: fixtures made, checked, fixtures given back."""
        if call.excinfo is None or self._case.status == "failed":
            return
        error = call.excinfo.value
        if isinstance(error, pytest.skip.Exception):
            self._case = _Case("skipped", {"got": str(error)})
        else:
            self._case = _Case("failed", explained(_subject(item), item, error))

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Remember what the case was about."""
        self._item = item

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """A case is over."""
        item = self._item
        subject = _subject(item)
        spec = getattr(item, "callspec", None)
        self._tell(
            {
                "event": "case",
                "id": nodeid,
                "subject": subject.name,
                "kind": subject.kind,
                "check": _check_name(item),
                "case": spec.id if spec else "",
                "status": self._case.status,
                **(self._case.detail or {}),
            }
        )


def explained(subject: Subject, item: pytest.Item, error: BaseException) -> Mapping[str, object]:
    """A failure in four fields: who, got, expected, remedy."""
    who = f"{subject.kind} {subject.name}"
    place = _place(subject, error)
    got, expected, remedy = f"{type(error).__name__}: {_line(str(error))}", "", ""
    if isinstance(error, PruneEngineError):
        got = error.problem if error.got is None else f"{error.problem}: {error.got}"
        expected = error.expected or ""
    elif isinstance(error, AssertionError | pytest.fail.Exception):
        got = _line(str(error))
    got, _, advice = got.partition(". ") if "_loop_over_" in item.name else (got, "", "")
    function = getattr(item, "function", None)
    expected = expected or _line(inspect.getdoc(function) or "")
    remedy = advice or _REMEDIES.get(_check_name(item), "")
    looked = f"Look at {place}." if place else ""
    return {"who": who, "got": got, "expected": expected, "remedy": " ".join(filter(None, (remedy, looked)))}


def _subject(item: pytest.Item) -> Subject:
    subject: Subject = item.cls.subject  # type: ignore[attr-defined]
    return subject


def _check_name(item: pytest.Item) -> str:
    return str(getattr(item, "originalname", item.name)).removeprefix("test_")


def _line(text: str) -> str:
    """The first line that says anything."""
    return re.sub(r"\s+", " ", next((line for line in text.splitlines() if line.strip()), "")).strip()


def _place(subject: Subject, error: BaseException) -> str:
    """Where in the strategy's own module it happened; else where its class stands."""
    if subject.type is None:
        return ""
    try:
        file = inspect.getsourcefile(subject.type) or ""
    except TypeError:
        return ""
    package = Path(file).parent
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename).is_relative_to(package):
            return f"{Path(frame.filename).name}:{frame.lineno}, {subject.type.__name__}"
    return f"{Path(file).name}, {subject.type.__name__}"
