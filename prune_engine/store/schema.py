"""Tables of the SQL store, as they are at HEAD_REVISION. What leads there is in ``migrations/``.

Lists and mappings are JSON text: exact for floats, readable with any SQL client, the same on every database.
Times are seconds since the epoch (UTC); durations are seconds.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

#: Newest revision in ``migrations/versions``; kept here so that opening an up-to-date store needs no alembic.
HEAD_REVISION = "0003"

#: Not alembic's default name: a database of another program that uses alembic must not look like ours.
VERSION_TABLE = "prune_engine_revision"

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

runs = Table(
    "runs",
    metadata,
    Column("seq", Integer, primary_key=True),  # order of writing: clocks may step back
    Column("run_id", Text, nullable=False),
    Column("started_at", Double, nullable=False),
    Column("finished_at", Double),
    Column("manifest", Text, nullable=False),
    UniqueConstraint("run_id"),
)

tasks = Table(
    "tasks",
    metadata,
    Column("task_id", Text, primary_key=True),
    Column("target", Text, nullable=False),
    Column("flop_count", BigInteger, nullable=False),
    Column("arg_shapes", Text, nullable=False),
    Column("arg_dtypes", Text, nullable=False),
)

run_tasks = Table(
    "run_tasks",
    metadata,
    Column("run_id", Text, ForeignKey("runs.run_id"), nullable=False),
    Column("task_id", Text, ForeignKey("tasks.task_id"), nullable=False),
    # A kernel's name and its calls per inference belong to the model that was tuned, not to the kernel.
    Column("name", Text, nullable=False),
    Column("weight", Integer, nullable=False),
    PrimaryKeyConstraint("run_id", "task_id"),
)

measurements = Table(
    "measurements",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("run_id", Text, ForeignKey("runs.run_id"), nullable=False),
    Column("task_id", Text, ForeignKey("tasks.task_id"), nullable=False),
    Column("candidate_id", Text, nullable=False),
    Column("device_name", Text, nullable=False),
    Column("n_threads", Integer, nullable=False),
    Column("sketch_id", Text),
    Column("sketch_index", Integer),
    Column("decisions", Text, nullable=False),
    Column("trace_json", Text),
    Column("run_secs", Text, nullable=False),
    Column("error_kind", Text),
    Column("error_message", Text),
    Column("build_secs", Double, nullable=False),
    Column("profile_digest", Text, nullable=False),
    Column("measured_at", Double, nullable=False),
    Column("stage", Integer, nullable=False),
    Column("is_censored", Boolean, nullable=False),
    Column("is_noisy", Boolean, nullable=False),
    Column("load_average", Double, nullable=False),
    # In this order the index alone answers "what has been measured of this task here?".
    UniqueConstraint("task_id", "device_name", "n_threads", "candidate_id"),
)

comparisons = Table(
    "comparisons",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("run_id", Text, ForeignKey("runs.run_id"), nullable=False),
    Column("task_id", Text, ForeignKey("tasks.task_id"), nullable=False),
    Column("device_name", Text, nullable=False),
    Column("n_threads", Integer, nullable=False),
    Column("compared_at", Double, nullable=False),
    Column("comparison", Text, nullable=False),
    Index(None, "task_id", "device_name", "n_threads"),
)

verdict_counts = Table(
    "verdict_counts",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("run_id", Text, ForeignKey("runs.run_id"), nullable=False),
    Column("task_id", Text, ForeignKey("tasks.task_id"), nullable=False),
    Column("stage", Text, nullable=False),
    Column("strategy", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("evidence", Text, nullable=False),
    UniqueConstraint("task_id", "run_id", "stage", "strategy", "outcome", "reason"),
)

candidate_verdicts = Table(
    "candidate_verdicts",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("run_id", Text, ForeignKey("runs.run_id"), nullable=False),
    Column("task_id", Text, ForeignKey("tasks.task_id"), nullable=False),
    Column("candidate_id", Text, nullable=False),
    Column("stage", Text, nullable=False),
    Column("strategy", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("evidence", Text, nullable=False),
    UniqueConstraint("task_id", "candidate_id", "run_id", "stage", "strategy", "outcome", "reason"),
)

library = Table(
    "library",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("entry_id", Text, nullable=False),
    Column("strict_class", Text, nullable=False),
    Column("anchor_class", Text, nullable=False),
    Column("device_name", Text, nullable=False),
    Column("n_threads", Integer, nullable=False),
    Column("model", Text, nullable=False),
    Column("flop_per_sec", Double, nullable=False),
    Column("added_at", Double, nullable=False),
    Column("entry", Text, nullable=False),
    UniqueConstraint("entry_id"),
    # Fastest first within a class is what is asked for all the time.
    Index(None, "strict_class", "flop_per_sec"),
    Index(None, "anchor_class", "flop_per_sec"),
)

whitelist_events = Table(
    "whitelist_events",
    metadata,
    Column("revision", Integer, primary_key=True, autoincrement=False),
    Column("entry_id", Text, nullable=False),
    Column("strict_class", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("happened_at", Double, nullable=False),
    Column("author", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("content", Text, nullable=False),
    Index(None, "strict_class"),
)
