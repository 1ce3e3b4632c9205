"""`prune-engine whitelist`: what is listed, added, removed, checked, written and taken in."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kits.recordings import schedules, write_database
from kits.whitelists import enlist, make_check, make_listed

from prune_engine.hardware.host import cpu_model
from prune_engine.store import open_store
from prune_engine.testing import make_batch, make_space, make_task
from prune_engine.whitelist.entries import Whitelist, WhitelistEntry
from prune_engine.whitelist.events import whitelist_of

Inside = Callable[..., "tuple[int, str, str]"]
BATCH = make_batch(4, space=make_space(make_task()), seed=3)


def here(**changed: Any) -> Any:
    return make_check(device_name=cpu_model(), **changed)


@pytest.fixture
def fill(tmp_path: Path) -> Callable[..., str]:
    """Makes a store that lists these entries; returns its name."""

    def make(*entries: WhitelistEntry, name: str = "store.sqlite3") -> str:
        store = open_store(str(tmp_path / name))
        enlist(store, *entries)
        store.close()
        return str(tmp_path / name)

    return make


def kept(store: str) -> Whitelist:
    opened = open_store(store)
    found = whitelist_of(opened.whitelist_events())
    opened.close()
    return found


def test_list_says_what_counts_here(inside: Inside, fill: Any) -> None:
    good = make_listed(BATCH, 0, checks=(here(),), note="release [3]")
    failed = make_listed(BATCH, 1, checks=(here(), here(problems=("slow",))))
    store = fill(good, failed, make_listed(BATCH, 2))
    code, out, _ = inside("whitelist", "list", "--store", store)
    assert code == 0
    rows = {line.split()[1]: line for line in out.splitlines()[1:-1]}
    assert " counts " in rows[good.entry_id[:10]]
    assert "release [3]" in rows[good.entry_id[:10]]
    assert " failed " in rows[failed.entry_id[:10]]
    assert " not checked " in rows[make_listed(BATCH, 2).entry_id[:10]]
    assert "3 schedules, revision 3" in out
    code, out, _ = inside("whitelist", "list", "--json", "--store", store)
    record = json.loads(out)
    assert [e["counts_here"] for e in record["entries"]] == [True, False, False]
    check = record["entries"][0]["checks"][0]
    assert check["numeric"][0] == {"name": "random", "is_ok": True, "max_error": 1e-7, "bound": 1e-5, "problem": ""}
    assert check["speedup"] == pytest.approx(4.0)


def test_an_empty_list_is_no_error(inside: Inside, fill: Any) -> None:
    store = fill()
    assert "0 schedules, revision 0" in inside("whitelist", "list", "--store", store)[1]
    assert inside("whitelist", "verify", "--store", store)[0] == 0


def test_remove_keeps_the_reason(inside: Inside, fill: Any) -> None:
    entry = make_listed(BATCH, 0)
    store = fill(entry, make_listed(BATCH, 1))
    arguments = ("--reason", "driver 5 miscompiles it", "--by", "bob", "--store", store)
    assert inside("whitelist", "remove", entry.entry_id[:8], *arguments)[0] == 0
    assert list(kept(store).entries) == [make_listed(BATCH, 1).entry_id]
    _, out, _ = inside("whitelist", "list", "--removed", "--store", store)
    assert "driver 5 miscompiles it" in out
    assert "bob" in out
    _, out, _ = inside("whitelist", "list", "--removed", "--json", "--store", store)
    assert json.loads(out)["removed"][0]["reason"] == "driver 5 miscompiles it"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("remove", "nosuch", "--reason", "x"), "no such entry"),
        (("remove", "", "--reason", "x"), "no such entry"),
        (("remove", "ALL", "--reason", " "), "needs a reason"),
        (("verify", "nosuch"), "no such entry"),
        (("import", "missing.json"), "cannot be read"),
        (("export", "no/such/folder/x.json"), "cannot be written"),
        (("add", "gemm:0x0x0"), "gemm"),
        (("add", "1", "--from", "nowhere", "--task", "x"), "without effect with --from"),
        (("add", "gemm:8x8x8", "--threads", "99999"), "more threads than usable cores"),
    ],
)
def test_what_cannot_be_done_changes_nothing(
    inside: Inside, fill: Any, arguments: tuple[str, ...], message: str
) -> None:
    store = fill(make_listed(BATCH, 0))
    code, _, err = inside("whitelist", *arguments, "--store", store)
    assert code in (2, 3, 5)
    assert message in err
    assert (kept(store).revision, len(kept(store).entries)) == (1, 1)


def test_export_and_import_carry_everything(inside: Inside, fill: Any, tmp_path: Path) -> None:
    listed = make_listed(BATCH, 0, checks=(here(),)), make_listed(BATCH, 1)
    store, other = fill(*listed), fill(name="other.sqlite3")
    assert inside("whitelist", "export", "list.json", "--store", store)[0] == 0
    first = (tmp_path / "list.json").read_bytes()
    assert inside("whitelist", "export", "list.json", "--store", store)[0] == 0
    assert (tmp_path / "list.json").read_bytes() == first
    code, out, _ = inside("whitelist", "import", "list.json", "--store", other)
    assert code == 0
    assert "2 new, 0 known, 0 left out" in out
    assert "1 do not count here until" in out
    assert dict(kept(other).entries) == dict(kept(store).entries)
    _, out, _ = inside("whitelist", "import", "list.json", "--json", "--store", other)
    record = json.loads(out)
    assert (record["n_new"], record["n_known"], record["n_unverified"], record["revision"]) == (0, 2, 1, 2)


def test_an_export_with_unreadable_entries_is_refused_until_one_says_so(
    inside: Inside, fill: Any, tmp_path: Path
) -> None:
    entries = make_listed(BATCH, 0), make_listed(BATCH, 1)
    store, file = fill(*entries), tmp_path / "list.json"
    assert inside("whitelist", "export", file, "--store", store)[0] == 0
    good = file.read_bytes()
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE whitelist_events SET content = '{}' WHERE entry_id = ?", [entries[0].entry_id])
    connection.close()
    code, _, err = inside("whitelist", "export", file, "--store", store)
    assert code == 4
    assert "not all of the whitelist can be read, so nothing was exported; got 1 unreadable of 2" in err
    assert "--skip-unreadable exports the others" in err
    assert file.read_bytes() == good
    code, _, err = inside("whitelist", "export", file, "--skip-unreadable", "--store", store)
    assert code == 0
    assert [one["entry_id"] for one in json.loads(file.read_text())["entries"]] == [entries[1].entry_id]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"name": "a package"}', "got no whitelist; expected a new file, or an earlier export"),
        ('{"prune_engine_whitelist": 99}', "holds a whitelist that cannot be read"),
        (None, "holds entries that this whitelist does not have"),
    ],
    ids=["another JSON", "another version", "of somebody else"],
)
def test_an_export_overwrites_nothing_that_would_be_lost(
    inside: Inside, fill: Any, tmp_path: Path, text: str | None, told: str
) -> None:
    file = tmp_path / "list.json"
    if text is None:
        other = fill(make_listed(BATCH, 0), make_listed(BATCH, 1), name="other.sqlite3")
        assert inside("whitelist", "export", file, "--store", other)[0] == 0
    else:
        file.write_text(text)
    before = file.read_bytes()
    store = fill(make_listed(BATCH, 0))
    code, _, err = inside("whitelist", "export", file, "--store", store)
    assert code == 5
    assert told in err
    assert file.read_bytes() == before
    is_whitelist = "prune_engine_whitelist" in before.decode()
    assert inside("whitelist", "export", file, "--overwrite", "--store", store)[0] == (0 if is_whitelist else 5)


def test_nothing_of_a_damaged_file_is_taken_in(inside: Inside, fill: Any, tmp_path: Path) -> None:
    store = fill(make_listed(BATCH, 0), make_listed(BATCH, 1))
    inside("whitelist", "export", "list.json", "--store", store)
    text = (tmp_path / "list.json").read_text()
    (tmp_path / "list.json").write_text(text.replace("approved", "APPROVED", 1))
    other = fill(name="other.sqlite3")
    code, _, err = inside("whitelist", "import", "list.json", "--store", other)
    assert code == 2
    assert "was changed after it was written" in err
    assert kept(other).revision == 0


def test_a_damaged_row_is_told_fails_verify_and_can_be_removed(inside: Inside, fill: Any) -> None:
    entry = make_listed(BATCH, 0)
    store = fill(entry)
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE whitelist_events SET content = '{}'")
    connection.close()
    code, _, err = inside("whitelist", "list", "--store", store)
    assert code == 0
    assert f"entry {entry.entry_id} cannot be read" in err
    assert inside("whitelist", "verify", "--store", store)[0] == 1
    assert inside("whitelist", "remove", entry.entry_id, "--reason", "damaged", "--store", store)[0] == 0
    assert not kept(store).broken


def test_a_schedule_of_a_database_is_added_checked_and_found_again(
    inside: Inside, fill: Any, tmp_path: Path
) -> None:
    made = schedules("gemm:64x64x64", 2)
    write_database(tmp_path / "tuned" / "database", (made, [[secs] for secs in made.secs]))
    store = fill()
    where = ("--store", store, "--threads", "1")
    code, out, err = inside("whitelist", "add", "tuned", "--from", "tuned", "--note", "ok", "--json", *where)
    assert code == 0, err
    entry = json.loads(out)["entry"]
    assert entry["counts_here"]
    assert entry["note"] == "ok"
    assert all(case["is_ok"] for case in entry["checks"][0]["numeric"])
    assert entry["checks"][0]["speedup"] > 1
    code, _, err = inside("whitelist", "add", "1", "best", "--from", "tuned", *where)
    assert code == 2
    assert "is whitelisted already" in err
    opened = open_store(store)
    (listed,) = whitelist_of(opened.whitelist_events()).entries.values()
    other = replace(listed, arg_shapes=((64, 64), (64, 64), (64, 65)))
    enlist(opened, other)
    opened.close()
    code, out, err = inside("whitelist", "verify", "--json", "--max-slowdown", "1000", *where)
    assert code == 1, "one of the two is not the kernel that it says it is"
    found = {one["entry_id"]: one for one in json.loads(out)["entries"]}
    assert found[listed.entry_id]["is_passed"], err
    assert found[other.entry_id]["problems"] == ["its kernel is another than it says"]
    assert len(kept(store).entries[listed.entry_id].checks) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nosuch", "best"), "no such kernel"),
        (("1", "nosuch"), "no such candidate"),
        (("1", ""), "no such candidate"),
    ],
)
def test_what_is_not_in_a_database_is_named(
    inside: Inside, fill: Any, tmp_path: Path, arguments: tuple[str, str], message: str
) -> None:
    made = schedules("gemm:64x64x64", 2)
    write_database(tmp_path / "tuned" / "database", (made, [[secs] for secs in made.secs]))
    store = fill()
    code, _, err = inside("whitelist", "add", *arguments, "--from", "tuned", "--store", store, "--threads", "1")
    assert code == 2
    assert message in err
    assert kept(store).revision == 0


def test_a_store_without_measurements_of_a_kernel_says_so(inside: Inside, fill: Any) -> None:
    code, _, err = inside("whitelist", "add", "gemm:32x16x16", "--store", fill(), "--threads", "1")
    assert code == 2
    assert "no schedule of it was measured completely" in err
