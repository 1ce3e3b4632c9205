"""The store on a SQL database, SQLite by default."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Executable,
    RowMapping,
    Table,
    delete,
    func,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from prune_engine.errors import StoreError
from prune_engine.library.entries import LibraryEntry, LibraryQuery
from prune_engine.measurement import Comparison, MeasuredCandidate
from prune_engine.store import rows, schema
from prune_engine.store.base import RunRecord, Store, StoredCandidate
from prune_engine.store.connect import WRITES, connect, file_of, parse_url, use_write_ahead_log
from prune_engine.store.failures import store_errors
from prune_engine.store.library_rows import entries_of, entry_row
from prune_engine.store.migrate import bring_up_to_date
from prune_engine.store.whitelist_rows import event_of, event_row
from prune_engine.task import TuningTask
from prune_engine.verdicts import Verdict
from prune_engine.whitelist.entries import WhitelistEvent

_COUNT_KEY = ("task_id", "run_id", "stage", "strategy", "outcome", "reason")
_TRAIL_KEY = ("task_id", "candidate_id", "run_id", "stage", "strategy", "outcome", "reason")

#: Values in one statement.
_CHUNK = 500


class SqlStore(Store):
    """A store on SQLite (file or memory) or PostgreSQL.

    A committed SQLite transaction survives ``kill -9`` and, as far as the disk keeps what it was told to
    sync, a power cut. ``wait_secs`` is how long a write waits for another process's write.

    Raises StoreError (cannot be opened, not a database, another program's), StoreLockedError,
    StoreVersionError (schema of a newer prune_engine), StoreFullError.
    """

    def __init__(self, url: str, *, wait_secs: float = 30.0) -> None:
        parsed = parse_url(url)
        self._file, self._wait_secs = file_of(parsed), wait_secs
        self.url = str(self._file) if self._file else parsed.render_as_string(hide_password=True)
        self._pid = os.getpid()
        self._is_closed = False
        self._engine = connect(parsed, wait_secs)
        try:
            with self._errors():
                bring_up_to_date(self._engine, self.url)
                use_write_ahead_log(self._engine, wait_secs)
        except BaseException:
            self._engine.dispose()
            raise

    def start_run(self, manifest: Mapping[str, object]) -> str:
        """Record the start of a run; return its id."""
        run_id = uuid.uuid4().hex
        row: rows.Row = {
            "run_id": run_id,
            "started_at": time.time(),
            "manifest": rows.to_json(dict(manifest), "a run's manifest"),
        }
        with self._writing() as connection:
            connection.execute(schema.runs.insert(), row)
        return run_id

    def finish_run(self, run_id: str) -> None:
        """Record that a run ended in order. Raises StoreError for an unknown run."""
        with self._writing() as connection:
            done = connection.execute(
                update(schema.runs).where(schema.runs.c.run_id == run_id).values(finished_at=time.time())
            )
            if done.rowcount != 1:
                raise StoreError("no such run", who=self.url, got=repr(run_id), expected="an id of start_run")

    def add_to_manifest(self, run_id: str, added: Mapping[str, object]) -> None:
        """Note in a run's manifest what is known at its end; what it has already stays. Raises StoreError."""
        with self._writing() as connection:
            chosen = select(schema.runs.c.manifest).where(schema.runs.c.run_id == run_id)
            text = connection.execute(chosen).scalar_one_or_none()
            if text is None:
                raise StoreError("no such run", who=self.url, got=repr(run_id), expected="an id of start_run")
            manifest = rows.to_json({**added, **json.loads(text)}, "a run's manifest")
            connection.execute(update(schema.runs).where(schema.runs.c.run_id == run_id).values(manifest=manifest))

    def add_tasks(self, run_id: str, tasks: Sequence[TuningTask]) -> None:
        """Remember tasks (their description, not their module) and that this run tuned them."""
        descriptions = [rows.task_row(task) for task in tasks]
        uses: list[rows.Row] = [
            {"run_id": run_id, "task_id": t.task_id, "name": t.name, "weight": int(t.weight)} for t in tasks
        ]
        with self._writing() as connection:
            self._insert_new(connection, schema.tasks, ("task_id",), descriptions)
            self._insert_new(connection, schema.run_tasks, ("run_id", "task_id"), uses)

    def tasks(self, run_id: str) -> Sequence[TuningTask]:
        """The tasks of a run as it knew them, without their modules, by id; none of an unknown run."""
        uses, tasks = schema.run_tasks, schema.tasks
        described = select(tasks, uses.c.name, uses.c.weight).join(uses, uses.c.task_id == tasks.c.task_id)
        with self._reading() as connection:
            found = connection.execute(described.where(uses.c.run_id == run_id).order_by(tasks.c.task_id))
            return [rows.task_of(row) for row in found.mappings()]

    def add_measured(
        self, run_id: str, task_id: str, sketch_ids: Sequence[str], measured: Sequence[MeasuredCandidate]
    ) -> None:
        """Write measurements in one transaction; a key that is already there is left as it is."""
        new = [{"run_id": run_id, **rows.measurement_row(task_id, sketch_ids, one)} for one in measured]
        with self._writing() as connection:
            key = ("task_id", "device_name", "n_threads", "candidate_id")
            self._insert_new(connection, schema.measurements, key, new)

    def measured_ids(self, task_id: str, device_name: str, n_threads: int) -> frozenset[str]:
        """Ids of all candidates of a task ever measured on this device with this many threads, failures too."""
        table = schema.measurements
        with self._reading() as connection:
            found = connection.scalars(
                select(table.c.candidate_id).where(*_measured_here(table, task_id, device_name, n_threads))
            )
            return frozenset(found)

    def candidates(self, task_id: str, device_name: str, n_threads: int) -> Sequence[StoredCandidate]:
        """Everything measured for a task on this device with this many threads, in the order of writing."""
        table = schema.measurements
        with self._reading() as connection:
            found = connection.execute(
                select(table).where(*_measured_here(table, task_id, device_name, n_threads)).order_by(table.c.seq)
            )
            return [rows.stored_candidate(row) for row in found.mappings()]

    def add_comparison(
        self, run_id: str, task_id: str, device_name: str, n_threads: int, comparison: Comparison
    ) -> None:
        """Write the interleaved re-timing of a task's finalists."""
        row: rows.Row = {
            "run_id": run_id,
            "task_id": task_id,
            "device_name": device_name,
            "n_threads": int(n_threads),
            "compared_at": time.time(),
            "comparison": rows.comparison_json(comparison),
        }
        with self._writing() as connection:
            connection.execute(schema.comparisons.insert(), row)

    def last_comparison(self, task_id: str, device_name: str, n_threads: int) -> Comparison | None:
        """The comparison of a task that was written last, or None."""
        table = schema.comparisons
        with self._reading() as connection:
            text = connection.scalar(
                select(table.c.comparison)
                .where(*_measured_here(table, task_id, device_name, n_threads))
                .order_by(table.c.seq.desc())
                .limit(1)
            )
            return None if text is None else rows.comparison_of(text)

    def add_verdicts(self, run_id: str, task_id: str, verdicts: Sequence[Verdict]) -> None:
        """Write verdicts; equal ones (stage, strategy, outcome, reason, candidate) add their counts up."""
        counts: list[rows.Row] = []
        trail: list[rows.Row] = []
        for verdict in verdicts:
            row: rows.Row = {"run_id": run_id, "task_id": task_id, **rows.verdict_row(verdict)}
            if verdict.candidate_id is None:
                counts.append(row)
            else:
                trail.append({**row, "candidate_id": verdict.candidate_id})
        with self._writing() as connection:
            self._add_up(connection, schema.verdict_counts, _COUNT_KEY, counts)
            self._add_up(connection, schema.candidate_verdicts, _TRAIL_KEY, trail)

    def verdicts(self, task_id: str, candidate_id: str | None = None) -> Sequence[Verdict]:
        """A task's verdicts: all of them, or those on one candidate. Counts are summed over all runs."""
        counts, trail = schema.verdict_counts, schema.candidate_verdicts
        with self._reading() as connection:
            if candidate_id is not None:
                on_candidate = select(trail).where(trail.c.task_id == task_id, trail.c.candidate_id == candidate_id)
                return _summed(connection, on_candidate.order_by(trail.c.seq))
            of_task = select(counts).where(counts.c.task_id == task_id).order_by(counts.c.seq)
            on_candidates = select(trail).where(trail.c.task_id == task_id).order_by(trail.c.seq)
            return _summed(connection, of_task) + _summed(connection, on_candidates)

    def add_entries(self, entries: Sequence[LibraryEntry]) -> int:
        """Write entries of the library; of those already there the faster stays. Returns how many were new."""
        if not entries:
            return 0
        table = schema.library
        new = list({entry.entry_id: entry_row(entry) for entry in sorted(entries, key=_speed)}.values())
        insert = self._insert(table)
        names = ("model", "flop_per_sec", "added_at", "entry")
        statement = insert.on_conflict_do_update(
            index_elements=("entry_id",),
            set_={name: insert.excluded[name] for name in names},
            where=insert.excluded.flop_per_sec > table.c.flop_per_sec,
        )
        with self._writing() as connection:
            before = connection.scalar(select(func.count()).select_from(table)) or 0
            connection.execute(statement, new)
            return int(connection.scalar(select(func.count()).select_from(table)) or 0) - int(before)

    def find(self, query: LibraryQuery) -> Sequence[LibraryEntry]:
        """The entries of the library asked for, fastest first. One that cannot be read is told and passed over."""
        table = schema.library
        wanted = {
            table.c.strict_class: query.strict,
            table.c.anchor_class: query.anchor,
            table.c.device_name: query.device_name,
            table.c.n_threads: query.n_threads,
            table.c.model: query.model,
        }
        found = select(table.c.entry_id, table.c.entry).where(
            *(column == value for column, value in wanted.items() if value is not None)
        )
        with self._reading() as connection:
            best_first = found.order_by(table.c.flop_per_sec.desc(), table.c.seq).limit(query.limit)
            return entries_of(connection.execute(best_first).mappings(), self.url)

    def remove_entries(self, entry_ids: Sequence[str]) -> int:
        """Remove entries of the library. Returns how many there were."""
        table, n_removed = schema.library, 0
        with self._writing() as connection:
            for start in range(0, len(entry_ids), _CHUNK):  # databases limit the values of one statement
                chosen = table.c.entry_id.in_(list(entry_ids[start : start + _CHUNK]))
                n_removed += connection.execute(delete(table).where(chosen)).rowcount
        return n_removed

    def whitelist_events(self, strict_class: str | None = None) -> Sequence[WhitelistEvent]:
        """The changes of the whitelist in their order: all, or those on entries of one class of kernels."""
        table = schema.whitelist_events
        query = select(table).order_by(table.c.revision)
        with self._reading() as connection:
            found = query if strict_class is None else query.where(table.c.strict_class == strict_class)
            return [event_of(row) for row in connection.execute(found).mappings()]

    def add_whitelist_events(self, events: Sequence[WhitelistEvent], *, after: int | None = None) -> int:
        """Write changes of the whitelist in one transaction; return the revision of the last."""
        table = schema.whitelist_events
        with self._writing() as connection:
            revision = int(connection.scalar(select(func.max(table.c.revision))) or 0)
            if after is not None and after != revision:
                raise StoreError(
                    "the whitelist was changed by another process",
                    who=self.url,
                    got=f"revision {revision}",
                    expected=f"revision {after}, by which this was decided",
                    remedy="Give the command again.",
                )
            if events:
                connection.execute(table.insert(), [event_row(e, revision + n) for n, e in enumerate(events, 1)])
            return revision + len(events)

    def runs(self) -> Sequence[RunRecord]:
        """All runs, the one started last first."""
        with self._reading() as connection:
            found = connection.execute(select(schema.runs).order_by(schema.runs.c.seq.desc()))
            return [rows.run_record(row) for row in found.mappings()]

    def close(self) -> None:
        """Release the store. Closing twice does nothing; any other call afterwards raises StoreError."""
        if not self._is_closed:
            self._is_closed = True
            with self._errors():
                self._engine.dispose(close=self._pid == os.getpid())

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """A transaction that holds the write lock from its start; committed at the end, undone on any error."""
        options = {WRITES: True}
        with (
            self._errors(),
            self._usable().connect().execution_options(**options) as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """A consistent view of what was committed."""
        with self._errors(), self._usable().connect() as connection:
            yield connection

    def _errors(self) -> AbstractContextManager[None]:
        return store_errors(self.url, self._file, self._wait_secs)

    def _usable(self) -> Engine:
        if self._is_closed:
            raise StoreError("the store is closed", who=self.url, remedy="Open it again.")
        if self._pid != os.getpid():
            # SQLite's locks do not survive a fork; using the connection in the child damages the file.
            raise StoreError(
                "used in a forked process", who=self.url, remedy="Open a store of its own in each process."
            )
        return self._engine

    def _insert(self, table: Table) -> sqlite.Insert | postgresql.Insert:
        is_sqlite = self._engine.dialect.name == "sqlite"
        return sqlite.insert(table) if is_sqlite else postgresql.insert(table)

    def _insert_new(
        self, connection: Connection, table: Table, key: Sequence[str], new: Sequence[rows.Row]
    ) -> None:
        """Insert rows; skip those whose key is there."""
        if new:
            connection.execute(self._insert(table).on_conflict_do_nothing(index_elements=key), new)

    def _add_up(self, connection: Connection, table: Table, key: Sequence[str], new: Sequence[rows.Row]) -> None:
        """Insert rows; where the key is there, add the count and keep the newest evidence."""
        if not new:
            return
        insert = self._insert(table)
        statement = insert.on_conflict_do_update(
            index_elements=key,
            set_={"count": table.c.count + insert.excluded["count"], "evidence": insert.excluded.evidence},
        )
        connection.execute(statement, _merged(new, key))


def _merged(new: Sequence[rows.Row], key: Sequence[str]) -> list[rows.Row]:
    """One row per key: a single statement may not meet the same row twice on every database."""
    merged: dict[tuple[object, ...], rows.Row] = {}
    for row in new:
        seen = merged.setdefault(tuple(row[name] for name in key), {**row, "count": 0})
        seen["count"] = int(str(seen["count"])) + int(str(row["count"]))
        seen["evidence"] = row["evidence"]
    return list(merged.values())


def _speed(entry: LibraryEntry) -> float:
    return entry.flop_per_sec


def _measured_here(table: Table, task_id: str, device_name: str, n_threads: int) -> list[ColumnElement[bool]]:
    return [table.c.task_id == task_id, table.c.device_name == device_name, table.c.n_threads == int(n_threads)]


def _summed(connection: Connection, query: Executable) -> list[Verdict]:
    """Verdicts of all runs, equal ones added up, in the order in which each was first reached."""
    counts: dict[tuple[object, ...], int] = {}
    newest: dict[tuple[object, ...], RowMapping] = {}
    for row in connection.execute(query).mappings():
        key = (row.get("candidate_id"), row["stage"], row["strategy"], row["outcome"], row["reason"])
        counts[key] = counts.get(key, 0) + row["count"]
        newest[key] = row
    return [rows.verdict_of(row, counts[key], row.get("candidate_id")) for key, row in newest.items()]
