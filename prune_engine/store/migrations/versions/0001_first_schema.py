"""The first schema: runs, tasks, measurements, comparisons, verdicts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make every table."""
    op.create_table(
        "runs",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("finished_at", sa.Double(), nullable=True),
        sa.Column("manifest", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_runs")),
        sa.UniqueConstraint("run_id", name=op.f("uq_runs_run_id")),
    )
    op.create_table(
        "tasks",
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("flop_count", sa.BigInteger(), nullable=False),
        sa.Column("arg_shapes", sa.Text(), nullable=False),
        sa.Column("arg_dtypes", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", name=op.f("pk_tasks")),
    )
    op.create_table(
        "candidate_verdicts",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("candidate_id", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("strategy", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_candidate_verdicts_run_id")),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.task_id"], name=op.f("fk_candidate_verdicts_task_id")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_candidate_verdicts")),
        sa.UniqueConstraint(
            "task_id",
            "candidate_id",
            "run_id",
            "stage",
            "strategy",
            "outcome",
            "reason",
            name=op.f("uq_candidate_verdicts_task_id"),
        ),
    )
    op.create_table(
        "comparisons",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("device_name", sa.Text(), nullable=False),
        sa.Column("n_threads", sa.Integer(), nullable=False),
        sa.Column("compared_at", sa.Double(), nullable=False),
        sa.Column("comparison", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_comparisons_run_id")),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.task_id"], name=op.f("fk_comparisons_task_id")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_comparisons")),
    )
    op.create_index(
        op.f("ix_comparisons_task_id"), "comparisons", ["task_id", "device_name", "n_threads"], unique=False
    )
    op.create_table(
        "measurements",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("candidate_id", sa.Text(), nullable=False),
        sa.Column("device_name", sa.Text(), nullable=False),
        sa.Column("n_threads", sa.Integer(), nullable=False),
        sa.Column("sketch_id", sa.Text(), nullable=True),
        sa.Column("sketch_index", sa.Integer(), nullable=True),
        sa.Column("decisions", sa.Text(), nullable=False),
        sa.Column("trace_json", sa.Text(), nullable=True),
        sa.Column("run_secs", sa.Text(), nullable=False),
        sa.Column("error_kind", sa.Text(), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("build_secs", sa.Double(), nullable=False),
        sa.Column("profile_digest", sa.Text(), nullable=False),
        sa.Column("measured_at", sa.Double(), nullable=False),
        sa.Column("stage", sa.Integer(), nullable=False),
        sa.Column("is_censored", sa.Boolean(), nullable=False),
        sa.Column("is_noisy", sa.Boolean(), nullable=False),
        sa.Column("load_average", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_measurements_run_id")),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.task_id"], name=op.f("fk_measurements_task_id")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_measurements")),
        sa.UniqueConstraint(
            "task_id", "device_name", "n_threads", "candidate_id", name=op.f("uq_measurements_task_id")
        ),
    )
    op.create_table(
        "run_tasks",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("weight", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_run_tasks_run_id")),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.task_id"], name=op.f("fk_run_tasks_task_id")),
        sa.PrimaryKeyConstraint("run_id", "task_id", name=op.f("pk_run_tasks")),
    )
    op.create_table(
        "verdict_counts",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("strategy", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_verdict_counts_run_id")),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.task_id"], name=op.f("fk_verdict_counts_task_id")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_verdict_counts")),
        sa.UniqueConstraint(
            "task_id", "run_id", "stage", "strategy", "outcome", "reason", name=op.f("uq_verdict_counts_task_id")
        ),
    )
