"""The library of tuned kernels."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make its table."""
    op.create_table(
        "library",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("entry_id", sa.Text(), nullable=False),
        sa.Column("strict_class", sa.Text(), nullable=False),
        sa.Column("anchor_class", sa.Text(), nullable=False),
        sa.Column("device_name", sa.Text(), nullable=False),
        sa.Column("n_threads", sa.Integer(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("flop_per_sec", sa.Double(), nullable=False),
        sa.Column("added_at", sa.Double(), nullable=False),
        sa.Column("entry", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_library")),
        sa.UniqueConstraint("entry_id", name=op.f("uq_library_entry_id")),
    )
    op.create_index(op.f("ix_library_strict_class"), "library", ["strict_class", "flop_per_sec"])
    op.create_index(op.f("ix_library_anchor_class"), "library", ["anchor_class", "flop_per_sec"])
