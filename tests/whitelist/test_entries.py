"""The whitelist's records: identity, events, what holds after them, files, and taking in another list."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kits.whitelists import DEVICE, enlist, make_check, make_listed

from prune_engine.errors import ConfigError, StoreError
from prune_engine.loop.harvest import compiler_version
from prune_engine.store.base import Store
from prune_engine.testing import make_batch, make_space, make_task
from prune_engine.whitelist.entries import Whitelist, WhitelistEntry
from prune_engine.whitelist.events import added, checked, entry_of, entry_text, removed, whitelist_of
from prune_engine.whitelist.files import read_whitelist, whitelist_text
from prune_engine.whitelist.merging import Merge, merged


def entries(n: int = 3) -> list[WhitelistEntry]:
    batch = make_batch(n, space=make_space(make_task()), seed=3)
    return [make_listed(batch, row) for row in range(n)]


def listed(*events: Any) -> Whitelist:
    return whitelist_of([replace(event, revision=number) for number, event in enumerate(events, 1)])


def add(entry: WhitelistEntry) -> Any:
    return added(entry, at=1.0, by="ada", reason="")


def end(entry: WhitelistEntry, reason: str = "slow") -> Any:
    return removed(entry.entry_id, entry.kernel_class.strict, at=2.0, by="bob", reason=reason)


def test_an_entry_survives_its_text() -> None:
    entry = make_listed()
    assert entry_of(entry_text(entry)) == entry
    assert entry_of(entry_text(entry)).entry_id == entry.entry_id


def test_evidence_is_no_part_of_an_entrys_identity() -> None:
    entry = make_listed()
    assert (
        replace(entry, note="other", checks=(make_check(), make_check(run_secs=(2.0,)))).entry_id == entry.entry_id
    )
    assert replace(entry, sketch_id="other").entry_id != entry.entry_id
    assert replace(entry, arg_dtypes=("float16",) * 3).entry_id != entry.entry_id


def test_an_entry_without_a_check_is_none() -> None:
    with pytest.raises(ValueError, match="has a check"):
        replace(make_listed(), checks=())


@pytest.mark.parametrize(
    "task",
    [
        make_task(shape=(64, 48, 16)),
        replace(make_task(), arg_dtypes=("float16",) * 3),
        replace(make_task(), arg_shapes=((64, 32), (32, 48), (64, 96))),
        replace(make_task(), kernel_class=None),
        replace(make_task(), kernel_class=replace(make_task().kernel_class, strict="other")),  # type: ignore[type-var]
    ],
)
def test_an_entry_is_for_its_very_kernel_alone(task: Any) -> None:
    entry = make_listed()
    assert entry.is_for(make_task(name="called otherwise", target="llvm -num-cores 9"))
    assert not entry.is_for(task)


def test_the_last_check_of_a_device_and_compiler_counts() -> None:
    failed = make_check(problems=("slow",))
    elsewhere = make_check(device_name="other")
    entry = make_listed(checks=(make_check(), failed, elsewhere))
    assert entry.last_check(DEVICE, compiler_version()) == failed
    assert entry.last_check("other", compiler_version()) == elsewhere
    assert entry.last_check(DEVICE, "0.1") is None


def test_the_fastest_entry_comes_first() -> None:
    slow, fast, failed = entries()
    slow = replace(slow, checks=(make_check(run_secs=(3e-3,)),))
    failed = replace(failed, checks=(make_check(run_secs=(1e-9,), problems=("wrong",)),))
    found = listed(add(failed), add(slow), add(fast)).of(make_task())
    assert [entry.entry_id for entry in found] == [fast.entry_id, slow.entry_id, failed.entry_id]


def test_events_add_check_and_remove() -> None:
    first, second, _ = entries()
    late = make_check(checked_at=5.0)
    after = listed(add(first), add(second), checked(first, late, by="ada", reason=""), end(second))
    assert list(after.entries) == [first.entry_id]
    assert after.entries[first.entry_id].checks == (*first.checks, late)
    gone = after.removed[second.entry_id]
    assert (gone.entry, gone.by, gone.reason, gone.revision) == (second, "bob", "slow", 4)
    assert after.revision == 4
    again = listed(add(first), end(first), add(first))
    assert list(again.entries) == [first.entry_id]
    assert not again.removed


@pytest.mark.parametrize("content", ["", "{}", "[1, 2", '{"kernel_class": 3}'])
def test_what_cannot_be_read_costs_only_itself(content: str) -> None:
    first, second, third = entries()
    broken = replace(add(first), content=content)
    after = listed(broken, add(second), replace(checked(third, make_check(), by="", reason=""), content=content))
    assert list(after.entries) == [second.entry_id]
    assert list(after.broken) == [first.entry_id], "a check of what is not listed says nothing"
    assert "revision 1" in after.broken[first.entry_id]
    mended = listed(broken, end(first), add(second))
    assert not mended.broken


def test_a_check_that_cannot_be_read_takes_its_entry_out() -> None:
    entry = make_listed()
    after = listed(add(entry), replace(checked(entry, make_check(), by="", reason=""), content="{}"))
    assert not after.entries
    assert list(after.broken) == [entry.entry_id]


def test_an_entry_under_another_id_is_broken() -> None:
    first, second, _ = entries()
    after = listed(replace(add(first), entry_id=second.entry_id))
    assert not after.entries
    assert "content is that of" in after.broken[second.entry_id]


def test_a_store_gives_each_event_the_next_revision(store: Store) -> None:
    first, second, third = entries()
    assert store.add_whitelist_events([]) == 0
    assert store.add_whitelist_events([add(first), add(second)]) == 2
    assert store.add_whitelist_events([end(first)], after=2) == 3
    with pytest.raises(StoreError, match="changed by another process"):
        store.add_whitelist_events([add(third)], after=2)
    kept = store.whitelist_events()
    assert [event.revision for event in kept] == [1, 2, 3]
    assert kept[0] == replace(add(first), revision=1)
    assert store.whitelist_events("other") == []
    assert len(store.whitelist_events(first.kernel_class.strict)) == 3


def written(tmp_path: Path, whitelist: Whitelist) -> Path:
    path = tmp_path / "whitelist.json"
    path.write_text(whitelist_text(whitelist, "test"), encoding="utf-8")
    return path


def test_a_file_holds_all_of_it_in_a_fixed_order(tmp_path: Path) -> None:
    first, second, third = entries()
    path = written(tmp_path, listed(add(first), add(second), add(third), end(third, "wrong on zeros")))
    contents = read_whitelist(path)
    assert {entry.entry_id: entry for entry in contents.entries} == {e.entry_id: e for e in (first, second)}
    assert contents.removed == {third.entry_id: "wrong on zeros"}
    assert contents.revision == 4
    others = listed(add(third), add(second), add(first), end(third, "wrong on zeros"))
    # Only who was removed when differs, not the order of what is listed.
    assert whitelist_text(others, "test").partition('"removed"')[0] == path.read_text().partition('"removed"')[0]


def test_another_entry_changes_only_lines_of_its_own(tmp_path: Path) -> None:
    first, second, third = entries()
    before = whitelist_text(listed(add(first), add(second)), "test").splitlines()
    after = whitelist_text(listed(add(first), add(second), add(third)), "test").splitlines()
    lost = [line.rstrip(",") for line in before if line.rstrip(",") not in {one.rstrip(",") for one in after}]
    assert lost == [' "revision": 2'], "a diff shows what was added, and the revision"
    assert max(map(len, after)) < 400


def changed(path: Path, change: Any) -> Path:
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.update(prune_engine_whitelist=2), "version that this prune-engine does not read"),
        (lambda r: r.pop("prune_engine_whitelist"), "no whitelist"),
        (lambda r: r.update(entries={}), "damaged"),
        (lambda r: r.update(revision="x"), "damaged"),
        (lambda r: r.update(removed=[3]), "damaged"),
        (lambda r: r["entries"].append(3), "entry 3 is no object"),
        (lambda r: r["entries"].append(r["entries"][0]), "twice"),
        (lambda r: r["entries"][1].pop("choices"), r"entry 2 .*choices"),
        (lambda r: r["entries"][0]["checks"][0].update(run_secs="x"), r"entry 1 .*run_secs"),
        (lambda r: r["entries"][0]["checks"][0].update(run_secs=[1e-9]), "changed after it was written"),
        (lambda r: r["entries"][0].update(note="approved by nobody"), "changed after it was written"),
        (lambda r: r["entries"][0].update(entry_id="abc"), "changed after it was written"),
        (lambda r: r["entries"][0].update(trace_json=[[1], []]), "changed after it was written"),
        (lambda r: r["entries"][0].update(checks=[]), "has a check"),
    ],
)
def test_a_file_that_is_wrong_anywhere_is_refused(tmp_path: Path, change: Any, message: str) -> None:
    first, second, _ = entries()
    path = changed(written(tmp_path, listed(add(first), add(second))), change)
    with pytest.raises(ConfigError, match=message):
        read_whitelist(path)


@pytest.mark.parametrize("text", ["", "[]", "{", "nul", '{"a": 1, "a": 2}', "[" * 100_000, "\0\xff"])
def test_what_is_no_whitelist_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError):
        read_whitelist(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_whitelist(tmp_path / "missing.json")


def test_a_field_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, listed(add(make_listed())))
    path.write_text(path.read_text().replace('"revision": 1,', '"revision": 1, "revision": 1,', 1))
    with pytest.raises(ConfigError, match="a field stands in an object twice"):
        read_whitelist(path)


def merge(here: Whitelist, path: Path, **options: bool) -> Merge:
    return merged(here, read_whitelist(path), at=3.0, by="eve", source="file", **options)


def test_taking_in_a_list(tmp_path: Path, store: Store) -> None:
    first, second, third = entries()
    late = make_check(device_name="other", checked_at=7.0)
    path = written(tmp_path, listed(add(replace(first, checks=(*first.checks, late))), add(second), add(third)))
    here = listed(add(first), add(second), end(second, "wrong"))
    found = merge(here, path)
    assert (found.n_new, found.n_known, found.n_left_out) == (1, 1, 1)
    assert "removed here (wrong)" in found.remarks[0]
    enlist(store, first, second)
    store.add_whitelist_events([end(second), *found.events])
    after = whitelist_of(store.whitelist_events())
    assert set(after.entries) == {first.entry_id, third.entry_id}
    assert after.entries[first.entry_id].checks == (*first.checks, late), "evidence from elsewhere is kept"
    assert merge(here, path, restore=True).n_new == 2
    again = merge(after, path)
    assert again.n_new == 0
    assert not again.events


def test_what_was_removed_elsewhere_stays_and_is_told(tmp_path: Path) -> None:
    first, second, _ = entries()
    path = written(tmp_path, listed(add(first), add(second), end(second, "wrong on zeros")))
    found = merge(listed(add(second)), path)
    assert found.remarks == (f"entry {second.entry_id} is listed here, but was removed there (wrong on zeros)",)
